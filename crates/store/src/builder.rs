//! Configures SlateDB to open the store for writing.

use std::sync::Arc;

use slatedb::{
    BlockTransformer, BloomFilterPolicy, CacheTarget, Db, DbBuilder, GarbageCollectorBuilder,
};

use super::block_cache::BlockCaches;
use super::encryption::Unlocked;
use super::location::Place;
use super::metrics::Metrics;
use super::settings::{FILTER_BITS_PER_KEY, Settings};
use slateberg_kms::block_transformer::SealedBlocks;
use slateberg_wal as journal;

/// Encrypts blocks with the keys of a store.
pub(super) fn sealed_blocks(unlocked: &Unlocked) -> Arc<dyn BlockTransformer> {
    let inherited = unlocked.inherited.as_ref().map(|inherited| Arc::clone(&inherited.keys));
    Arc::new(SealedBlocks::new(Arc::clone(&unlocked.keys), inherited))
}

/// Options for opening a store for writing, at any location.
#[derive(Clone, Copy)]
pub(super) struct How<'a> {
    pub(super) settings: &'a Settings,
    pub(super) unlocked: Option<&'a Unlocked>,
    pub(super) metrics: &'a Metrics,
    pub(super) caches: &'a BlockCaches,
}

/// Creates the builder that opens the store for writing.
pub(super) fn builder(place: &Place, how: How<'_>) -> DbBuilder<String> {
    let How { settings, unlocked, metrics, caches } = how;
    // By default SlateDB does not cache the data blocks that a compaction writes, so each
    // compaction would make every hot key cold.
    let keep_warm = slatedb::BlockCachePolicy::default().with_compaction_output_targets(&[
        CacheTarget::data::<&[u8], _>(..),
        CacheTarget::Index,
        CacheTarget::Filters,
    ]);
    let collector =
        GarbageCollectorBuilder::new(place.path.clone(), Arc::clone(&place.object_store))
            .with_options(settings.garbage_collector(place.conditional_update));
    let collector = match &place.directory {
        Some(directory) => collector.with_wal_gc(journal::collector(directory)),
        None => collector,
    };
    let builder = Db::builder(place.path.clone(), Arc::clone(&place.object_store));
    let builder = match &place.log {
        Some(log) => builder.with_wal_object_store(log.store()),
        None => builder,
    };
    let builder = builder
        .with_settings(settings.for_slatedb(place.directory.is_some()))
        .with_filter_policies(vec![Arc::new(BloomFilterPolicy::new(FILTER_BITS_PER_KEY))])
        .with_gc_builder(collector)
        .with_metrics_recorder(metrics.recorder())
        .with_db_cache(Arc::new(caches.for_slatedb()), 0)
        .with_block_cache_policy(keep_warm);
    match unlocked {
        Some(unlocked) => builder.with_block_transformer(sealed_blocks(unlocked)),
        None => builder,
    }
}

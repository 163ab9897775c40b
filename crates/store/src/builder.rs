//! Configures SlateDB to open the store for writing.

use std::sync::Arc;

use slatedb::{
    BlockTransformer, BloomFilterPolicy, CacheTarget, Db, DbBuilder, GarbageCollectorBuilder,
};

use super::block_cache::BlockCaches;
use super::encryption::UnlockedKeys;
use super::location::StoreLocation;
use super::metrics::Metrics;
use super::settings::{FILTER_BITS_PER_KEY, Settings};
use slateberg_kms::block_transformer::SealedBlocks;
use slateberg_wal as journal;

/// Returns a transformer that encrypts blocks with the keys of a store.
pub(super) fn sealed_blocks(unlocked: &UnlockedKeys) -> Arc<dyn BlockTransformer> {
    let inherited = unlocked.inherited.as_ref().map(|inherited| Arc::clone(&inherited.keys));
    Arc::new(SealedBlocks::new(Arc::clone(&unlocked.keys), inherited))
}

/// The parameters for opening a store for writing, except its location.
#[derive(Clone, Copy)]
pub(super) struct OpenContext<'a> {
    pub(super) settings: &'a Settings,
    pub(super) unlocked: Option<&'a UnlockedKeys>,
    pub(super) metrics: &'a Metrics,
    pub(super) caches: &'a BlockCaches,
    /// The epoch of the previous writer. The open fails if another writer has opened the store
    /// since this epoch was read. `None` to fence any other writer.
    pub(super) previous_epoch: Option<u64>,
}

/// Creates the builder that opens the store for writing.
pub(super) fn builder(location: &StoreLocation, context: OpenContext<'_>) -> DbBuilder<String> {
    let OpenContext { settings, unlocked, metrics, caches, previous_epoch } = context;
    // By default, SlateDB does not cache the data blocks that a compaction writes. After each
    // compaction, even frequently read keys would then have to be fetched from the object store
    // again.
    let cache_policy = slatedb::BlockCachePolicy::default().with_compaction_output_targets(&[
        CacheTarget::data::<&[u8], _>(..),
        CacheTarget::Index,
        CacheTarget::Filters,
    ]);
    let collector =
        GarbageCollectorBuilder::new(location.path.clone(), Arc::clone(&location.object_store))
            .with_options(settings.garbage_collector(location.conditional_update));
    let collector = match &location.directory {
        Some(directory) => collector.with_wal_gc(journal::collector(directory)),
        None => collector,
    };
    let builder = Db::builder(location.path.clone(), Arc::clone(&location.object_store));
    let builder = match &location.log {
        Some(log) => builder.with_wal_object_store(log.store()),
        None => builder,
    };
    let builder = match previous_epoch {
        Some(epoch) => builder.with_expected_epoch(epoch),
        None => builder,
    };
    let builder = builder
        .with_settings(settings.for_slatedb(location.directory.is_some()))
        .with_filter_policies(vec![Arc::new(BloomFilterPolicy::new(FILTER_BITS_PER_KEY))])
        .with_gc_builder(collector)
        .with_metrics_recorder(metrics.recorder())
        .with_db_cache(Arc::new(caches.for_slatedb()), 0)
        .with_block_cache_policy(cache_policy);
    match unlocked {
        Some(unlocked) => builder.with_block_transformer(sealed_blocks(unlocked)),
        None => builder,
    }
}

//! Configures SlateDB to open the store for writing.

use std::sync::Arc;

use slatedb::object_store::path::Path;
use slatedb::{
    BlockCachePolicy, BlockTransformer, CacheTarget, Db, DbBuilder, GarbageCollectorBuilder,
};

use super::block_cache::BlockCaches;
use super::encryption::UnlockedKeys;
use super::filters;
use super::location::{Log, StoreLocation};
use super::metrics::Metrics;
use super::settings::Settings;
use slateberg_kms::block_transformer::SealedBlocks;
use slateberg_wal as journal;
use slateberg_wal::bucket::BucketLog;

/// Returns a transformer that encrypts blocks with the keys of a store.
pub(super) fn sealed_blocks(unlocked: &UnlockedKeys) -> Arc<dyn BlockTransformer> {
    let inherited = unlocked.inherited.as_ref().map(|inherited| Arc::clone(&inherited.keys));
    Arc::new(SealedBlocks::new(Arc::clone(&unlocked.keys), inherited))
}

/// Returns the log of a store in a bucket.
pub(super) fn bucket_log(location: &StoreLocation, unlocked: Option<&UnlockedKeys>) -> BucketLog {
    let object_store =
        location.log.as_ref().map_or_else(|| Arc::clone(&location.object_store), Log::store);
    let store = Path::from(location.path.as_str());
    BucketLog::new(object_store, &store, unlocked.map(sealed_blocks))
}

/// The purpose for which a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be its writer. Fences any other writer.
    Write,
    /// To be the writer of a cluster, which has replicas. With an epoch, the open fails if another
    /// writer has opened the store since this epoch was read.
    Lead {
        /// The epoch of the previous writer.
        previous_epoch: Option<u64>,
    },
    /// To be a replica. The object store is an overlay, so no other process is fenced.
    Replicate,
}

/// The parameters for opening a store, except its location.
#[derive(Clone, Copy)]
pub(super) struct OpenContext<'a> {
    pub(super) settings: &'a Settings,
    pub(super) unlocked: Option<&'a UnlockedKeys>,
    pub(super) metrics: &'a Metrics,
    pub(super) caches: &'a BlockCaches,
    pub(super) purpose: Purpose,
}

/// Creates the builder that opens the store. The caller adds the log.
pub(super) fn builder(location: &StoreLocation, context: OpenContext<'_>) -> DbBuilder<String> {
    let OpenContext { settings, unlocked, metrics, caches, purpose } = context;
    let cache_policy =
        BlockCachePolicy::default().with_compaction_output_targets(&compaction_output(location));
    let builder = Db::builder(location.path.clone(), Arc::clone(&location.object_store));
    let builder = match &location.log {
        Some(log) => builder.with_wal_object_store(log.store()),
        None => builder,
    };
    let builder = match purpose {
        Purpose::Write | Purpose::Lead { .. } => builder
            .with_settings(settings.for_slatedb(location.is_local()))
            .with_gc_builder(collector(location, settings)),
        Purpose::Replicate => builder.with_settings(settings.for_replica()),
    };
    let builder = match purpose {
        Purpose::Lead { previous_epoch: Some(epoch) } => builder.with_expected_epoch(epoch),
        _ => builder,
    };
    let builder = builder
        .with_filter_policies(filters::policies())
        .with_metrics_recorder(metrics.recorder())
        .with_db_cache(Arc::new(caches.for_slatedb()), 0)
        .with_block_cache_policy(cache_policy);
    match unlocked {
        Some(unlocked) => builder.with_block_transformer(sealed_blocks(unlocked)),
        None => builder,
    }
}

/// Returns the parts of compacted files that are cached when they are written. By default, SlateDB
/// caches no data blocks. In a bucket, even frequently read keys would then have to be fetched again
/// after each compaction. Linux already has the files of a local directory in its page cache.
fn compaction_output(location: &StoreLocation) -> Vec<CacheTarget> {
    let data = (!location.is_local()).then(|| CacheTarget::data::<&[u8], _>(..));
    [CacheTarget::Index, CacheTarget::Filters].into_iter().chain(data).collect()
}

fn collector(location: &StoreLocation, settings: &Settings) -> GarbageCollectorBuilder<String> {
    let collector =
        GarbageCollectorBuilder::new(location.path.clone(), Arc::clone(&location.object_store))
            .with_options(settings.garbage_collector(location.conditional_update));
    match &location.directory {
        Some(directory) => collector.with_wal_gc(journal::collector(directory)),
        None => collector,
    }
}

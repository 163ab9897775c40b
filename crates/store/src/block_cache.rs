//! SlateDB's cache of blocks, and its cache of indexes and filters. Both caches use moka, as
//! SlateDB's own caches do. Unlike those, they also report their size.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use moka::future::Cache;
use slatedb::db_cache::{CachedEntry, CachedKey, DbCache, SplitCache};

use super::settings::Settings;
use slateberg_telemetry::cache::CacheSize;
use slateberg_telemetry::collection::Collection;

/// Memory of an entry besides its content: its key, and its nodes in moka's lists.
const ENTRY_BYTES: usize = 256;

/// The caches of one open store. Clones share them.
#[derive(Clone)]
pub(super) struct BlockCaches {
    blocks: SizedCache,
    meta: SizedCache,
}

#[derive(Clone)]
struct SizedCache(Cache<CachedKey, CachedEntry>);

impl BlockCaches {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            blocks: SizedCache::new(settings.block_cache_bytes),
            meta: SizedCache::new(settings.meta_cache_bytes),
        }
    }

    /// Returns both caches in the form that SlateDB requires.
    pub(super) fn for_slatedb(&self) -> SplitCache {
        let shared = |cache: &SizedCache| Some(Arc::new(cache.clone()) as Arc<dyn DbCache>);
        SplitCache::new()
            .with_block_cache(shared(&self.blocks))
            .with_meta_cache(shared(&self.meta))
            .build()
    }

    /// Empties the cache of blocks.
    pub(super) fn clear_blocks(&self) {
        self.blocks.clear();
    }

    /// Empties the cache of indexes and filters.
    pub(super) fn clear_meta(&self) {
        self.meta.clear();
    }

    /// Reports the sizes of the caches. SlateDB itself counts hits and misses.
    pub(super) fn collect(&self, into: &mut Collection) {
        self.blocks.size().collect(into, "block");
        self.meta.size().collect(into, "meta");
    }
}

impl SizedCache {
    fn new(bytes_max: u64) -> Self {
        let bytes = |_: &CachedKey, entry: &CachedEntry| {
            u32::try_from(entry.size() + ENTRY_BYTES).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().weigher(bytes).max_capacity(bytes_max).build())
    }

    fn clear(&self) {
        self.0.invalidate_all();
        self.maintain();
    }

    /// Lets moka free removed entries, and count insertions. Does nothing if another thread is doing
    /// this already.
    fn maintain(&self) {
        let _ = self.0.run_pending_tasks().now_or_never();
    }

    fn size(&self) -> CacheSize {
        self.maintain();
        let bytes_max = self.0.policy().max_capacity().unwrap_or(u64::MAX);
        CacheSize { bytes: self.0.weighted_size(), bytes_max }
    }
}

#[async_trait]
impl DbCache for SizedCache {
    async fn get_block(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(self.0.get(key).await)
    }

    async fn get_index(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(self.0.get(key).await)
    }

    async fn get_filter(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(self.0.get(key).await)
    }

    async fn get_stats(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(self.0.get(key).await)
    }

    async fn insert(&self, key: CachedKey, value: CachedEntry) {
        self.0.insert(key, value).await;
    }

    async fn remove(&self, key: &CachedKey) {
        self.0.remove(key).await;
    }

    fn entry_count(&self) -> u64 {
        self.0.entry_count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::test_support::{compact, has, in_memory};

    #[tokio::test]
    async fn empty_cache_of_blocks_takes_no_memory() {
        let settings = Settings { block_cache_bytes: 1 << 20, ..Settings::default() };
        let store = Store::open(&in_memory(), settings).await.expect("the store opens");
        compact(&store).await;
        assert!(has(&store.latest(), "run-0").await);
        let blocks = &store.shared.caches.blocks;
        assert!(blocks.size().bytes > 0, "nothing is cached");
        store.clear_caches();
        assert_eq!(blocks.0.weighted_size(), 0);
    }
}

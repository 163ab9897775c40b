//! Removes the indexes and filters of compacted files from the cache of indexes and filters.
//!
//! SlateDB leaves them there until the cache is full. While many commits arrive, flushes and
//! compactions replace several files per second, and most of a cache with room for all files would
//! belong to files that nothing reads anymore.

use std::collections::HashMap;

use slatedb::manifest::{SsTableHandle, SsTableId};
use slatedb::{CacheTarget, Db, DbCacheManagerOps};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::status::Status;

/// Each of these removes one entry. A removal of data blocks would first have to read the index.
/// The cache of blocks is usually full anyway, and replaces the blocks that nothing reads.
const PARTS: [CacheTarget; 3] = [CacheTarget::Index, CacheTarget::Filters, CacheTarget::Stats];

/// The task that removes the entries. Stops when this value is dropped.
pub(super) struct CacheEviction(AbortHandle);

impl CacheEviction {
    pub(super) fn start(db: Db, status: &Status) -> Self {
        Self(tokio::spawn(run(db, status.manifest_ids())).abort_handle())
    }
}

impl Drop for CacheEviction {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Removes the entries of the files that each new manifest does not contain anymore. Ends when the
/// store is closed.
async fn run(db: Db, mut manifest_ids: watch::Receiver<u64>) {
    let mut files = current_files(&db);
    while manifest_ids.changed().await.is_ok() {
        let current = current_files(&db);
        for (_, file) in files.iter().filter(|(id, _)| !current.contains_key(id)) {
            if let Err(error) = db.evict_cached_sst(file, &PARTS).await {
                tracing::debug!(%error, "failed to remove a compacted file from the cache");
            }
        }
        files = current;
    }
}

fn current_files(db: &Db) -> HashMap<SsTableId, SsTableHandle> {
    db.manifest().all_sst_views().map(|view| (view.sst.id, view.sst.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use slateberg_telemetry::collection::Collection;
    use slateberg_telemetry::prometheus::render;

    use super::*;
    use crate::Store;
    use crate::settings::Settings;
    use crate::test_support::{compact, has, in_memory, write};

    /// Returns the bytes of cached indexes and filters.
    fn cached_bytes(store: &Store) -> u64 {
        let mut metrics = Collection::default();
        store.collect(&mut metrics);
        let text = render(&metrics);
        let value = text.lines().find_map(|line| line.strip_prefix("slateberg_meta_cache_bytes "));
        value.expect("the metric exists").parse().expect("a number")
    }

    #[tokio::test]
    async fn compacted_files_leave_the_cache_of_indexes_and_filters() {
        let settings = Settings { meta_cache_bytes: 1 << 20, ..Settings::default() };
        let store = Store::open(&in_memory(), settings).await.expect("the store opens");
        write(&store, "first").await;
        store.flush().await.expect("it is flushed");
        assert!(has(&store.latest(), "first").await);
        let bytes_of_one_file = cached_bytes(&store);
        assert!(bytes_of_one_file > 0, "nothing is cached");
        compact(&store).await;
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let (files, bytes) = (current_files(&store.db).len() as u64, cached_bytes(&store));
            if bytes <= 2 * files * bytes_of_one_file {
                break;
            }
            assert!(Instant::now() < deadline, "{files} files have {bytes} bytes in the cache");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

//! Warm-up: after the start, fetches the parts of sorted runs that every read needs.
//!
//! These are the index and the filters of each file, and the data blocks of level 0, which contain
//! the newest writes. Without these parts, the first read of a name would send three requests to
//! the bucket, one after the other. The warm-up runs while the server serves requests. It may end
//! before it is complete, because it only makes reads faster.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt;
use slatedb::{CacheTarget, DbCacheManagerOps};
use tokio::time::{Instant, timeout_at};

use super::handle::Store;
use slateberg_base::boxed;

/// Maximum number of concurrent requests.
const CONCURRENT_FETCHES: usize = 8;
/// Interval between progress logs.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// Result of a warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmUpProgress {
    /// Number of files whose parts are cached.
    pub files: usize,
    /// Number of all files.
    pub of: usize,
}

impl Store {
    /// Fetches the parts that every read needs, beginning with the newest files. Stops after
    /// `timeout`. If a file cannot be fetched, the first read that needs it fetches it.
    #[boxed]
    pub async fn warm_up(&self, timeout: Duration) -> WarmUpProgress {
        let (began, deadline) = (Instant::now(), Instant::now() + timeout);
        let manifest = self.db.manifest();
        let newest: HashSet<_> = manifest.l0().iter().map(|view| view.sst.id).collect();
        let files: Vec<_> = manifest.all_sst_views().map(|view| view.sst.id).collect();
        let mut progress = WarmUpProgress { files: 0, of: files.len() };
        let mut last_log = began;
        let mut fetched = futures::stream::iter(files)
            .map(|file| {
                let is_newest = newest.contains(&file);
                async move {
                    let parts = parts(is_newest);
                    self.db.warm_sst(file, &parts).await
                }
            })
            .buffer_unordered(CONCURRENT_FETCHES);
        while let Ok(Some(outcome)) = timeout_at(deadline, fetched.next()).await {
            match outcome {
                Ok(()) => progress.files += 1,
                Err(error) => tracing::debug!(%error, "failed to warm up a file"),
            }
            if last_log.elapsed() >= LOG_INTERVAL {
                last_log = Instant::now();
                tracing::info!(files = progress.files, of = progress.of, "warming up");
            }
        }
        let seconds = began.elapsed().as_secs_f32();
        tracing::info!(files = progress.files, of = progress.of, seconds, "warmed up");
        progress
    }
}

fn parts(is_newest: bool) -> Vec<CacheTarget> {
    let mut parts = vec![CacheTarget::Index, CacheTarget::Filters];
    if is_newest {
        parts.push(CacheTarget::data::<&[u8], _>(..));
    }
    parts
}

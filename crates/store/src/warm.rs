//! Warm-up: fetches the parts of a bucket that every read needs, before the first reads.
//!
//! These are the index and filters of each sorted run, and the blocks of level 0, which contain the
//! newest writes. Without them, the first read of a name sends three sequential requests to the
//! bucket. The warm-up runs while the server serves requests, and need not complete: it only
//! changes the duration of reads.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt;
use slatedb::{CacheTarget, DbCacheManagerOps};
use tokio::time::{Instant, timeout_at};

use super::handle::Store;

/// Maximum number of concurrent requests.
const SIDE_BY_SIDE: usize = 8;
/// Interval between progress logs.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Result of a warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warmed {
    /// Files with cached parts.
    pub files: usize,
    /// Number of all files.
    pub of: usize,
}

impl Store {
    /// Fetches the parts that reads need, the newest first, for at most `at_most`. Reads fetch the
    /// files that fail here.
    pub async fn warm_up(&self, at_most: Duration) -> Warmed {
        let (began, deadline) = (Instant::now(), Instant::now() + at_most);
        let manifest = self.db.manifest();
        let newest: HashSet<_> = manifest.l0().iter().map(|view| view.sst.id).collect();
        let files: Vec<_> = manifest.all_sst_views().map(|view| view.sst.id).collect();
        let mut warmed = Warmed { files: 0, of: files.len() };
        let mut told = began;
        let mut fetched = futures::stream::iter(files)
            .map(|file| {
                let is_newest = newest.contains(&file);
                async move {
                    let parts = parts(is_newest);
                    self.db.warm_sst(file, &parts).await
                }
            })
            .buffer_unordered(SIDE_BY_SIDE);
        while let Ok(Some(outcome)) = timeout_at(deadline, fetched.next()).await {
            match outcome {
                Ok(()) => warmed.files += 1,
                Err(error) => tracing::debug!(%error, "a file was not warmed up"),
            }
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                tracing::info!(files = warmed.files, of = warmed.of, "warming up");
            }
        }
        let seconds = began.elapsed().as_secs_f32();
        tracing::info!(files = warmed.files, of = warmed.of, seconds, "warmed up");
        warmed
    }
}

fn parts(is_newest: bool) -> Vec<CacheTarget> {
    let mut parts = vec![CacheTarget::Index, CacheTarget::Filters];
    if is_newest {
        parts.push(CacheTarget::data::<&[u8], _>(..));
    }
    parts
}

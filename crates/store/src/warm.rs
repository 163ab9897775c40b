//! Warming up: what every read of a bucket needs is fetched before anybody has to wait for it.
//!
//! That is the index and the filters of each sorted run, and the blocks of level 0, which has what was
//! written last. Without them, the first read of a name asks the bucket three times, one after the other. It
//! goes on beside the server, which is ready already, and it may be left unfinished: it changes how long a
//! read takes, and nothing else.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt;
use slatedb::{CacheTarget, DbCacheManagerOps};
use tokio::time::{Instant, timeout_at};

use super::handle::Store;

/// Files that are asked for at the same time.
const SIDE_BY_SIDE: usize = 8;
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// How far a warm-up got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warmed {
    /// Files whose part is in memory now.
    pub files: usize,
    /// Files that there were.
    pub of: usize,
}

impl Store {
    /// Fetches what reads need, the newest first, for at most so long. A file that cannot be fetched is left
    /// to whoever reads it.
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

//! How a cache is used.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what is asked of a cache.
#[derive(Debug, Default)]
pub struct CacheRequests {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// How a cache is used: hits / (hits + misses) is its hit ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheUsage {
    /// What was asked for and found.
    pub hits: u64,
    /// What was asked for and not found.
    pub misses: u64,
    /// Bytes that are kept, about.
    pub bytes: u64,
}

impl CacheRequests {
    /// Counts a request, which the cache could answer or not.
    pub fn count(&self, hit: bool) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The requests so far, of a cache that keeps so many bytes.
    pub fn usage(&self, bytes: u64) -> CacheUsage {
        let (hits, misses) =
            (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed));
        CacheUsage { hits, misses, bytes }
    }
}

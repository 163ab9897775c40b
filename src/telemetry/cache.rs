//! How a cache is used.
//!
//! Caches are asked several times in each request, on all cores at once. A number that all of them count in
//! would wander from core to core; so each thread counts in a stripe, and who reads adds them up.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Stripes that threads share among them.
const STRIPES: usize = 16;

/// Counts what is asked of a cache.
#[derive(Debug, Default)]
pub struct CacheRequests([Stripe; STRIPES]);

/// What some threads have counted, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    hits: AtomicU64,
    misses: AtomicU64,
}

thread_local! {
    /// The stripe of this thread: the next one's follows it.
    static STRIPE: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES
    };
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
        let stripe = &self.0[STRIPE.with(|stripe| *stripe)];
        let counter = if hit { &stripe.hits } else { &stripe.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The requests so far, of a cache that keeps so many bytes.
    pub fn usage(&self, bytes: u64) -> CacheUsage {
        let sum = |counter: fn(&Stripe) -> &AtomicU64| {
            self.0.iter().map(|stripe| counter(stripe).load(Ordering::Relaxed)).sum()
        };
        CacheUsage { hits: sum(|stripe| &stripe.hits), misses: sum(|stripe| &stripe.misses), bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_count_adds_up() {
        let requests = CacheRequests::default();
        std::thread::scope(|scope| {
            for _ in 0..STRIPES + 4 {
                scope.spawn(|| (0..30).for_each(|n| requests.count(n % 3 == 0)));
            }
        });
        let threads = STRIPES as u64 + 4;
        let usage = CacheUsage { hits: 10 * threads, misses: 20 * threads, bytes: 7 };
        assert_eq!(requests.usage(7), usage);
    }
}

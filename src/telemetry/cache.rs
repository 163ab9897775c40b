//! How a cache is used.
//!
//! Caches are asked several times in each request, on all cores at once: they count in [`Stripes`].

use std::sync::atomic::{AtomicU64, Ordering};

use super::collection::{Collection, attributes};
use super::stripes::Stripes;

/// Counts what is asked of a cache.
#[derive(Debug, Default)]
pub struct CacheRequests(Stripes<Asked>);

/// What some threads have counted.
#[derive(Debug, Default)]
struct Asked {
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
        let asked = self.0.own();
        let counter = if hit { &asked.hits } else { &asked.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The requests so far, of a cache that keeps so many bytes.
    pub fn usage(&self, bytes: u64) -> CacheUsage {
        let sum = |counter: fn(&Asked) -> &AtomicU64| {
            self.0.all().map(|asked| counter(asked).load(Ordering::Relaxed)).sum()
        };
        CacheUsage { hits: sum(|asked| &asked.hits), misses: sum(|asked| &asked.misses), bytes }
    }
}

impl CacheUsage {
    /// Tells it, of the cache with this name, which keeps `what`.
    pub fn collect(self, into: &mut Collection, cache: &str, what: &str) {
        let name = format!("slateberg.{cache}.cache.requests");
        let help = format!("{what} asked of the cache.");
        let results = [("hit", self.hits), ("miss", self.misses)];
        for (result, count) in results {
            into.counter(&name, "{request}", &help, attributes([("result", result)]), count);
        }
        let name = format!("slateberg.{cache}.cache");
        let help = "Bytes that the cache keeps, about.";
        into.gauge(&name, "By", help, Vec::new(), self.bytes as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::super::stripes::STRIPES;
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

//! How a cache is used.
//!
//! Caches are asked several times in each request, on all cores at once: they count in [`Stripes`].

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, Weighter};

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

/// The requests to a cache, and its size: hits / (hits + misses) is its hit ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheUsage {
    /// Requests for an entry that the cache had.
    pub hits: u64,
    /// Requests for an entry that it did not have.
    pub misses: u64,
    /// Its size.
    pub size: CacheSize,
}

/// The size of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSize {
    /// Bytes of its entries, about.
    pub bytes: u64,
    /// Bytes at which it begins to drop entries.
    pub bytes_max: u64,
}

impl CacheRequests {
    /// Counts a request, which the cache could answer or not.
    pub fn count(&self, hit: bool) {
        let asked = self.0.own();
        let counter = if hit { &asked.hits } else { &asked.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The requests so far, of a cache of this size.
    pub fn usage(&self, size: CacheSize) -> CacheUsage {
        let sum = |counter: fn(&Asked) -> &AtomicU64| {
            self.0.all().map(|asked| counter(asked).load(Ordering::Relaxed)).sum()
        };
        CacheUsage { hits: sum(|asked| &asked.hits), misses: sum(|asked| &asked.misses), size }
    }
}

impl CacheUsage {
    /// Reports it, of the cache with this name, which keeps `what`.
    pub fn collect(self, into: &mut Collection, cache: &str, what: &str) {
        let name = format!("slateberg.{cache}.cache.requests");
        let help = format!("{what} requested from the cache.");
        let results = [("hit", self.hits), ("miss", self.misses)];
        for (result, count) in results {
            into.counter(&name, "{request}", &help, attributes([("result", result)]), count);
        }
        self.size.collect(into, cache);
    }
}

impl CacheSize {
    /// The size of this cache.
    pub fn of<K, V, W, B, L>(cache: &Cache<K, V, W, B, L>) -> Self
    where
        K: Eq + Hash,
        V: Clone,
        W: Weighter<K, V> + Clone,
        B: BuildHasher + Clone,
        L: Lifecycle<K, V> + Clone,
    {
        Self { bytes: cache.weight(), bytes_max: cache.capacity() }
    }

    /// Reports it, of the cache with this name.
    pub fn collect(self, into: &mut Collection, cache: &str) {
        let Self { bytes, bytes_max } = self;
        let name = format!("slateberg.{cache}.cache");
        let help = "Bytes of the cache's entries, about.";
        into.gauge(&name, "By", help, Vec::new(), bytes as f64);
        let help = "Bytes at which the cache begins to drop entries.";
        into.gauge(&format!("{name}.limit"), "By", help, Vec::new(), bytes_max as f64);
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
        let size = CacheSize { bytes: 7, bytes_max: 8 };
        let usage = CacheUsage { hits: 10 * threads, misses: 20 * threads, size };
        assert_eq!(requests.usage(size), usage);
    }
}

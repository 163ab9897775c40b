//! [`ByteCache`]: a cache that is bounded in bytes and reports how it is used.
//!
//! Caches are asked several times in each request, on all cores at once: they count in [`Stripes`].

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Lifecycle, Weighter};

use super::collection::{Collection, attributes};
use super::stripes::Stripes;

/// Entries that a cache of few bytes is laid out for at least.
const ENTRIES_MIN: usize = 16;

/// A cache that drops the entries used least once they take more than a number of bytes. Who inserts an
/// entry says how many bytes it takes.
#[derive(Debug)]
pub struct ByteCache<K, V> {
    entries: Cache<K, Entry<V>, EntryBytes>,
    requests: CacheRequests,
}

#[derive(Debug, Clone)]
struct Entry<V> {
    value: V,
    bytes: u64,
}

#[derive(Debug, Clone)]
struct EntryBytes;

impl<K, V> Weighter<K, Entry<V>> for EntryBytes {
    fn weight(&self, _key: &K, entry: &Entry<V>) -> u64 {
        entry.bytes
    }
}

impl<K: Eq + Hash, V: Clone> ByteCache<K, V> {
    /// A cache of at most `bytes_max` bytes, whose entries take about `typical_bytes` each.
    pub fn new(bytes_max: u64, typical_bytes: u64) -> Self {
        let entries = usize::try_from(bytes_max / typical_bytes).unwrap_or(usize::MAX);
        Self {
            entries: Cache::with_weighter(entries.max(ENTRIES_MIN), bytes_max, EntryBytes),
            requests: CacheRequests::default(),
        }
    }

    /// Returns the value at a key, and counts the request.
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.get_if(key, |_| true)
    }

    /// Returns the value at a key if it is still valid, and counts the request: a hit only if it is.
    pub fn get_if<Q: Hash + Equivalent<K> + ?Sized>(
        &self,
        key: &Q,
        is_valid: impl FnOnce(&V) -> bool,
    ) -> Option<V> {
        let found = self.peek(key).filter(is_valid);
        self.requests.count(found.is_some());
        found
    }

    /// Returns the value at a key, and counts nothing.
    pub fn peek<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.entries.get(key).map(|entry| entry.value)
    }

    /// Counts a request that the cache could answer or not, after [`ByteCache::peek`].
    pub fn count(&self, hit: bool) {
        self.requests.count(hit);
    }

    /// Inserts a value that takes so many bytes, together with its key.
    pub fn insert(&self, key: K, value: V, bytes: usize) {
        self.entries.insert(key, Entry { value, bytes: bytes as u64 });
    }

    /// Returns the value at a key, or makes one with the bytes that it takes. Callers that ask for the same
    /// key meanwhile wait for it. Counts nothing.
    pub async fn get_or_insert<E>(
        &self,
        key: &K,
        make: impl Future<Output = Result<(V, usize), E>>,
    ) -> Result<V, E>
    where
        K: Clone,
    {
        let make = async {
            let (value, bytes) = make.await?;
            Ok(Entry { value, bytes: bytes as u64 })
        };
        self.entries.get_or_insert_async(key, make).await.map(|entry| entry.value)
    }

    /// Removes the entry at a key.
    pub fn remove<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) {
        self.entries.remove(key);
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The bytes of its entries, and its limit.
    pub fn size(&self) -> CacheSize {
        CacheSize::of(&self.entries)
    }

    /// The requests so far, and its size.
    pub fn usage(&self) -> CacheUsage {
        self.requests.usage(self.size())
    }
}

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

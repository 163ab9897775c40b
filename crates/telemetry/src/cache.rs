//! [`ByteCache`]: a cache with a limit in bytes that reports its usage.
//!
//! Each request queries caches several times, and many requests run on all cores at the same time.
//! Hits and misses are therefore counted in [`Stripes`].

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Equivalent, Lifecycle, OptionsBuilder, Weighter};

use super::collection::{Collection, attributes};
use super::stripes::Stripes;

/// Minimum estimated number of entries of a cache.
const ENTRIES_MIN: usize = 16;
/// Minimum size of a shard, in bytes. A cache has several shards, so that cores rarely wait for
/// each other, but an entry that is larger than its shard is not cached. The metadata of a table
/// with 10,000 snapshots has about 10 MB.
const SHARD_BYTES_MIN: u64 = 16 << 20;
/// Maximum number of shards of a cache.
const SHARDS_MAX: u64 = 64;

/// A cache with a limit in bytes. If all entries together exceed the limit, the cache evicts the
/// least used ones. The code that inserts an entry passes the size of the entry.
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
    /// Creates a cache of at most `bytes_max` bytes whose entries take about `typical_bytes` each.
    pub fn new(bytes_max: u64, typical_bytes: u64) -> Self {
        let entries = usize::try_from(bytes_max / typical_bytes).unwrap_or(usize::MAX);
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX).ilog2();
        let options = OptionsBuilder::new()
            .estimated_items_capacity(entries.max(ENTRIES_MIN))
            .weight_capacity(bytes_max)
            .shards(1 << shards)
            .build()
            .expect("the size and the number of entries are set");
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self {
            entries: Cache::with_options(options, EntryBytes, hasher, lifecycle),
            requests: CacheRequests::default(),
        }
    }

    /// Returns the value of a key, and counts a hit or miss.
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.get_if(key, |_| true)
    }

    /// Returns the value of a key if `is_valid` accepts it. Counts a hit in this case, otherwise a
    /// miss.
    pub fn get_if<Q: Hash + Equivalent<K> + ?Sized>(
        &self,
        key: &Q,
        is_valid: impl FnOnce(&V) -> bool,
    ) -> Option<V> {
        let found = self.peek(key).filter(is_valid);
        self.requests.count(found.is_some());
        found
    }

    /// Returns the value of a key. Counts nothing.
    pub fn peek<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.entries.get(key).map(|entry| entry.value)
    }

    /// Counts a hit or miss, after a call of [`ByteCache::peek`].
    pub fn count(&self, hit: bool) {
        self.requests.count(hit);
    }

    /// Inserts a value. `bytes` is the size of key and value.
    pub fn insert(&self, key: K, value: V, bytes: usize) {
        self.entries.insert(key, Entry { value, bytes: bytes as u64 });
    }

    /// Replaces the value of a key. Does nothing if the cache does not contain the key.
    pub fn replace(&self, key: K, value: V, bytes: usize) {
        // An error returns the arguments.
        let _ = self.entries.replace(key, Entry { value, bytes: bytes as u64 }, true);
    }

    /// Returns the value of a key. If the cache does not contain it, runs `load` and inserts the
    /// returned value with the returned size. Concurrent calls with the same key wait for the first
    /// call. Counts nothing.
    pub async fn get_or_insert<E>(
        &self,
        key: &K,
        load: impl Future<Output = Result<(V, usize), E>>,
    ) -> Result<V, E>
    where
        K: Clone,
    {
        let load = async {
            let (value, bytes) = load.await?;
            Ok(Entry { value, bytes: bytes as u64 })
        };
        self.entries.get_or_insert_async(key, load).await.map(|entry| entry.value)
    }

    /// Removes the entry of a key.
    pub fn remove<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) {
        self.entries.remove(key);
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.entries.clear();
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the size of the entries, and the limit.
    pub fn size(&self) -> CacheSize {
        CacheSize::of(&self.entries)
    }

    /// Returns hits, misses and size.
    pub fn usage(&self) -> CacheUsage {
        self.requests.usage(self.size())
    }
}

/// Counts the hits and misses of a cache.
#[derive(Debug, Default)]
pub struct CacheRequests(Stripes<HitCounts>);

/// The counts of one stripe's threads.
#[derive(Debug, Default)]
struct HitCounts {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Requests to a cache, and its size. The hit ratio is hits / (hits + misses).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheUsage {
    /// Requests for an entry in the cache.
    pub hits: u64,
    /// Requests for an entry that was missing.
    pub misses: u64,
    /// The size of the cache.
    pub size: CacheSize,
}

/// The size of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSize {
    /// Approximate size of the entries, in bytes.
    pub bytes: u64,
    /// Size at which the cache begins to evict entries, in bytes.
    pub bytes_max: u64,
}

impl CacheRequests {
    /// Counts a hit or a miss.
    pub fn count(&self, hit: bool) {
        let counts = self.0.own();
        let counter = if hit { &counts.hits } else { &counts.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counted requests, together with this size of the cache.
    pub fn usage(&self, size: CacheSize) -> CacheUsage {
        let sum = |counter: fn(&HitCounts) -> &AtomicU64| {
            self.0.all().map(|counts| counter(counts).load(Ordering::Relaxed)).sum()
        };
        CacheUsage { hits: sum(|counts| &counts.hits), misses: sum(|counts| &counts.misses), size }
    }
}

impl CacheUsage {
    /// Adds the usage of a cache to the collection. `cache` is the name of the cache in metrics.
    /// `what` is the word for its entries in the description of the metrics.
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
    /// Returns the size of this cache.
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

    /// Adds the size of the cache with this name to the collection.
    pub fn collect(self, into: &mut Collection, cache: &str) {
        let Self { bytes, bytes_max } = self;
        let name = format!("slateberg.{cache}.cache");
        let help = "Approximate size of the cache's entries, in bytes.";
        into.gauge(&name, "By", help, Vec::new(), bytes as f64);
        let help = "Size at which the cache begins to evict entries, in bytes.";
        into.gauge(&format!("{name}.limit"), "By", help, Vec::new(), bytes_max as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::super::stripes::STRIPES;
    use super::*;

    #[test]
    fn large_entry_is_cached() {
        for bytes_max in [20 << 20, 34 << 20, 1 << 30] {
            let cache = ByteCache::new(bytes_max, 16 << 10);
            cache.insert(0, "large", 10 << 20);
            assert_eq!(cache.get(&0), Some("large"), "of {bytes_max} bytes");
        }
    }

    #[test]
    fn counts_of_all_threads_are_summed() {
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

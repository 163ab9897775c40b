//! [`RecordCache`]: caches decoded small records and pages of names, with a limit in bytes.
//!
//! It contains only durable state. Each entry contains a sequence number: when the entry was read,
//! everything up to this number was durable. A [`VersionClock`] determines whether an entry is
//! still valid. This process is the only writer of its store, and it reports the keys of each
//! transaction to the clock before the transaction commits. So an entry becomes invalid before a
//! newer write can be accepted. While a write is in progress or not durable yet, reads of its keys
//! go to the store. The store knows exactly which writes are durable. A read that overlaps with a
//! write does not create a valid entry. When a transaction is durable, the records that it has
//! written replace the entries of the same keys ([`WrittenRecords`]).
//!
//! The absence of a name or record is cached as well.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::key_space::{CacheRule, KeySpace};
use super::keys::parent_of_name;
use super::status::Status;
use super::version_clock::{PendingWrite, Stripe, VersionClock};
use slateberg_model::page::Names;
use slateberg_telemetry::cache::{ByteCache, CacheUsage};

/// Size of an entry without its key and record.
const ENTRY_BYTES: usize = 128;
/// Ratio of a record's size in memory to its size in the store.
const RECORD_FACTOR: usize = 2;
/// Typical sizes of a record and of a page, which determine the initial capacity of the caches.
const TYPICAL_RECORD_BYTES: u64 = 512;
const TYPICAL_PAGE_BYTES: u64 = 16 << 10;

/// Returns the size of an entry with a record of this size in the store.
fn entry_bytes(key: &[u8], record_bytes: usize) -> usize {
    key.len() + record_bytes * RECORD_FACTOR + ENTRY_BYTES
}

/// The sequence number of a view that sees the newest record of each key.
pub(super) const NEWEST: u64 = u64::MAX;

/// Whether the record at a key is cached.
pub(super) fn is_cached(key: &[u8]) -> bool {
    KeySpace::of(key).is_some_and(|space| space.rules().cache != CacheRule::None)
}

/// Cache of records and pages.
pub(super) struct RecordCache {
    records: ByteCache<Box<[u8]>, CacheEntry<Record>>,
    pages: ByteCache<PageKey, CacheEntry<Arc<Names>>>,
    clock: VersionClock,
    status: Status,
}

/// Key of a page of names: kind, parent, start, and maximum length.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PageKey {
    pub(super) space: KeySpace,
    pub(super) parent: Uuid,
    pub(super) after: Option<String>,
    pub(super) limit: Option<usize>,
}

/// A record of the type that its key determines. `None` if it does not exist.
type Record = Option<Arc<dyn Any + Send + Sync>>;

/// The records that a transaction writes at keys that are cached, with their sizes in the store. `None`
/// if only the bytes of a record are known.
#[derive(Default)]
pub(super) struct WrittenRecords(BTreeMap<Vec<u8>, Option<(Record, usize)>>);

impl WrittenRecords {
    /// Records that a record is written.
    pub(super) fn put<V: Clone + Send + Sync + 'static>(
        &mut self,
        key: &[u8],
        record: &V,
        bytes: usize,
    ) {
        if is_cached(key) {
            self.0.insert(key.to_owned(), Some((Some(Arc::new(record.clone())), bytes)));
        }
    }

    /// Records that the record at a key is removed.
    pub(super) fn delete(&mut self, key: &[u8]) {
        if is_cached(key) {
            self.0.insert(key.to_owned(), Some((None, 0)));
        }
    }

    /// Whether the record at this key is written.
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.0.contains_key(key)
    }

    /// Returns the keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.0.keys().map(Vec::as_slice)
    }

    /// Records that the bytes of a record are written.
    pub(super) fn put_bytes(&mut self, key: &[u8]) {
        if is_cached(key) {
            self.0.insert(key.to_owned(), None);
        }
    }
}

/// Result of a cache lookup.
pub(super) enum CacheLookup<V> {
    /// The cache has no valid entry.
    Miss,
    /// The record does not exist.
    Absent,
    /// The record.
    Present(Arc<V>),
}

/// A cached value, and the condition of its validity.
#[derive(Clone)]
struct CacheEntry<T> {
    value: T,
    stripe: Stripe,
    as_of: u64,
}

/// A stamp that is created before a read. The stamp contains a sequence number, and the read sees
/// at least all writes up to this number. The stamp later shows whether there were writes after
/// this number.
#[derive(Debug, Clone, Copy)]
pub struct ReadStamp {
    stripe: Stripe,
    as_of: u64,
}

impl RecordCache {
    /// Creates caches with these sizes for records and pages of the store with this status.
    pub(super) fn new(status: Status, records_bytes_max: u64, pages_bytes_max: u64) -> Self {
        Self {
            records: ByteCache::new(records_bytes_max, TYPICAL_RECORD_BYTES),
            pages: ByteCache::new(pages_bytes_max, TYPICAL_PAGE_BYTES),
            clock: VersionClock::default(),
            status,
        }
    }

    /// Removes all records and pages.
    pub(super) fn clear(&self) {
        self.records.clear();
        self.pages.clear();
    }

    /// Looks up the record at a key in the snapshot with this sequence number. An entry that is
    /// valid and not newer than the snapshot has the record of the snapshot, because the record has
    /// not changed since.
    pub(super) fn record<V: Send + Sync + 'static>(
        &self,
        key: &[u8],
        sequence: u64,
    ) -> CacheLookup<V> {
        let is_valid = |entry: &CacheEntry<_>| {
            entry.as_of <= sequence && self.is_current(entry.stripe, entry.as_of)
        };
        match self.records.get_if(key, is_valid) {
            None => CacheLookup::Miss,
            Some(CacheEntry { value: None, .. }) => CacheLookup::Absent,
            Some(CacheEntry { value: Some(record), .. }) => {
                record.downcast().map_or(CacheLookup::Miss, CacheLookup::Present)
            }
        }
    }

    /// Caches the result of a read that started after `read_stamp` was created. `bytes` is the size
    /// of the record in the store.
    pub(super) fn insert_record<V: Send + Sync + 'static>(
        &self,
        read_stamp: Option<ReadStamp>,
        key: Vec<u8>,
        record: Option<Arc<V>>,
        bytes: usize,
    ) {
        let Some(ReadStamp { stripe, as_of }) = read_stamp else { return };
        let value = record.map(|record| record as Arc<dyn Any + Send + Sync>);
        let bytes = entry_bytes(&key, bytes);
        self.records.insert(key.into_boxed_slice(), CacheEntry { value, stripe, as_of }, bytes);
    }

    /// Replaces the entries of those records that a transaction has written. The transaction is
    /// durable, and has this sequence number.
    pub(super) fn replace_records(&self, written: WrittenRecords, sequence: u64) {
        for (key, record) in written.0 {
            let Some((value, bytes)) = record else { continue };
            let (stripe, bytes) = (self.clock.of(&key), entry_bytes(&key, bytes));
            // If there is a newer write, its sequence number makes the entry invalid.
            let entry = CacheEntry { value, stripe, as_of: sequence };
            self.records.replace(key.into_boxed_slice(), entry, bytes);
        }
    }

    /// Looks up the names of a page. `None` if the cache has no valid entry.
    pub(super) fn page(&self, key: &PageKey) -> Option<Arc<Names>> {
        let entry = self.pages.get_if(key, |entry| self.is_current(entry.stripe, entry.as_of));
        entry.map(|entry| entry.value)
    }

    /// Caches the names of a page that was read after `read_stamp` was created.
    pub(super) fn insert_page(
        &self,
        read_stamp: Option<ReadStamp>,
        key: PageKey,
        names: &Arc<Names>,
    ) {
        let Some(ReadStamp { stripe, as_of }) = read_stamp else { return };
        let bytes = key.after.as_ref().map_or(0, String::len) + names.bytes() + ENTRY_BYTES;
        self.pages.insert(key, CacheEntry { value: Arc::clone(names), stripe, as_of }, bytes);
    }

    /// Creates a stamp for a read of this key, or of all keys with this prefix, in the snapshot with
    /// this sequence number. Returns `None` if the result of the read cannot be cached.
    pub(super) fn read_stamp(&self, key: &[u8], sequence: u64) -> Option<ReadStamp> {
        let stripe = self.clock.of(key);
        // A write updates the clock before it becomes durable. Therefore the durable sequence
        // number is read first: if the clock does not show a write yet, the write has a sequence
        // number above `as_of`. An older snapshot does not see the later ones of the durable writes.
        let as_of = self.status.durable_sequence().min(sequence);
        self.clock.is_unchanged(stripe, as_of).then_some(ReadStamp { stripe, as_of })
    }

    /// Returns the indexes of the stamps whose reads are out of date. A read without a stamp is
    /// always out of date. After the store is closed, all reads are out of date.
    pub(super) fn stale_reads(&self, stamps: &[Option<ReadStamp>]) -> Vec<usize> {
        let is_closed = self.status.close_reason().is_some();
        let is_current = |read_stamp: &Option<ReadStamp>| {
            read_stamp.is_some_and(|ReadStamp { stripe, as_of }| {
                !is_closed && self.clock.is_unchanged(stripe, as_of)
            })
        };
        let stamps = stamps.iter().enumerate();
        stamps.filter(|(_, read_stamp)| !is_current(read_stamp)).map(|(at, _)| at).collect()
    }

    /// Whether a cached value is valid. No value is valid after the store is closed.
    fn is_current(&self, stripe: Stripe, as_of: u64) -> bool {
        self.status.close_reason().is_none() && self.clock.is_unchanged(stripe, as_of)
    }

    /// Returns the stripes that a write of a key affects: the stripe of the key and, if the key is
    /// a name, the stripe of the pages that may contain the name.
    fn stripes_of(&self, key: &[u8]) -> impl Iterator<Item = Stripe> {
        [Some(key), parent_of_name(key)].into_iter().flatten().map(|key| self.clock.of(key))
    }

    /// Reports the written keys of a transaction to the clock before the transaction commits. So the
    /// commit invalidates the cached values.
    pub(super) fn begin<'a>(&self, written: impl Iterator<Item = &'a [u8]>) -> PendingWrite<'_> {
        let cached = written.filter(|key| is_cached(key));
        self.clock.begin(cached.flat_map(|key| self.stripes_of(key)).collect())
    }

    /// Returns the usage of the record cache.
    pub(super) fn record_usage(&self) -> CacheUsage {
        self.records.usage()
    }

    /// Returns the usage of the page cache.
    pub(super) fn page_usage(&self) -> CacheUsage {
        self.pages.usage()
    }
}

#[cfg(test)]
mod tests;

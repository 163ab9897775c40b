//! [`Recent`]: cache of decoded small records and pages of names, bounded in bytes.
//!
//! It contains only durable state. Each entry has the sequence number up to which everything was
//! durable at its read. [`WriteMarks`] determine whether an entry is valid: this process is the
//! only writer of its store, and marks the keys of a transaction before it commits. An entry
//! becomes invalid before a newer write can be accepted. While a write is in progress and not
//! durable, reads of its keys go to the store, which knows exactly what is durable. A read that
//! overlaps with a write does not create a valid entry.
//!
//! The absence of a name or record is cached as well.

use std::any::Any;
use std::sync::Arc;

use slatedb::{Db, DbStatus};
use tokio::sync::watch;
use uuid::Uuid;

use super::key_space::{CacheRule, KeySpace};
use super::keys::NAME_PARENT_BYTES;
use super::write_marks::{Mark, WriteMarks, Writing};
use slateberg_model::page::Names;
use slateberg_telemetry::cache::{ByteCache, CacheUsage};

/// Size of an entry without its key and record.
const ENTRY_BYTES: usize = 128;
/// Ratio of a record's size in memory to its size in the store.
const RECORD_FACTOR: usize = 2;
/// Typical size of a record and of a page, for the capacity of the caches.
const TYPICAL_RECORD_BYTES: u64 = 512;
const TYPICAL_PAGE_BYTES: u64 = 16 << 10;

fn cache_rule(key: &[u8]) -> CacheRule {
    KeySpace::of(key).map_or(CacheRule::None, |space| space.rules().cache)
}

/// Whether the record at a key is cached.
pub(super) fn is_cached(key: &[u8]) -> bool {
    cache_rule(key) != CacheRule::None
}

/// Cache of records and pages.
pub(super) struct Recent {
    records: ByteCache<Box<[u8]>, Kept<Record>>,
    pages: ByteCache<PageKey, Kept<Arc<Names>>>,
    marks: WriteMarks,
    status: watch::Receiver<DbStatus>,
}

/// Key of a page of names: kind, parent, start, and maximum length.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PageKey {
    pub(super) space: u8,
    pub(super) parent: Uuid,
    pub(super) after: Option<String>,
    pub(super) limit: Option<usize>,
}

/// A record of the type that its key determines. `None` if it does not exist.
type Record = Option<Arc<dyn Any + Send + Sync>>;

/// Result of a cache lookup.
pub(super) enum Known<V> {
    /// The cache has no valid entry.
    Unknown,
    /// The record does not exist.
    Absent,
    /// The record.
    Present(Arc<V>),
}

/// A cached value, and the condition of its validity.
#[derive(Clone)]
struct Kept<T> {
    value: T,
    mark: Mark,
    as_of: u64,
}

/// A read that starts now and shows at least everything up to a sequence number. Later checks use
/// it to detect writes since then.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    mark: Mark,
    as_of: u64,
}

impl Recent {
    /// Creates caches with these sizes for records and pages of `db`.
    pub(super) fn new(db: &Db, records_bytes_max: u64, pages_bytes_max: u64) -> Self {
        Self {
            records: ByteCache::new(records_bytes_max, TYPICAL_RECORD_BYTES),
            pages: ByteCache::new(pages_bytes_max, TYPICAL_PAGE_BYTES),
            marks: WriteMarks::default(),
            status: db.subscribe(),
        }
    }

    /// Looks up the current record at a key.
    pub(super) fn record<V: Send + Sync + 'static>(&self, key: &[u8]) -> Known<V> {
        match self.records.get_if(key, |kept| self.holds(kept.mark, kept.as_of)) {
            None => Known::Unknown,
            Some(Kept { value: None, .. }) => Known::Absent,
            Some(Kept { value: Some(record), .. }) => {
                record.downcast().map_or(Known::Unknown, Known::Present)
            }
        }
    }

    /// Caches the result of a read that `reading` precedes. The record has `bytes` bytes in the
    /// store.
    pub(super) fn keep_record<V: Send + Sync + 'static>(
        &self,
        reading: Option<Reading>,
        key: Vec<u8>,
        record: Option<Arc<V>>,
        bytes: usize,
    ) {
        let Some(Reading { mark, as_of }) = reading else { return };
        let value = record.map(|record| record as Arc<dyn Any + Send + Sync>);
        let bytes = key.len() + bytes * RECORD_FACTOR + ENTRY_BYTES;
        self.records.insert(key.into_boxed_slice(), Kept { value, mark, as_of }, bytes);
    }

    /// Looks up the current names of a page.
    pub(super) fn page(&self, key: &PageKey) -> Option<Arc<Names>> {
        let kept = self.pages.get_if(key, |kept| self.holds(kept.mark, kept.as_of));
        kept.map(|kept| kept.value)
    }

    /// Caches the names of a page, read after `reading`.
    pub(super) fn keep_page(&self, reading: Option<Reading>, key: PageKey, names: &Arc<Names>) {
        let Some(Reading { mark, as_of }) = reading else { return };
        let bytes = key.after.as_ref().map_or(0, String::len) + names.bytes() + ENTRY_BYTES;
        self.pages.insert(key, Kept { value: Arc::clone(names), mark, as_of }, bytes);
    }

    /// Prepares a read of a key, or of all keys with this prefix. `None` if the result cannot be
    /// cached.
    pub(super) fn reading(&self, key: &[u8]) -> Option<Reading> {
        let mark = self.marks.of(key);
        // In this order: everything durable was marked before, so if no write is in progress, later
        // reads of the store show all of it.
        let as_of = self.status.borrow().durable_seq;
        self.marks.hold(mark, as_of).then_some(Reading { mark, as_of })
    }

    /// Returns the indexes of the reads that are out of date. Uncacheable reads always are, and all
    /// reads once the store is closed.
    pub(super) fn overtaken(&self, readings: &[Option<Reading>]) -> Vec<usize> {
        let shut = self.status.borrow().close_reason.is_some();
        let holds = |reading: &Option<Reading>| {
            reading.is_some_and(|Reading { mark, as_of }| !shut && self.marks.hold(mark, as_of))
        };
        let readings = readings.iter().enumerate();
        readings.filter(|(_, reading)| !holds(reading)).map(|(at, _)| at).collect()
    }

    /// Whether a cached value is valid. No value is valid after the store is closed.
    fn holds(&self, mark: Mark, as_of: u64) -> bool {
        self.status.borrow().close_reason.is_none() && self.marks.hold(mark, as_of)
    }

    /// Returns the marks of a written key: its own, and that of the pages with its name.
    pub(super) fn written(&self, key: &[u8]) -> impl Iterator<Item = Mark> {
        let page = match cache_rule(key) {
            CacheRule::RecordsAndPages => key.get(..NAME_PARENT_BYTES),
            CacheRule::None | CacheRule::Records => None,
        };
        [Some(key), page].into_iter().flatten().map(|key| self.marks.of(key))
    }

    /// Marks the keys of a transaction before it commits.
    pub(super) fn begin(&self, written: Vec<Mark>) -> Writing<'_> {
        self.marks.begin(written)
    }

    /// Usage of the record cache.
    pub(super) fn record_usage(&self) -> CacheUsage {
        self.records.usage()
    }

    /// Usage of the page cache.
    pub(super) fn page_usage(&self) -> CacheUsage {
        self.pages.usage()
    }
}

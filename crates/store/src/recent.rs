//! [`Recent`]: small records and pages of names that were read lately, typed and ready, bounded in bytes.
//!
//! Only durable state is kept, each entry as of the sequence number up to which everything was durable when
//! it was read. [`WriteMarks`] tell whether it still holds: this process is the only writer of its store, and
//! marks what a transaction writes before it is handed over. So an entry is not served from the moment on in
//! which a newer write may be accepted, and not before that either: while a write is under way, and until it
//! is durable, its keys are read from the store, which knows what is durable to the letter. A read that was
//! overtaken by a write is kept in vain, and shown to nobody.
//!
//! That a name or record is not there is kept like any other answer.

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

/// Bytes that an entry takes beside its key and its record.
const ENTRY_BYTES: usize = 128;
/// What a record takes in memory, in multiples of what it takes in the store.
const RECORD_FACTOR: usize = 2;
/// Bytes of a record and of a page, as the caches expect them.
const TYPICAL_RECORD_BYTES: u64 = 512;
const TYPICAL_PAGE_BYTES: u64 = 16 << 10;

fn cache_rule(key: &[u8]) -> CacheRule {
    KeySpace::of(key).map_or(CacheRule::None, |space| space.rules().cache)
}

/// Returns whether the record at a key is cached.
pub(super) fn is_cached(key: &[u8]) -> bool {
    cache_rule(key) != CacheRule::None
}

/// What was read lately.
pub(super) struct Recent {
    records: ByteCache<Box<[u8]>, Kept<Record>>,
    pages: ByteCache<PageKey, Kept<Arc<Names>>>,
    marks: WriteMarks,
    status: watch::Receiver<DbStatus>,
}

/// A page of names: of what, below which parent, behind which name, and how many at most.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PageKey {
    pub(super) space: u8,
    pub(super) parent: Uuid,
    pub(super) after: Option<String>,
    pub(super) limit: Option<usize>,
}

/// A record of whatever type its key says; none if there is none.
type Record = Option<Arc<dyn Any + Send + Sync>>;

/// What the cache knows of the record at a key.
pub(super) enum Known<V> {
    /// Nothing: the store has to be read.
    Unknown,
    /// There is no record.
    Absent,
    /// This is the record.
    Present(Arc<V>),
}

/// Something that was read, and what it takes for it to hold still.
#[derive(Clone)]
struct Kept<T> {
    value: T,
    mark: Mark,
    as_of: u64,
}

/// A read that is about to begin, and will show at least everything up to a sequence number: it can be
/// asked later whether what is read was written since.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    mark: Mark,
    as_of: u64,
}

impl Recent {
    /// Keeps at most so many bytes of records, and of pages, of `db`.
    pub(super) fn new(db: &Db, records_bytes_max: u64, pages_bytes_max: u64) -> Self {
        Self {
            records: ByteCache::new(records_bytes_max, TYPICAL_RECORD_BYTES),
            pages: ByteCache::new(pages_bytes_max, TYPICAL_PAGE_BYTES),
            marks: WriteMarks::default(),
            status: db.subscribe(),
        }
    }

    /// Returns what the cache knows of the current record at a key.
    pub(super) fn record<V: Send + Sync + 'static>(&self, key: &[u8]) -> Known<V> {
        match self.records.get_if(key, |kept| self.holds(kept.mark, kept.as_of)) {
            None => Known::Unknown,
            Some(Kept { value: None, .. }) => Known::Absent,
            Some(Kept { value: Some(record), .. }) => {
                record.downcast().map_or(Known::Unknown, Known::Present)
            }
        }
    }

    /// Keeps what a read that began before found at a key, `bytes` long in the store.
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

    /// What is known to stand on a page now; none if the store has to be asked.
    pub(super) fn page(&self, key: &PageKey) -> Option<Arc<Names>> {
        let kept = self.pages.get_if(key, |kept| self.holds(kept.mark, kept.as_of));
        kept.map(|kept| kept.value)
    }

    /// Keeps what a read that began before found on a page.
    pub(super) fn keep_page(&self, reading: Option<Reading>, key: PageKey, names: &Arc<Names>) {
        let Some(Reading { mark, as_of }) = reading else { return };
        let bytes = key.after.as_ref().map_or(0, String::len) + names.bytes() + ENTRY_BYTES;
        self.pages.insert(key, Kept { value: Arc::clone(names), mark, as_of }, bytes);
    }

    /// Takes note that a key, or all keys with these bytes in front, are about to be read. None if what is
    /// read will not be worth keeping.
    pub(super) fn reading(&self, key: &[u8]) -> Option<Reading> {
        let mark = self.marks.of(key);
        // In this order. What is durable by now was marked before; so that, where nothing is under way,
        // the store shows all of it to whoever reads from now on.
        let as_of = self.status.borrow().durable_seq;
        self.marks.hold(mark, as_of).then_some(Reading { mark, as_of })
    }

    /// Which of these reads, by their places, no longer show what is so. Those that were not worth keeping
    /// never do, and none does once the store has shut.
    pub(super) fn overtaken(&self, readings: &[Option<Reading>]) -> Vec<usize> {
        let shut = self.status.borrow().close_reason.is_some();
        let holds = |reading: &Option<Reading>| {
            reading.is_some_and(|Reading { mark, as_of }| !shut && self.marks.hold(mark, as_of))
        };
        let readings = readings.iter().enumerate();
        readings.filter(|(_, reading)| !holds(reading)).map(|(at, _)| at).collect()
    }

    /// Whether something that was read then is still so. A store that has shut answers nothing any more.
    fn holds(&self, mark: Mark, as_of: u64) -> bool {
        self.status.borrow().close_reason.is_none() && self.marks.hold(mark, as_of)
    }

    /// The marks of a key that is written: its own, and that of the pages that show its name.
    pub(super) fn written(&self, key: &[u8]) -> impl Iterator<Item = Mark> {
        let page = match cache_rule(key) {
            CacheRule::RecordsAndPages => key.get(..NAME_PARENT_BYTES),
            CacheRule::None | CacheRule::Records => None,
        };
        [Some(key), page].into_iter().flatten().map(|key| self.marks.of(key))
    }

    /// Announces a transaction that is about to be handed to the store.
    pub(super) fn begin(&self, written: Vec<Mark>) -> Writing<'_> {
        self.marks.begin(written)
    }

    /// How the records are used.
    pub(super) fn record_usage(&self) -> CacheUsage {
        self.records.usage()
    }

    /// How the pages are used.
    pub(super) fn page_usage(&self) -> CacheUsage {
        self.pages.usage()
    }
}

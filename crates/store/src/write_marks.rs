//! [`WriteMarks`]: determine whether a value that was read earlier is still current.
//!
//! The hash of a key determines one of a fixed number of marks. A mark has the sequence number of
//! the newest write to any of its keys, and the number of transactions in progress that write to
//! them. A value that was read *as of* a sequence number is current as long as its mark has no
//! newer write and no transaction in progress: then no writer has changed the key since, and the
//! value is both durable and the newest one.
//!
//! A write to a key invalidates the cached values of all keys with the same mark, which only costs
//! an additional read. There is no state per key.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of marks, 8 bytes each. A power of two.
const MARKS: usize = 1 << 15;
/// Bits of a mark for the sequence number. At a million writes per second, they last for years.
const SEQUENCE_BITS: u32 = 48;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;
/// One transaction in progress.
const UNDER_WAY: u64 = 1 << SEQUENCE_BITS;
/// Bit of a mark after a transaction with an unknown outcome. Its keys are never cached again.
const LOST: u64 = 1 << 63;

/// The marks of all keys.
pub(super) struct WriteMarks {
    marks: Box<[AtomicU64]>,
    hasher: RandomState,
}

/// The mark of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark(u32);

/// A transaction in progress. If it is dropped before its outcome is known, its marks become
/// unusable, which is slow but never wrong.
#[must_use = "the marks are blocked until the transaction has ended"]
pub(super) struct Writing<'a> {
    marks: &'a WriteMarks,
    written: Vec<Mark>,
}

impl Default for WriteMarks {
    fn default() -> Self {
        Self { marks: (0..MARKS).map(|_| AtomicU64::new(0)).collect(), hasher: RandomState::new() }
    }
}

impl WriteMarks {
    /// Returns the mark of a key.
    pub(super) fn of(&self, key: &[u8]) -> Mark {
        // The remainder of a division by MARKS fits.
        Mark((self.hasher.hash_one(key) % MARKS as u64) as u32)
    }

    /// Whether a read as of this sequence number is current for the mark's keys.
    pub(super) fn hold(&self, mark: Mark, as_of: u64) -> bool {
        let state = self.at(mark).load(Ordering::SeqCst);
        // Transactions in progress use the bits above the sequence number.
        state <= as_of.min(SEQUENCE_MASK)
    }

    /// Marks the keys of a transaction before it commits.
    pub(super) fn begin(&self, mut written: Vec<Mark>) -> Writing<'_> {
        written.sort_unstable();
        written.dedup();
        for mark in &written {
            self.at(*mark).fetch_add(UNDER_WAY, Ordering::SeqCst);
        }
        Writing { marks: self, written }
    }

    fn at(&self, mark: Mark) -> &AtomicU64 {
        &self.marks[mark.0 as usize]
    }
}

impl Writing<'_> {
    /// Records that the transaction was accepted with this sequence number.
    pub(super) fn accepted(mut self, sequence: u64) {
        self.end(sequence);
    }

    /// Records that the transaction was rejected: nothing was written.
    pub(super) fn refused(mut self) {
        self.end(0);
    }

    fn end(&mut self, sequence: u64) {
        for mark in self.written.drain(..) {
            let ended = |state: u64| {
                let newest = (state & SEQUENCE_MASK).max(sequence & SEQUENCE_MASK);
                Some(((state & !SEQUENCE_MASK) - UNDER_WAY) | newest)
            };
            // The closure always returns a value, so there is no error.
            let _ = self.marks.at(mark).fetch_update(Ordering::SeqCst, Ordering::SeqCst, ended);
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        for mark in &self.written {
            self.marks.at(*mark).fetch_or(LOST, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_holds_until_its_key_is_written() {
        let marks = WriteMarks::default();
        let (key, other) = (marks.of(b"a"), Mark((marks.of(b"a").0 + 1) % MARKS as u32));
        assert!(marks.hold(key, 0));
        let writing = marks.begin(vec![key, key]);
        assert!(!marks.hold(key, 100), "nobody knows yet what it writes");
        assert!(marks.hold(other, 0));
        writing.accepted(7);
        assert!(!marks.hold(key, 6));
        assert!(marks.hold(key, 7));
    }

    #[test]
    fn a_refused_transaction_changes_nothing() {
        let marks = WriteMarks::default();
        let key = marks.of(b"a");
        marks.begin(vec![key]).accepted(7);
        marks.begin(vec![key]).refused();
        assert!(marks.hold(key, 7));
    }

    #[test]
    fn the_newest_of_several_writes_counts_in_whatever_order_they_end() {
        let marks = WriteMarks::default();
        let key = marks.of(b"a");
        let (first, second) = (marks.begin(vec![key]), marks.begin(vec![key]));
        second.accepted(9);
        assert!(!marks.hold(key, 9), "the first is still under way");
        first.accepted(8);
        assert!(!marks.hold(key, 8));
        assert!(marks.hold(key, 9));
    }

    #[test]
    fn a_transaction_whose_end_is_not_known_spoils_its_marks() {
        let marks = WriteMarks::default();
        let key = marks.of(b"a");
        drop(marks.begin(vec![key]));
        marks.begin(vec![key]).accepted(3);
        assert!(!marks.hold(key, u64::MAX));
    }
}

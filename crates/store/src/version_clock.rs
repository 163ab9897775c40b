//! [`VersionClock`]: determines whether a value that was read earlier is still current.
//!
//! The hash of a key determines one of a fixed number of stripes. A stripe contains two numbers:
//! the sequence number of the newest write to any of its keys, and the number of transactions in
//! progress that write to these keys. A value that was read *as of* a sequence number is current
//! while its stripe has no newer write and no transaction in progress. In this case, no writer has
//! changed the key since then, so the value is both durable and the newest one.
//!
//! A write to a key invalidates the cached values of all keys of the same stripe. This only causes
//! additional reads, and no state per key is needed.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of stripes, 8 bytes each. A power of two.
const STRIPES: usize = 1 << 15;
/// Bits of a stripe for the sequence number. At a million writes per second, they suffice for
/// years.
const SEQUENCE_BITS: u32 = 48;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;
/// Value that one transaction in progress adds to a stripe.
const PENDING: u64 = 1 << SEQUENCE_BITS;
/// Bit that a transaction with an unknown outcome sets in its stripes. Their keys are never cached
/// again.
const POISONED: u64 = 1 << 63;

/// The stripes of all keys.
pub(super) struct VersionClock {
    stripes: Box<[AtomicU64]>,
    hasher: RandomState,
}

/// The stripe of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stripe(u32);

/// A transaction in progress. If this value is dropped before the outcome is known, the keys of its
/// stripes are never cached again. Reads then become slower, but never wrong.
#[must_use = "the stripes are blocked until the transaction has ended"]
pub(super) struct PendingWrite<'a> {
    clock: &'a VersionClock,
    stripes: Vec<Stripe>,
}

impl Default for VersionClock {
    fn default() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl VersionClock {
    /// Returns the stripe of a key.
    pub(super) fn of(&self, key: &[u8]) -> Stripe {
        // The remainder is less than STRIPES, so it fits into 32 bits.
        Stripe((self.hasher.hash_one(key) % STRIPES as u64) as u32)
    }

    /// Whether a value that was read as of this sequence number is current, for keys of this
    /// stripe.
    pub(super) fn is_unchanged(&self, stripe: Stripe, as_of: u64) -> bool {
        let state = self.at(stripe).load(Ordering::SeqCst);
        // Transactions in progress set bits above the sequence number, so the comparison fails for
        // them.
        state <= as_of.min(SEQUENCE_MASK)
    }

    /// Records that a transaction is about to write the keys of these stripes.
    pub(super) fn begin(&self, mut stripes: Vec<Stripe>) -> PendingWrite<'_> {
        stripes.sort_unstable();
        stripes.dedup();
        for stripe in &stripes {
            self.at(*stripe).fetch_add(PENDING, Ordering::SeqCst);
        }
        PendingWrite { clock: self, stripes }
    }

    fn at(&self, stripe: Stripe) -> &AtomicU64 {
        &self.stripes[stripe.0 as usize]
    }
}

impl PendingWrite<'_> {
    /// Records that the transaction was accepted with this sequence number.
    pub(super) fn accept(mut self, sequence: u64) {
        self.end(sequence);
    }

    /// Records that the transaction was rejected: nothing was written.
    pub(super) fn reject(mut self) {
        self.end(0);
    }

    fn end(&mut self, sequence: u64) {
        for stripe in self.stripes.drain(..) {
            let ended = |state: u64| {
                let newest = (state & SEQUENCE_MASK).max(sequence & SEQUENCE_MASK);
                Some(((state & !SEQUENCE_MASK) - PENDING) | newest)
            };
            // The closure always returns a value, so there is no error.
            let _ = self.clock.at(stripe).fetch_update(Ordering::SeqCst, Ordering::SeqCst, ended);
        }
    }
}

impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        for stripe in &self.stripes {
            self.clock.at(*stripe).fetch_or(POISONED, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_is_unchanged_until_its_key_is_written() {
        let clock = VersionClock::default();
        let (key, other) = (clock.of(b"a"), Stripe((clock.of(b"a").0 + 1) % STRIPES as u32));
        assert!(clock.is_unchanged(key, 0));
        let pending = clock.begin(vec![key, key]);
        assert!(!clock.is_unchanged(key, 100), "the outcome of the write is not known yet");
        assert!(clock.is_unchanged(other, 0));
        pending.accept(7);
        assert!(!clock.is_unchanged(key, 6));
        assert!(clock.is_unchanged(key, 7));
    }

    #[test]
    fn rejected_transaction_leaves_versions_unchanged() {
        let clock = VersionClock::default();
        let key = clock.of(b"a");
        clock.begin(vec![key]).accept(7);
        clock.begin(vec![key]).reject();
        assert!(clock.is_unchanged(key, 7));
    }

    #[test]
    fn newest_of_concurrent_writes_counts_in_any_order() {
        let clock = VersionClock::default();
        let key = clock.of(b"a");
        let (first, second) = (clock.begin(vec![key]), clock.begin(vec![key]));
        second.accept(9);
        assert!(!clock.is_unchanged(key, 9), "the first transaction is still in progress");
        first.accept(8);
        assert!(!clock.is_unchanged(key, 8));
        assert!(clock.is_unchanged(key, 9));
    }

    #[test]
    fn transaction_with_unknown_outcome_poisons_its_stripes() {
        let clock = VersionClock::default();
        let key = clock.of(b"a");
        drop(clock.begin(vec![key]));
        clock.begin(vec![key]).accept(3);
        assert!(!clock.is_unchanged(key, u64::MAX));
    }
}

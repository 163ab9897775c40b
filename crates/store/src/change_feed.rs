//! [`ChangeFeed`]: the durable changes, in the order of their numbers.
//!
//! A transaction gets the numbers of its changes just before it commits. The order in which
//! concurrent transactions become durable can therefore differ from the order of their numbers. The
//! feed hides a change until every change with a smaller number is durable or is known to have
//! failed. So after a reader has read a change, no change with a smaller number becomes visible.
//! The **horizon** is the number of the last visible change plus one.
//!
//! If the outcome of a transaction is unknown, the horizon stops before the transaction's changes
//! until the store is opened again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::changes::{Change, GroupPosition};

/// Maximum number of visible changes in memory. Older changes are read from the store.
const RECENT_MAX: usize = 4096;

/// The changes of one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeGroup {
    /// Number of the first change.
    pub first: u64,
    /// The changes, with consecutive numbers.
    pub changes: Arc<[Arc<Change>]>,
}

/// Visible changes, read from a position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangePage {
    /// The changes of complete transactions, in the order of their numbers.
    pub groups: Vec<ChangeGroup>,
    /// The position with which the next page begins.
    pub next: u64,
    /// Whether the page was the last one when it was read: no visible change followed it.
    pub is_last: bool,
}

/// The changes of the open store. See the [module](self).
pub(super) struct ChangeFeed {
    state: Mutex<State>,
    horizon: watch::Sender<u64>,
    /// The log has no change with a smaller number.
    removed_before: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The number of the next change.
    next: u64,
    /// Transactions that are not known to be durable, each under the number of its first change.
    in_progress: BTreeMap<u64, InProgress>,
    /// The newest visible changes.
    recent: VecDeque<ChangeGroup>,
    /// Number of changes in `recent`.
    recent_count: usize,
    /// `recent` contains all visible changes with this number or a greater one.
    recent_from: u64,
    /// SlateDB's sequence number up to which everything is durable.
    durable_seq: u64,
}

struct InProgress {
    changes: Arc<[Arc<Change>]>,
    /// The sequence number with which SlateDB accepted the transaction. `None` if SlateDB has not
    /// accepted it yet.
    accepted: Option<u64>,
}

impl ChangeGroup {
    /// Returns the number of the last change plus one.
    pub fn end(&self) -> u64 {
        self.first + self.changes.len() as u64
    }
}

impl ChangeFeed {
    /// Creates the feed of a store whose next change gets the number `next`.
    pub(super) fn new(next: u64) -> Self {
        let state = State { next, recent_from: next, ..State::default() };
        let horizon = watch::Sender::new(next);
        Self { state: Mutex::new(state), horizon, removed_before: AtomicU64::new(0) }
    }

    /// Returns the number of the next change.
    pub(super) fn next(&self) -> u64 {
        self.lock().next
    }

    /// Returns the horizon.
    pub(super) fn current_horizon(&self) -> u64 {
        *self.horizon.borrow()
    }

    /// Returns a number such that the log has no change with a smaller number.
    pub(super) fn removed_before(&self) -> u64 {
        self.removed_before.load(Ordering::Relaxed)
    }

    /// Records that the log has no change with a smaller number than this one.
    pub(super) fn mark_removed_before(&self, number: u64) {
        self.removed_before.fetch_max(number, Ordering::Relaxed);
    }

    /// Moves the horizon of a replica to that of its writer. The changes before it are read from the
    /// store.
    pub(super) fn follow(&self, horizon: u64) {
        let mut state = self.lock();
        if state.next < horizon {
            state.next = horizon;
            state.recent_from = horizon;
            self.horizon.send_replace(horizon);
        }
    }

    /// Returns a receiver of the horizon, which is notified when the horizon moves.
    pub(super) fn horizon(&self) -> watch::Receiver<u64> {
        self.horizon.subscribe()
    }

    /// Assigns consecutive numbers to the changes of a transaction that is about to commit. The
    /// calling code reports the outcome with [`accept`](Self::accept) or
    /// [`discard`](Self::discard). If the outcome is unknown, it calls neither.
    pub(super) fn assign_numbers(&self, mut changes: Vec<Change>) -> ChangeGroup {
        if let Ok(count) = u32::try_from(changes.len())
            && count > 1
        {
            for (change, index) in changes.iter_mut().zip(0..) {
                change.group = Some(GroupPosition { index, count });
            }
        }
        let changes: Arc<[Arc<Change>]> = changes.into_iter().map(Arc::new).collect();
        let mut state = self.lock();
        let first = state.next;
        state.next += changes.len() as u64;
        let in_progress = InProgress { changes: Arc::clone(&changes), accepted: None };
        state.in_progress.insert(first, in_progress);
        ChangeGroup { first, changes }
    }

    /// Records that SlateDB accepted a transaction with this sequence number.
    pub(super) fn accept(&self, first: u64, seq: u64) {
        if let Some(in_progress) = self.lock().in_progress.get_mut(&first) {
            in_progress.accepted = Some(seq);
        }
    }

    /// Records that a transaction failed and wrote nothing.
    pub(super) fn discard(&self, first: u64) {
        let mut state = self.lock();
        let Some(failed) = state.in_progress.remove(&first) else { return };
        if state.next == first + failed.changes.len() as u64 {
            state.next = first;
        }
        // Changes with greater numbers may have waited for this one.
        self.advance_horizon(state);
    }

    /// Records that everything up to this sequence number of SlateDB is durable, and advances the
    /// horizon.
    pub(super) fn mark_durable(&self, durable_seq: u64) {
        let mut state = self.lock();
        state.durable_seq = state.durable_seq.max(durable_seq);
        self.advance_horizon(state);
    }

    fn advance_horizon(&self, mut state: MutexGuard<'_, State>) {
        let mut horizon = None;
        let durable_seq = state.durable_seq;
        while let Some(oldest) = state.in_progress.first_entry()
            && oldest.get().accepted.is_some_and(|seq| seq <= durable_seq)
        {
            let (first, InProgress { changes, .. }) = oldest.remove_entry();
            let group = ChangeGroup { first, changes };
            horizon = Some(group.end());
            state.recent_count += group.changes.len();
            state.recent.push_back(group);
        }
        while state.recent_count > RECENT_MAX
            && let Some(group) = state.recent.pop_front()
        {
            state.recent_count -= group.changes.len();
            state.recent_from = group.end();
        }
        // Sent under the lock, so that the horizon never moves backwards.
        if let Some(horizon) = horizon {
            self.horizon.send_replace(horizon);
        }
    }

    /// Returns a page of the visible transactions from a position on. The page consists of complete
    /// transactions with at most `max` changes in total, or of a single larger transaction. Returns
    /// `None` if not all of these changes are in memory.
    pub(super) fn recent(&self, from: u64, max: usize) -> Option<ChangePage> {
        let state = self.lock();
        if from < state.recent_from {
            return None;
        }
        let start = state.recent.partition_point(|group| group.first < from);
        let mut page = ChangePage { next: from, is_last: true, ..ChangePage::default() };
        let mut count = 0;
        for group in state.recent.range(start..) {
            count += group.changes.len();
            if count > max && !page.groups.is_empty() {
                page.is_last = false;
                break;
            }
            page.next = group.end();
            page.groups.push(group.clone());
        }
        Some(page)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::change;

    fn assign(feed: &ChangeFeed, names: &[&str]) -> u64 {
        feed.assign_numbers(names.iter().map(|name| change(name)).collect()).first
    }

    fn names(feed: &ChangeFeed, from: u64) -> Vec<String> {
        let page = feed.recent(from, usize::MAX).expect("the changes are in memory");
        let changes = page.groups.iter().flat_map(|group| group.changes.iter());
        changes.map(|change| change.name.clone()).collect()
    }

    #[test]
    fn change_is_hidden_until_all_smaller_numbers_are_durable() {
        let feed = ChangeFeed::new(5);
        let (a, b) = (assign(&feed, &["a"]), assign(&feed, &["b"]));
        feed.accept(b, 1);
        feed.mark_durable(1);
        assert_eq!((names(&feed, 5), *feed.horizon().borrow()), (vec![], 5));
        feed.accept(a, 2);
        feed.mark_durable(1);
        assert_eq!(*feed.horizon().borrow(), 5, "a is accepted, but not durable");
        feed.mark_durable(2);
        assert_eq!((names(&feed, 5), *feed.horizon().borrow()), (vec!["a".into(), "b".into()], 7));
    }

    #[test]
    fn failed_transaction_unblocks_the_changes_after_it() {
        let feed = ChangeFeed::new(0);
        let (a, b) = (assign(&feed, &["a", "a2"]), assign(&feed, &["b"]));
        feed.accept(b, 1);
        feed.mark_durable(1);
        assert_eq!(*feed.horizon().borrow(), 0);
        feed.discard(a);
        assert_eq!((names(&feed, 0), *feed.horizon().borrow()), (vec!["b".into()], 3));
    }

    #[test]
    fn horizon_never_exceeds_the_first_number_after_a_restart() {
        // The next process continues after the last change in the log.
        let feed = ChangeFeed::new(0);
        let (a, b, c) = (assign(&feed, &["a"]), assign(&feed, &["b"]), assign(&feed, &["c"]));
        feed.accept(a, 1);
        feed.mark_durable(1);
        feed.discard(b);
        feed.discard(c);
        assert_eq!(*feed.horizon().borrow(), 1);
    }

    #[test]
    fn number_of_a_failed_transaction_is_used_again() {
        let feed = ChangeFeed::new(0);
        let a = assign(&feed, &["a"]);
        feed.discard(a);
        assert_eq!((assign(&feed, &["b"]), feed.next()), (a, 1));
    }

    #[test]
    fn unknown_outcome_stops_the_horizon() {
        let feed = ChangeFeed::new(0);
        let (_unknown, b) = (assign(&feed, &["a"]), assign(&feed, &["b"]));
        feed.accept(b, 1);
        feed.mark_durable(9);
        assert_eq!(*feed.horizon().borrow(), 0);
    }

    #[test]
    fn page_contains_complete_transactions_and_at_least_one() {
        let feed = ChangeFeed::new(0);
        for names in [&["a", "b", "c"][..], &["d"], &["e", "f"]] {
            let first = assign(&feed, names);
            feed.accept(first, 1);
        }
        feed.mark_durable(1);
        let ends = |from, max| {
            let page = feed.recent(from, max).expect("the changes are in memory");
            (page.next, page.is_last)
        };
        assert_eq!(ends(0, 1), (3, false));
        assert_eq!(ends(0, 4), (4, false));
        assert_eq!(ends(3, 2), (4, false));
        assert_eq!(ends(4, 1), (6, true));
        assert_eq!(ends(6, 1), (6, true));
    }

    #[test]
    fn old_changes_leave_the_memory() {
        let feed = ChangeFeed::new(0);
        for seq in 0..=RECENT_MAX as u64 {
            let first = assign(&feed, &["a"]);
            feed.accept(first, seq);
            feed.mark_durable(seq);
        }
        assert_eq!(feed.recent(0, 1), None);
        assert_eq!(names(&feed, 1).len(), RECENT_MAX);
    }
}

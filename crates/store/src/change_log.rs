//! Reading the change log of the open store.

use std::sync::Arc;

use slatedb::Db;
use tokio::sync::watch;

use super::change_feed::{ChangeGroup, ChangePage};
use super::changes::Change;
use super::error::Error;
use super::handle::Store;
use super::key_space::KeySpace;
use super::keys::{ChangeKey, Key};
use super::read::{KeyRange, StoreRead, scan_options};
use super::txn::Transaction;
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;

/// Maximum number of changes that one transaction removes from the log.
const REMOVED_MAX: usize = 1000;

impl Store {
    /// Returns the number of the next change.
    pub fn next_change(&self) -> u64 {
        self.shared.changes.next()
    }

    /// Returns the current horizon. Faster than [`change_horizon`](Self::change_horizon), because
    /// it creates no receiver.
    pub fn current_horizon(&self) -> u64 {
        self.shared.changes.current_horizon()
    }

    /// Moves the horizon of a replica to that of its writer.
    pub fn follow_change_horizon(&self, horizon: u64) {
        self.shared.changes.follow(horizon);
    }

    /// Returns a receiver of the horizon, which is the number of the last visible change plus one.
    /// The receiver is notified when the horizon moves. No further change with a number below the
    /// horizon can become visible later.
    pub fn change_horizon(&self) -> watch::Receiver<u64> {
        self.shared.changes.horizon()
    }

    /// Returns the number of the oldest change in the log.
    #[boxed]
    pub async fn oldest_change(&self) -> Result<u64, Error> {
        let horizon = self.current_horizon();
        let oldest = self.oldest_entry().await?;
        Ok(oldest.map_or(horizon, |(oldest, _)| oldest.min(horizon)))
    }

    /// Returns the oldest change in the log, with its number.
    #[boxed]
    pub async fn oldest_entry(&self) -> Result<Option<(u64, Change)>, Error> {
        let feed = &self.shared.changes;
        let horizon = feed.current_horizon();
        // A scan from the beginning of the log would read the tombstones of all removed changes.
        let range = KeyRange::changes_from(feed.removed_before());
        let oldest = self.durable().scan::<ChangeKey>(&range, Some(1)).await?.pop();
        Ok(oldest.map(|(ChangeKey(number), change)| {
            // Changes between the horizon and this one may not be durable yet.
            feed.mark_removed_before(number.min(horizon));
            (number, change)
        }))
    }

    /// Removes the changes with numbers below `keep_from` from the log. Returns their number, which
    /// includes the numbers of transactions that have failed.
    #[boxed]
    pub async fn remove_changes_before(
        &self,
        keep_from: u64,
        permit: &Permit<Maintain>,
    ) -> Result<u64, Error> {
        let oldest = self.oldest_change().await?;
        for from in (oldest..keep_from).step_by(REMOVED_MAX) {
            let end = keep_from.min(from + REMOVED_MAX as u64);
            let remove = |t: Arc<Transaction>| async move {
                (from..end).try_for_each(|number| t.delete(&ChangeKey(number)))
            };
            let ((), accepted) = self.transact("expire", permit, remove).await?;
            accepted.durable().await?;
            self.shared.changes.mark_removed_before(end);
        }
        Ok(keep_from.saturating_sub(oldest))
    }

    /// Returns the number of the first change that is not before a time. If there is no such change,
    /// returns the number of the next change. The search is binary: it expects that the times
    /// increase with the numbers.
    #[boxed]
    pub async fn first_change_since(&self, since_ms: i64) -> Result<u64, Error> {
        let store = self.durable();
        let (mut low, mut high) = (self.oldest_change().await?, self.current_horizon());
        while low < high {
            let middle = low + (high - low) / 2;
            let range = KeyRange::changes_from(middle);
            // Numbers of transactions that have failed are missing.
            let found = store.scan::<ChangeKey>(&range, Some(1)).await?.pop();
            match found.filter(|(key, _)| key.0 < high) {
                Some((key, change)) if change.at_ms < since_ms => low = key.0 + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Returns the visible transactions that begin at a position. The page consists of complete
    /// transactions with at most `max` changes in total, or of a single larger transaction. Returns
    /// `None` if the change at this position was removed from the log, or if the position is
    /// greater than the horizon.
    #[boxed]
    pub async fn changes_from(&self, from: u64, max: usize) -> Result<Option<ChangePage>, Error> {
        let horizon = self.current_horizon();
        if from > horizon {
            return Ok(None);
        }
        if let Some(page) = self.shared.changes.recent(from, max) {
            return Ok(Some(page));
        }
        if from < self.shared.changes.removed_before() {
            return Ok(None);
        }
        let store = self.durable();
        let range = KeyRange::changes_from(from);
        let mut entries = store.scan::<ChangeKey>(&range, Some(max)).await?;
        if let Some((_, Change { group: Some(group), .. })) = entries.first()
            && group.count as usize > max
        {
            // A page never contains only a part of a transaction.
            entries = store.scan::<ChangeKey>(&range, Some(group.count as usize)).await?;
        }
        // The oldest changes may be removed during the reads, so that only a check after them shows
        // that the page has no gap.
        if self.oldest_entry().await?.is_none_or(|(oldest, _)| oldest > from) {
            return Ok(None);
        }
        let read_all = entries.len() < max;
        entries.retain(|(key, _)| key.0 < horizon);
        Ok(Some(page_of(entries, from, read_all)))
    }
}

/// Returns the complete transactions of these entries. `read_all` states that the log has no
/// further entries.
fn page_of(entries: Vec<(ChangeKey, Change)>, from: u64, read_all: bool) -> ChangePage {
    let mut page = ChangePage { next: from, is_last: read_all, ..ChangePage::default() };
    let mut entries = entries.into_iter().peekable();
    while let Some((ChangeKey(first), change)) = entries.next() {
        let count = change.group.map_or(1, |group| group.count as usize);
        let mut changes = vec![Arc::new(change)];
        while changes.len() < count
            && let Some((_, change)) = entries.next()
        {
            changes.push(Arc::new(change));
        }
        if changes.len() < count {
            page.is_last = false;
            break;
        }
        let group = ChangeGroup { first, changes: changes.into() };
        page.next = group.end();
        page.groups.push(group);
    }
    page
}

/// Returns the number that the next change gets in a store that was just opened.
pub(super) async fn first_free_change(db: &Db) -> Result<u64, Error> {
    let mut options = scan_options(slatedb::config::DurabilityLevel::Memory);
    options.order = slatedb::IterationOrder::Descending;
    let prefix = [KeySpace::Changes.byte()];
    let mut newest_first = db.scan_prefix_with_options(prefix, .., &options).await?;
    let newest = newest_first.next().await?;
    Ok(newest.and_then(|entry| ChangeKey::decode(&entry.key)).map_or(0, |key| key.0 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{change, in_memory, open, permit};

    async fn log(store: &Store, name: &str) {
        let permit = permit();
        let logged = store.transact("log", &permit, |t| async move {
            t.log(&change(name));
            Ok::<_, Error>(())
        });
        logged.await.expect("it is accepted").1.durable().await.expect("it is durable");
    }

    #[tokio::test]
    async fn removed_changes_are_gone_and_the_others_stay() {
        let location = in_memory();
        let mut store = open(&location).await;
        for name in ["a", "b", "c", "d", "e"] {
            log(&store, name).await;
        }
        for (keep_from, removed) in [(2, 2), (4, 2)] {
            for removed in [removed, 0] {
                let done = store.remove_changes_before(keep_from, &permit()).await;
                assert_eq!(done.expect("the store is writable"), removed);
            }
            // At first, the page is in memory, and the store knows which changes it has removed.
            for _ in 0..2 {
                let oldest = store.oldest_change().await.expect("the store is readable");
                assert_eq!(oldest, keep_from);
                let page = store.changes_from(keep_from, 10).await.expect("the store is readable");
                let numbers: Vec<_> =
                    page.expect("they are there").groups.iter().map(|group| group.first).collect();
                assert_eq!(numbers, (keep_from..5).collect::<Vec<_>>());
                store.close().await.expect("it closes");
                store = open(&location).await;
                let before = store.changes_from(keep_from - 1, 10).await;
                assert_eq!(before.expect("the store is readable"), None);
            }
        }
    }

    #[tokio::test]
    async fn change_that_is_not_durable_yet_is_not_regarded_as_removed() {
        let store = open(&in_memory()).await;
        let feed = &store.shared.changes;
        let first = feed.assign_numbers(vec![change("not durable yet")]).first;
        log(&store, "durable").await;
        let oldest = store.oldest_entry().await.expect("the store is readable");
        assert_eq!(oldest.map(|(number, _)| number), Some(first + 1));
        assert_eq!(feed.removed_before(), first);
    }
}

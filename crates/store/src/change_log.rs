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
use slateberg_base::boxed;

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
        let all = KeyRange::all(KeySpace::Changes);
        let oldest = self.durable().scan::<ChangeKey>(&all, Some(1)).await?;
        let horizon = self.current_horizon();
        Ok(oldest.first().map_or(horizon, |(oldest, _)| oldest.0.min(horizon)))
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
        let all = KeyRange::all(KeySpace::Changes);
        let oldest = store.scan::<ChangeKey>(&all, Some(1)).await?;
        if oldest.first().is_none_or(|(oldest, _)| oldest.0 > from) {
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

//! [`CommitCounts`]: finds the tables with many commits, for the maintenance of tables.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

/// Number of commits after which a table is hot.
const HOT_COMMITS: usize = 100;
/// Maximum number of tables whose commits are counted. If there are more, the counts begin again.
const TABLES_MAX: usize = 100_000;

/// Counts the commits to tables.
#[derive(Default)]
pub(crate) struct CommitCounts {
    counts: Mutex<HashMap<Uuid, usize>>,
    has_hot_table: Notify,
}

impl CommitCounts {
    /// Adds commits to a table.
    pub(crate) fn add(&self, table: Uuid, commits: usize) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= TABLES_MAX {
            counts.clear();
        }
        let count = counts.entry(table).or_default();
        *count = count.saturating_add(commits);
        if *count >= HOT_COMMITS {
            self.has_hot_table.notify_one();
        }
    }

    /// Waits until a table may be hot.
    pub(crate) async fn wait_for_hot_table(&self) {
        self.has_hot_table.notified().await;
    }

    /// Returns the hot tables, whose counts begin again.
    pub(crate) fn take_hot(&self) -> Vec<Uuid> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hot: Vec<_> = counts.extract_if(|_, count| *count >= HOT_COMMITS).collect();
        hot.sort_unstable_by_key(|(_, commits)| std::cmp::Reverse(*commits));
        hot.into_iter().map(|(table, _)| table).collect()
    }
}

//! The snapshots of a table, and its growth over them.

use std::collections::{BTreeMap, HashMap};

use slateberg_model::expiry::{Expiry, ExpiryRequest};
use slateberg_model::snapshot::Snapshot;
use slateberg_model::table::TableMetadata;

/// The age of [`SnapshotCounts::older_than_a_day`], in milliseconds.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The snapshots of a table.
#[derive(Debug, Default)]
pub struct SnapshotCounts {
    /// Number of snapshots.
    pub snapshots: u64,
    /// Number of branches and tags.
    pub refs: u64,
    /// Number of snapshots that have expired by the properties of the table,
    /// its namespace and its warehouse. `None` if the table
    /// has `gc.enabled=false` or an invalid retention property.
    pub expired: Option<u64>,
    /// Number of snapshots that would expire with a retention of one day.
    pub older_than_a_day: Option<u64>,
    /// The oldest snapshot: its id, and the time of its creation in milliseconds since 1970.
    pub oldest: Option<(i64, i64)>,
    /// The time of the newest snapshot, in milliseconds since 1970.
    pub newest_ms: Option<i64>,
}

/// The difference between two snapshots. A difference is `None` if a writer did not record the
/// totals of its snapshot.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Time of the first snapshot, in milliseconds since 1970.
    pub from_ms: i64,
    /// Time of the second snapshot, in milliseconds since 1970.
    pub to_ms: i64,
    /// Number of snapshots after the first one.
    pub snapshots: u64,
    /// Difference in the number of data files.
    pub data_files: Option<i64>,
    /// Difference in the number of delete files.
    pub delete_files: Option<i64>,
    /// Difference in the size of all files, in bytes.
    pub bytes: Option<i64>,
    /// Difference in the number of rows.
    pub rows: Option<i64>,
}

impl SnapshotCounts {
    pub(crate) fn of(
        table: &TableMetadata,
        inherited: &BTreeMap<String, String>,
        now_ms: i64,
    ) -> Self {
        let expired = |older_than_ms| {
            let request = ExpiryRequest { older_than_ms, retain_last: None };
            let expiry = Expiry::of(table, request, inherited, now_ms).ok()?;
            Some(expiry.snapshots.len() as u64)
        };
        let oldest = table.snapshots.iter().min_by_key(|it| it.timestamp_ms);
        Self {
            snapshots: table.snapshots.len() as u64,
            refs: table.refs.len() as u64,
            expired: expired(None),
            older_than_a_day: expired(Some(DAY_MS)),
            oldest: oldest.map(|it| (it.snapshot_id, it.timestamp_ms)),
            newest_ms: table.snapshots.iter().map(|it| it.timestamp_ms).max(),
        }
    }
}

impl Growth {
    /// Returns the growth from the oldest ancestor of the current snapshot.
    pub(crate) fn of(table: &TableMetadata) -> Option<Self> {
        let by_id: HashMap<i64, &Snapshot> =
            table.snapshots.iter().map(|it| (it.snapshot_id, &**it)).collect();
        let current = *by_id.get(&table.current_snapshot_id?)?;
        let (mut first, mut snapshots) = (current, 0);
        // Metadata of other catalogs could contain a cycle.
        while let Some(parent) = first.parent_snapshot_id.and_then(|parent| by_id.get(&parent))
            && snapshots < by_id.len()
        {
            first = parent;
            snapshots += 1;
        }
        if snapshots == 0 {
            return None;
        }
        let (before, after) = (first.summary(), current.summary());
        let difference = |name: &str| {
            let total = |summary: &BTreeMap<String, String>| summary.get(name)?.parse::<i64>().ok();
            total(&after)?.checked_sub(total(&before)?)
        };
        Some(Self {
            from_ms: first.timestamp_ms,
            to_ms: current.timestamp_ms,
            snapshots: snapshots as u64,
            data_files: difference("total-data-files"),
            delete_files: difference("total-delete-files"),
            bytes: difference("total-files-size"),
            rows: difference("total-records"),
        })
    }
}

//! Sets of snapshots that a commit looks up or removes.

use std::collections::HashSet;

use super::super::table::TableMetadata;

/// Number of lookups that scan the list of snapshots. For more lookups, a set of the snapshot ids
/// is cheaper.
const SCANS_MAX: u32 = 64;

/// The ids of a table's snapshots. Most commits look up only one or two ids, by scanning the list.
/// After [`SCANS_MAX`] lookups, the commit builds a set, so that its cost stays linear.
#[derive(Default)]
pub(super) struct SnapshotIds {
    scans: u32,
    set: Option<HashSet<i64>>,
}

impl SnapshotIds {
    pub(super) fn contains(&mut self, metadata: &TableMetadata, id: i64) -> bool {
        if self.set.is_none() && self.scans < SCANS_MAX {
            self.scans += 1;
            return metadata.snapshot(id).is_some();
        }
        self.set.get_or_insert_with(|| metadata.snapshots.ids().collect()).contains(&id)
    }

    pub(super) fn add(&mut self, id: i64) {
        if let Some(set) = &mut self.set {
            set.insert(id);
        }
    }

    pub(super) fn remove(&mut self, ids: &HashSet<i64>) {
        if let Some(set) = &mut self.set {
            set.retain(|id| !ids.contains(id));
        }
    }
}

/// Removals that were collected but not performed yet. Expiry sends one update per snapshot, and
/// each of ten thousand updates must not scan all ten thousand snapshots. Code that depends on the
/// result calls `flush_removals` first.
#[derive(Default)]
pub(super) struct Removals {
    pub(super) snapshots: HashSet<i64>,
    pub(super) statistics: HashSet<i64>,
    pub(super) partition_statistics: HashSet<i64>,
}

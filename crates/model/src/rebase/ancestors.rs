//! The snapshots between a branch's current snapshot and the one that a client had loaded.

use std::sync::Arc;

use super::super::snapshot::Snapshot;
use super::super::table::TableMetadata;

/// Returns the snapshots of a branch after `base`, newest first. `None` if the base is not an
/// ancestor of the branch's current snapshot.
pub(super) fn snapshots_since<'a>(
    table: &'a TableMetadata,
    branch: &str,
    base: Option<i64>,
) -> Option<Vec<&'a Arc<Snapshot>>> {
    let mut next = table.refs.get(branch).map(|head| head.snapshot_id);
    let mut since = Vec::new();
    if next == base {
        return Some(since);
    }
    // A parent is added before its children, so one pass finds all ancestors.
    for snapshot in table.snapshots.iter().rev() {
        if Some(snapshot.snapshot_id) == next {
            since.push(snapshot);
            next = snapshot.parent_snapshot_id;
            if next == base {
                return Some(since);
            }
        }
    }
    None
}

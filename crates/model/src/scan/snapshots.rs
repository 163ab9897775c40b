//! [`SnapshotSelection`]: the snapshots that a request scans.

use std::collections::HashSet;
use std::sync::Arc;

use super::error::ScanError;
use crate::manifest_file::ManifestFile;
use crate::schema::Schema;
use crate::snapshot::{MAIN_BRANCH, Snapshot};
use crate::table::TableMetadata;

/// The snapshots that a request names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotSelection {
    /// The snapshot to scan.
    pub snapshot_id: Option<i64>,
    /// The snapshot after which an incremental scan begins.
    pub start_snapshot_id: Option<i64>,
    /// The last snapshot of an incremental scan.
    pub end_snapshot_id: Option<i64>,
}

/// The snapshots of a scan.
#[derive(Debug, Clone, PartialEq)]
pub enum ScanSnapshots {
    /// The table has no snapshot, and so no files.
    Empty,
    /// All files of one snapshot.
    Snapshot(Arc<Snapshot>),
    /// The files that a range of snapshots appended.
    Appends(AppendRange),
}

/// The snapshots of an incremental scan.
#[derive(Debug, Clone, PartialEq)]
pub struct AppendRange {
    end: Arc<Snapshot>,
    snapshots: Vec<Arc<Snapshot>>,
    ids: HashSet<i64>,
}

impl SnapshotSelection {
    /// Finds the snapshots in a table.
    pub fn resolve(&self, table: &TableMetadata) -> Result<ScanSnapshots, ScanError> {
        match (self.snapshot_id, self.start_snapshot_id, self.end_snapshot_id) {
            (Some(id), None, None) => find(table, id).cloned().map(ScanSnapshots::Snapshot),
            (Some(_), _, _) => Err(ScanError::argument(
                "Invalid scan: cannot provide both snapshotId and startSnapshotId/endSnapshotId",
            )),
            (None, Some(start), Some(end)) => {
                AppendRange::new(table, start, end).map(ScanSnapshots::Appends)
            }
            (None, None, None) => {
                let main = table.refs.get(MAIN_BRANCH).map(|main| main.snapshot_id);
                match main.or(table.current_snapshot_id) {
                    Some(id) => find(table, id).cloned().map(ScanSnapshots::Snapshot),
                    None => Ok(ScanSnapshots::Empty),
                }
            }
            (None, _, _) => Err(ScanError::argument(
                "Invalid incremental scan: startSnapshotId and endSnapshotId is required",
            )),
        }
    }
}

fn find(table: &TableMetadata, id: i64) -> Result<&Arc<Snapshot>, ScanError> {
    let missing = || ScanError::argument(format!("Cannot find snapshot with ID {id}"));
    table.snapshot(id).ok_or_else(missing)
}

impl ScanSnapshots {
    /// Returns the snapshots whose manifests the scan reads.
    pub fn snapshots(&self) -> &[Arc<Snapshot>] {
        match self {
            Self::Empty => &[],
            Self::Snapshot(snapshot) => std::slice::from_ref(snapshot),
            Self::Appends(range) => range.snapshots(),
        }
    }

    /// Returns the schema to which the filter is bound: the current schema, or the schema of the
    /// (last) snapshot if `use_snapshot_schema` is true.
    pub fn schema<'a>(
        &self,
        table: &'a TableMetadata,
        use_snapshot_schema: bool,
    ) -> Result<&'a Arc<Schema>, ScanError> {
        let snapshot = match self {
            Self::Snapshot(snapshot) if use_snapshot_schema => snapshot,
            Self::Appends(range) if use_snapshot_schema => &range.end,
            _ => return Ok(table.current_schema()?),
        };
        // Old snapshots of version 1 do not have the id.
        let Some(id) = snapshot.schema_id else { return Ok(table.current_schema()?) };
        table
            .schemas
            .iter()
            .find(|schema| schema.schema_id() == id)
            .ok_or_else(|| ScanError::validation(format!("Cannot find schema with schema id {id}")))
    }
}

impl AppendRange {
    /// Finds the snapshots after `start` up to `end`. Errors if `start` is not an ancestor of `end`.
    fn new(table: &TableMetadata, start: i64, end: i64) -> Result<Self, ScanError> {
        let end = find(table, end)?;
        let mut snapshots = Vec::new();
        let mut seen = HashSet::new();
        let mut next = Some(end);
        let mut found = false;
        // A damaged table may have a cycle of parents.
        while let Some(snapshot) = next.filter(|snapshot| seen.insert(snapshot.snapshot_id)) {
            if snapshot.summary().get("operation").map(String::as_str) == Some("append") {
                snapshots.push(Arc::clone(snapshot));
            }
            // The starting snapshot itself may have been expired.
            found = snapshot.parent_snapshot_id == Some(start);
            if found {
                break;
            }
            next = snapshot.parent_snapshot_id.and_then(|id| table.snapshot(id));
        }
        if !found {
            return Err(ScanError::argument(format!(
                "Starting snapshot (exclusive) {start} is not a parent ancestor of end snapshot {}",
                end.snapshot_id
            )));
        }
        snapshots.reverse();
        let ids = snapshots.iter().map(|snapshot| snapshot.snapshot_id).collect();
        Ok(Self { end: Arc::clone(end), snapshots, ids })
    }

    /// Returns the last snapshot of the range. Its operation is not necessarily an append.
    pub fn end(&self) -> &Arc<Snapshot> {
        &self.end
    }

    /// Returns the snapshots that append files, oldest first.
    pub fn snapshots(&self) -> &[Arc<Snapshot>] {
        &self.snapshots
    }

    /// Whether a manifest may list files that the range appended. The manifest lists of several
    /// snapshots may contain the same manifest, so the caller must remove duplicates.
    pub fn includes_manifest(&self, manifest: &ManifestFile) -> bool {
        manifest.is_data() && self.ids.contains(&manifest.added_snapshot_id)
    }

    /// Whether the range appended the file of a manifest entry. `is_added`: the entry has the status
    /// *added*.
    pub fn includes_entry(&self, is_added: bool, snapshot_id: i64) -> bool {
        is_added && self.ids.contains(&snapshot_id)
    }
}

//! Rebase of appends and compactions. A client may create a commit for an earlier state of the table.
//! If the commit only adds data files, or only reorganizes files, it is applied to the current
//! state.
//!
//! "Append operations have no requirements and can always be applied. [...] To change a sequence
//! number for a retry, only the manifest list must be rewritten" (table specification, "Commit
//! Conflict Resolution and Retry"). The new snapshot keeps its id and its manifests. Its parent,
//! sequence number, time, manifest list, row ids and totals become the same as in a retry by the
//! client. If the client has replaced manifests of the state that it had loaded, the same manifests
//! are replaced in the current state ([`ClientManifests`]).
//!
//! The functions are pure. The caller reads and writes the manifest lists.

mod ancestors;
mod manifests;
mod operation;
mod reason;
mod snapshot_json;
mod summary;
#[cfg(test)]
mod tests;
mod turn;

pub use manifests::ClientManifests;
pub use reason::NotRebased;
pub use summary::REBASED_FROM;
pub(super) use summary::is_rebased_form;
pub use turn::lost_to_appends;

use std::sync::Arc;

use ancestors::snapshots_since;
use operation::{APPEND, Operation, REPLACE};
use summary::{Summary, is_same_writer};

use super::manifest_file::ManifestFile;
use super::refusal::Refusal;
use super::requirement::TableRequirement;
use super::snapshot::{MAIN_BRANCH, Snapshot, SnapshotRef, SnapshotRefKind};
use super::table::{FORMAT_VERSION_ROW_LINEAGE, TableMetadata};
use super::update::TableUpdate;

/// Key in the summary of a snapshot. Its value is `true` if the append does not depend on the
/// content of the table.
pub const BLIND_APPEND: &str = "slateberg.blind-append";
/// Keys in the summaries of appends that depend on other snapshots: cherry-picks, published WAP
/// snapshots, and replaced partitions.
const DEPENDENT_KEYS: [&str; 4] =
    ["source-snapshot-id", "published-wap-id", "wap.id", "replace-partitions"];

/// A commit that adds one snapshot to a branch: an append, or a compaction.
#[derive(Debug, Clone)]
pub struct RebaseCandidate {
    operation: Operation,
    snapshot: Arc<Snapshot>,
    manifest_list: String,
    branch: String,
    reference: SnapshotRef,
    /// The snapshot of the branch that the client had loaded. `None` if the branch did not exist.
    base: Option<i64>,
    summary: Summary,
    /// Updates of the table's properties. They are independent of the table's state.
    properties: Vec<TableUpdate>,
}

/// A commit that was applied to the current state.
#[derive(Debug, Clone)]
pub struct RebasedCommit {
    /// The updates, with the new snapshot.
    pub updates: Vec<TableUpdate>,
    /// The requirements of the commit, except the one on the snapshot of the branch.
    pub requirements: Vec<TableRequirement>,
    /// The new snapshot.
    pub snapshot: Arc<Snapshot>,
    /// The manifests that the commit adds, with their new sequence numbers and row ids.
    pub own: Vec<ManifestFile>,
}

/// The new manifest list and time of a rebased snapshot.
#[derive(Debug, Clone, Copy)]
pub struct NewList<'a> {
    /// Location of the manifest list.
    pub location: &'a str,
    /// Number of manifests of the branch that remain.
    pub kept: usize,
    /// Number of manifests of the branch that the commit replaces.
    pub replaced: usize,
    /// Current time, in milliseconds since 1970.
    pub now_ms: i64,
}

impl RebaseCandidate {
    /// Returns the candidate for a commit with these requirements and updates.
    ///
    /// # Errors
    /// Returns the reason if the commit could not be rebased, whatever the state of the table.
    pub fn of(
        requirements: &[TableRequirement],
        updates: &[TableUpdate],
    ) -> Result<Self, NotRebased> {
        let is_property = |it: &&TableUpdate| {
            matches!(it, TableUpdate::SetProperties { .. } | TableUpdate::RemoveProperties { .. })
        };
        let (properties, others): (Vec<_>, Vec<_>) = updates.iter().partition(is_property);
        let (snapshot, branch, reference) = match others[..] {
            [
                TableUpdate::AddSnapshot { snapshot },
                TableUpdate::SetSnapshotRef { ref_name, reference },
            ] if reference.snapshot_id == snapshot.snapshot_id
                && reference.kind == SnapshotRefKind::Branch =>
            {
                (snapshot, ref_name, reference)
            }
            _ => return Err(NotRebased::NotAnAppend),
        };
        let mut asserted = requirements.iter().filter_map(|it| match it {
            TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id } if r#ref == branch => {
                Some(*snapshot_id)
            }
            _ => None,
        });
        let base = asserted.next().ok_or(NotRebased::NotAnAppend)?;
        let creates_branch = base.is_none() && branch != MAIN_BRANCH;
        if asserted.next().is_some() || snapshot.parent_snapshot_id != base || creates_branch {
            return Err(NotRebased::NotAnAppend);
        }
        let summary = snapshot.summary();
        let operation = match (summary.get("operation").map(String::as_str), base) {
            (Some(APPEND), _) => Operation::Append,
            (Some(REPLACE), Some(_)) => Operation::Replace,
            _ => return Err(NotRebased::Dependent),
        };
        if DEPENDENT_KEYS.iter().any(|key| summary.contains_key(*key)) {
            return Err(NotRebased::Dependent);
        }
        if snapshot.key_id().is_some() {
            return Err(NotRebased::Encrypted);
        }
        let manifest_list = snapshot.manifest_list().ok_or(NotRebased::FormatVersion(1))?;
        Ok(Self {
            operation,
            snapshot: Arc::clone(snapshot),
            manifest_list,
            branch: branch.clone(),
            reference: reference.clone(),
            base,
            summary,
            properties: properties.into_iter().cloned().collect(),
        })
    }

    /// Whether the commit only adds data files.
    pub fn is_append(&self) -> bool {
        self.operation == Operation::Append
    }

    /// Whether the commit does not depend on the rows of the table, according to its writer. A
    /// compaction changes no rows, so it needs no declaration.
    pub fn is_declared_blind(&self) -> bool {
        !self.is_append()
            || self
                .summary
                .get(BLIND_APPEND)
                .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Location of the manifest list that the client wrote.
    pub fn manifest_list(&self) -> &str {
        &self.manifest_list
    }

    /// Id of the new snapshot.
    pub fn snapshot_id(&self) -> i64 {
        self.snapshot.snapshot_id
    }

    /// Whether the branch is still at the snapshot that the client had loaded.
    pub fn is_current(&self, table: &TableMetadata) -> bool {
        self.head(table).map(|head| head.snapshot_id) == self.base
    }

    /// Returns the snapshot that the client had loaded. `None` if the branch did not exist, or if
    /// the snapshot has expired.
    pub fn base<'a>(&self, table: &'a TableMetadata) -> Option<&'a Arc<Snapshot>> {
        table.snapshot(self.base?)
    }

    /// Returns the snapshot of the branch in the current state.
    pub fn head<'a>(&self, table: &'a TableMetadata) -> Option<&'a Arc<Snapshot>> {
        let reference = table.refs.get(&self.branch)?;
        table.snapshot(reference.snapshot_id)
    }

    /// Checks that the commit can be applied to the current state.
    ///
    /// # Errors
    /// Returns the reason if it cannot.
    pub fn check(&self, table: &TableMetadata) -> Result<(), NotRebased> {
        if table.format_version < 2 {
            return Err(NotRebased::FormatVersion(table.format_version));
        }
        if table.properties.contains_key("encryption.key-id") {
            return Err(NotRebased::Encrypted);
        }
        if self.snapshot.schema_id.is_some_and(|id| id != table.current_schema_id) {
            return Err(NotRebased::Schema);
        }
        if let Some(current) = table.refs.get(&self.branch)
            && (SnapshotRef { snapshot_id: current.snapshot_id, ..self.reference.clone() })
                != *current
        {
            return Err(NotRebased::Branch);
        }
        let since = snapshots_since(table, &self.branch, self.base);
        for snapshot in since.ok_or(NotRebased::NotOnlyAppends)? {
            let summary = snapshot.summary();
            match (summary.get("operation").map(String::as_str), self.operation) {
                (Some(APPEND), _) | (Some(REPLACE), Operation::Append) => {}
                _ => return Err(NotRebased::NotOnlyAppends),
            }
            if is_same_writer(&self.summary, &summary) {
                return Err(NotRebased::SameWriter);
            }
        }
        Ok(())
    }

    /// Returns the manifests of the commit, from the manifest list of its client.
    ///
    /// # Errors
    /// Returns the reason if the manifests do not match the operation of the commit.
    pub fn manifests(
        &self,
        list: impl IntoIterator<Item = ManifestFile>,
    ) -> Result<ClientManifests, NotRebased> {
        ClientManifests::of(self.snapshot_id(), self.operation, list)
    }

    /// Applies the commit to the current state. [`check`](Self::check) must have succeeded, and
    /// `own` must be the manifests of the client, or manifests with the same added files.
    ///
    /// # Errors
    /// Returns the reason if the manifests are inconsistent with the snapshot or the table.
    pub fn rebase(
        &self,
        table: &TableMetadata,
        requirements: &[TableRequirement],
        own: &[ManifestFile],
        list: NewList<'_>,
    ) -> Result<RebasedCommit, NotRebased> {
        let head = self.head(table);
        let sequence_number =
            table.last_sequence_number.checked_add(1).ok_or(NotRebased::Manifests)?;
        let row_ids = self.row_ids(table, own)?;
        let known_spec = |id: i32| table.partition_specs.iter().any(|spec| spec.spec_id == id);
        let own = own
            .iter()
            .map(|manifest| {
                if !known_spec(manifest.spec_id) {
                    return Err(NotRebased::Manifests);
                }
                self.moved_manifest(manifest, sequence_number, row_ids)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let logged = table.snapshot_log.last().map_or(0, |entry| entry.timestamp_ms);
        let timestamp_ms = list.now_ms.max(table.last_updated_ms).max(logged);
        let head_summary = head.map(|head| head.summary());
        let counts = [list.kept, own.len(), list.replaced];
        let summary = summary::rebased(&self.summary, head_summary.as_ref(), &counts, self.base);
        let changes = snapshot_json::Changes {
            parent_snapshot_id: head.map(|head| head.snapshot_id),
            sequence_number,
            timestamp_ms,
            manifest_list: list.location,
            first_row_id: row_ids.map(|ids| ids.first),
            summary,
        };
        let snapshot = snapshot_json::changed(&self.snapshot, changes);
        let snapshot = Arc::new(snapshot.map_err(|_: Refusal| NotRebased::Other)?);
        let asserts_branch = |it: &TableRequirement| match it {
            TableRequirement::RefSnapshotIdMatch { r#ref, .. } => *r#ref == self.branch,
            _ => false,
        };
        let branch_updates = [
            TableUpdate::AddSnapshot { snapshot: Arc::clone(&snapshot) },
            TableUpdate::SetSnapshotRef {
                ref_name: self.branch.clone(),
                reference: self.reference.clone(),
            },
        ];
        Ok(RebasedCommit {
            updates: [&self.properties[..], &branch_updates].concat(),
            requirements: requirements.iter().filter(|it| !asserts_branch(it)).cloned().collect(),
            snapshot,
            own,
        })
    }

    /// Returns the new first row id. `None` for tables without row lineage.
    fn row_ids(
        &self,
        table: &TableMetadata,
        own: &[ManifestFile],
    ) -> Result<Option<RowIds>, NotRebased> {
        if table.format_version < FORMAT_VERSION_ROW_LINEAGE {
            return Ok(None);
        }
        let (Some(before), Some(added)) = (self.snapshot.first_row_id, self.snapshot.added_rows)
        else {
            return Err(NotRebased::Manifests);
        };
        let end = before.checked_add(added).ok_or(NotRebased::Manifests)?;
        // Row ids of a manifest must be inside the range of the snapshot. Otherwise, another
        // snapshot could get the same row ids.
        // Writers also reserve row ids for existing files, although these files have row ids already.
        let is_inside = |it: &ManifestFile| {
            let first = it.first_row_id.filter(|first| *first >= before)?;
            let rows = it.added_rows_count?.checked_add(it.existing_rows_count?)?;
            Some(first.checked_add(rows)? <= end)
        };
        if !own.iter().filter(|it| it.is_data()).all(|it| is_inside(it) == Some(true)) {
            return Err(NotRebased::Manifests);
        }
        Ok(Some(RowIds { before, first: table.next_row_id }))
    }

    fn moved_manifest(
        &self,
        manifest: &ManifestFile,
        sequence_number: i64,
        row_ids: Option<RowIds>,
    ) -> Result<ManifestFile, NotRebased> {
        let before = self.snapshot.sequence_number;
        // A smaller number belongs to files that the client added with an explicit sequence number,
        // and stays.
        let moved = |number: i64| if number == before { sequence_number } else { number };
        let first_row_id = match (manifest.first_row_id, row_ids) {
            (Some(id), Some(ids)) => {
                let id = ids.first.checked_add(id - ids.before);
                Some(id.ok_or(NotRebased::Manifests)?)
            }
            (id, _) => id,
        };
        Ok(ManifestFile {
            sequence_number: moved(manifest.sequence_number),
            min_sequence_number: moved(manifest.min_sequence_number),
            first_row_id,
            ..manifest.clone()
        })
    }
}

/// The first row id of a commit: the id that its client assumed, and the id that the commit gets.
#[derive(Clone, Copy)]
struct RowIds {
    before: i64,
    first: i64,
}

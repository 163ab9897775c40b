//! [`RebaseChain`]: applies the snapshots of a commit to the current state, one after the other.

use std::sync::Arc;

use super::super::manifest_file::ManifestFile;
use super::super::refusal::Refusal;
use super::super::requirement::TableRequirement;
use super::super::snapshot::Snapshot;
use super::super::table::{FORMAT_VERSION_ROW_LINEAGE, TableMetadata};
use super::super::update::TableUpdate;
use super::candidate::{AddedSnapshot, RebaseCandidate};
use super::reason::NotRebased;
use super::{snapshot_json, summary};

/// A commit that is applied to the current state. Each of its snapshots is the parent of the next.
pub struct RebaseChain<'a> {
    candidate: &'a RebaseCandidate,
    table: &'a TableMetadata,
    /// The snapshots that are already rebased.
    rebased: Vec<Arc<Snapshot>>,
}

/// A snapshot that was applied to the current state.
#[derive(Debug, Clone)]
pub struct RebasedSnapshot {
    /// The snapshot, with its new parent and manifest list.
    pub snapshot: Arc<Snapshot>,
    /// The manifests that the snapshot adds, with their new sequence numbers and row ids.
    pub own: Vec<ManifestFile>,
}

/// A commit that was applied to the current state.
#[derive(Debug, Clone)]
pub struct RebasedCommit {
    /// The updates, with the new snapshots.
    pub updates: Vec<TableUpdate>,
    /// The requirements of the commit, except the one on the snapshot of the branch.
    pub requirements: Vec<TableRequirement>,
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

/// The first row id of a snapshot: the id that its client assumed, and the id that it gets.
#[derive(Clone, Copy)]
struct RowIds {
    before: i64,
    first: i64,
}

impl<'a> RebaseChain<'a> {
    /// Begins to apply a commit to the current state. The commit must fulfil the conditions of
    /// [`RebaseCandidate::check`].
    pub fn new(candidate: &'a RebaseCandidate, table: &'a TableMetadata) -> Self {
        Self { candidate, table, rebased: Vec::new() }
    }

    /// Applies the next snapshot. `own` must be the manifests of the client, or manifests with the
    /// same added files.
    ///
    /// # Errors
    /// Returns the reason if the manifests are inconsistent with the snapshot or the table.
    pub fn add(
        &mut self,
        own: &[ManifestFile],
        list: NewList<'_>,
    ) -> Result<RebasedSnapshot, NotRebased> {
        let (candidate, table, previous) = (self.candidate, self.table, self.rebased.last());
        let sent = candidate.added.get(self.rebased.len()).ok_or(NotRebased::Other)?;
        let last = previous.map_or(table.last_sequence_number, |it| it.sequence_number);
        let head = previous.or_else(|| candidate.head(table)).cloned();
        let sequence_number = last.checked_add(1).ok_or(NotRebased::Manifests)?;
        let row_ids = self.row_ids(sent, own)?;
        let known_spec = |id: i32| table.partition_specs.iter().any(|spec| spec.spec_id == id);
        let own = own
            .iter()
            .map(|manifest| {
                if !known_spec(manifest.spec_id) {
                    return Err(NotRebased::Manifests);
                }
                moved_manifest(&sent.snapshot, manifest, sequence_number, row_ids)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let logged = table.snapshot_log.last().map_or(0, |entry| entry.timestamp_ms);
        let timestamp_ms = list.now_ms.max(table.last_updated_ms).max(logged);
        let head_summary = head.as_ref().map(|head| head.summary());
        let counts = [list.kept, own.len(), list.replaced];
        let base = candidate.base;
        let summary = summary::rebased(&sent.summary, head_summary.as_ref(), &counts, base);
        let changes = snapshot_json::Changes {
            parent_snapshot_id: head.map(|head| head.snapshot_id),
            sequence_number,
            timestamp_ms,
            manifest_list: list.location,
            first_row_id: row_ids.map(|ids| ids.first),
            summary,
        };
        let snapshot = snapshot_json::changed(&sent.snapshot, changes);
        let snapshot = Arc::new(snapshot.map_err(|_: Refusal| NotRebased::Other)?);
        self.rebased.push(Arc::clone(&snapshot));
        Ok(RebasedSnapshot { snapshot, own })
    }

    /// Returns the commit. All of its snapshots must have been added.
    pub fn finish(self, requirements: &[TableRequirement]) -> RebasedCommit {
        let asserts_branch = |it: &TableRequirement| match it {
            TableRequirement::RefSnapshotIdMatch { r#ref, .. } => *r#ref == self.candidate.branch,
            _ => false,
        };
        let mut rebased = self.rebased.into_iter();
        let updates = self.candidate.updates.iter().map(|update| match update {
            TableUpdate::AddSnapshot { snapshot } => {
                let snapshot = rebased.next().unwrap_or_else(|| Arc::clone(snapshot));
                TableUpdate::AddSnapshot { snapshot }
            }
            other => other.clone(),
        });
        RebasedCommit {
            updates: updates.collect(),
            requirements: requirements.iter().filter(|it| !asserts_branch(it)).cloned().collect(),
        }
    }

    /// Returns the new first row id. `None` for tables without row lineage.
    fn row_ids(
        &self,
        sent: &AddedSnapshot,
        own: &[ManifestFile],
    ) -> Result<Option<RowIds>, NotRebased> {
        if self.table.format_version < FORMAT_VERSION_ROW_LINEAGE {
            return Ok(None);
        }
        let end = |snapshot: &Snapshot| snapshot.first_row_id?.checked_add(snapshot.added_rows?);
        let before = sent.snapshot.first_row_id.ok_or(NotRebased::Manifests)?;
        let sent_end = end(&sent.snapshot).ok_or(NotRebased::Manifests)?;
        // Row ids of a manifest must be inside the range of the snapshot. Otherwise, another
        // snapshot could get the same row ids.
        // Writers also reserve row ids for existing files, although these files have row ids already.
        let is_inside = |it: &ManifestFile| {
            let first = it.first_row_id.filter(|first| *first >= before)?;
            let rows = it.added_rows_count?.checked_add(it.existing_rows_count?)?;
            Some(first.checked_add(rows)? <= sent_end)
        };
        if !own.iter().filter(|it| it.is_data()).all(|it| is_inside(it) == Some(true)) {
            return Err(NotRebased::Manifests);
        }
        let first = match self.rebased.last() {
            Some(previous) => end(previous).ok_or(NotRebased::Manifests)?,
            None => self.table.next_row_id,
        };
        Ok(Some(RowIds { before, first }))
    }
}

fn moved_manifest(
    sent: &Snapshot,
    manifest: &ManifestFile,
    sequence_number: i64,
    row_ids: Option<RowIds>,
) -> Result<ManifestFile, NotRebased> {
    // A smaller number belongs to files that the client added with an explicit sequence number, and
    // stays.
    let moved = |it: i64| if it == sent.sequence_number { sequence_number } else { it };
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

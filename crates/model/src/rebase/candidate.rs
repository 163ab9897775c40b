//! [`RebaseCandidate`]: a commit that can be rebased, and its conditions on the current state.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::manifest_file::ManifestFile;
use super::super::requirement::TableRequirement;
use super::super::snapshot::{MAIN_BRANCH, Operation, Snapshot, SnapshotRef, SnapshotRefKind};
use super::super::table::{FORMAT_VERSION_ADOPTED, TableMetadata};
use super::super::update::TableUpdate;
use super::ancestors::snapshots_since;
use super::manifests::ClientManifests;
use super::reason::NotRebased;
use super::summary::{Summary, identifies_writer, is_same_writer};

/// Key in the summary of a snapshot. Its value is `true` if the append does not depend on the
/// content of the table.
pub const BLIND_APPEND: &str = "slateberg.blind-append";
/// Keys in the summaries of appends that depend on other snapshots: cherry-picks, published WAP
/// snapshots, and replaced partitions.
const DEPENDENT_KEYS: [&str; 4] =
    ["source-snapshot-id", "published-wap-id", "wap.id", "replace-partitions"];
/// Maximum number of snapshots that one commit may append.
const SNAPSHOTS_MAX: usize = 16;

/// A commit that adds snapshots to a branch: appends, or one compaction.
#[derive(Debug, Clone)]
pub struct RebaseCandidate {
    operation: Operation,
    /// The snapshots. Each of them is the parent of the next one.
    pub(super) added: Vec<AddedSnapshot>,
    pub(super) branch: String,
    reference: SnapshotRef,
    /// The snapshot of the branch that the client had loaded. `None` if the branch did not exist.
    pub(super) base: Option<i64>,
    /// All updates: the snapshots, the branch, and properties, which are independent of the table's
    /// state.
    pub(super) updates: Vec<TableUpdate>,
}

/// A snapshot that a commit adds.
#[derive(Debug, Clone)]
pub struct AddedSnapshot {
    pub(super) snapshot: Arc<Snapshot>,
    manifest_list: String,
    pub(super) summary: Summary,
}

impl AddedSnapshot {
    fn of(snapshot: &Arc<Snapshot>) -> Result<Self, NotRebased> {
        let summary = snapshot.summary();
        if DEPENDENT_KEYS.iter().any(|key| summary.contains_key(*key)) {
            return Err(NotRebased::Dependent);
        }
        if snapshot.key_id().is_some() {
            return Err(NotRebased::Encrypted);
        }
        let manifest_list = snapshot.manifest_list().ok_or(NotRebased::FormatVersion(1))?;
        Ok(Self { snapshot: Arc::clone(snapshot), manifest_list, summary })
    }

    /// Id of the snapshot.
    pub fn snapshot_id(&self) -> i64 {
        self.snapshot.snapshot_id
    }

    /// Location of the manifest list that the client wrote.
    pub fn manifest_list(&self) -> &str {
        &self.manifest_list
    }

    fn operation(&self) -> Option<Operation> {
        self.snapshot.operation()
    }
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
        let (snapshots, branch, reference) = snapshots_of(updates)?;
        let mut asserted = requirements.iter().filter_map(|it| match it {
            TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id } if r#ref == branch => {
                Some(*snapshot_id)
            }
            _ => None,
        });
        let base = asserted.next().ok_or(NotRebased::NotAnAppend)?;
        let creates_branch = base.is_none() && branch != MAIN_BRANCH;
        if asserted.next().is_some() || creates_branch {
            return Err(NotRebased::NotAnAppend);
        }
        let mut parent = base;
        for snapshot in &snapshots {
            if snapshot.parent_snapshot_id != parent {
                return Err(NotRebased::NotAnAppend);
            }
            parent = Some(snapshot.snapshot_id);
        }
        let added: Vec<_> =
            snapshots.into_iter().map(AddedSnapshot::of).collect::<Result<_, _>>()?;
        let operation = match added.iter().map(AddedSnapshot::operation).collect::<Vec<_>>()[..] {
            [Some(Operation::Replace)] if base.is_some() => Operation::Replace,
            ref all if all.iter().all(|it| *it == Some(Operation::Append)) => Operation::Append,
            [_] => return Err(NotRebased::Dependent),
            _ => return Err(NotRebased::Chain),
        };
        if added.len() > SNAPSHOTS_MAX {
            return Err(NotRebased::Chain);
        }
        let (branch, reference) = (branch.clone(), reference.clone());
        Ok(Self { operation, added, branch, reference, base, updates: updates.to_vec() })
    }

    /// Whether the commit only adds data files.
    pub fn is_append(&self) -> bool {
        self.operation == Operation::Append
    }

    /// Whether the commit does not depend on the rows of the table, according to its writer. A
    /// compaction changes no rows, so it needs no declaration.
    pub fn is_declared_blind(&self) -> bool {
        let is_blind = |it: &AddedSnapshot| {
            let value = it.summary.get(BLIND_APPEND);
            value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
        };
        !self.is_append() || self.added.iter().all(is_blind)
    }

    /// The new snapshots, each of which is the parent of the next one.
    pub fn added(&self) -> &[AddedSnapshot] {
        &self.added
    }

    /// Whether the table has a snapshot of the commit already.
    pub fn is_in(&self, table: &TableMetadata) -> bool {
        self.added.iter().any(|it| table.snapshot(it.snapshot_id()).is_some())
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
        if !(2..=FORMAT_VERSION_ADOPTED).contains(&table.format_version) {
            return Err(NotRebased::FormatVersion(table.format_version));
        }
        if table.properties.contains_key("encryption.key-id") {
            return Err(NotRebased::Encrypted);
        }
        let has_other_schema = |it: &AddedSnapshot| {
            it.snapshot.schema_id.is_some_and(|id| id != table.current_schema_id)
        };
        if self.added.iter().any(has_other_schema) {
            return Err(NotRebased::Schema);
        }
        if let Some(current) = table.refs.get(&self.branch)
            && !has_same_settings(current, &self.reference)
        {
            return Err(NotRebased::Branch);
        }
        let since = snapshots_since(table, &self.branch, self.base);
        let identified: Vec<_> =
            self.added.iter().filter(|it| identifies_writer(&it.summary)).collect();
        for snapshot in since.ok_or(NotRebased::NotOnlyAppends)? {
            match (snapshot.operation(), self.operation) {
                (Some(Operation::Append), _) | (Some(Operation::Replace), Operation::Append) => {}
                _ => return Err(NotRebased::NotOnlyAppends),
            }
            if identified.iter().any(|it| is_same_writer(&it.summary, &snapshot.summary())) {
                return Err(NotRebased::SameWriter);
            }
        }
        Ok(())
    }

    /// Returns the manifests of each snapshot, from the manifest lists of the client, which are in
    /// the order of the snapshots.
    ///
    /// # Errors
    /// Returns the reason if the manifests do not match the operation of the commit.
    pub fn manifests(
        &self,
        lists: impl IntoIterator<Item = Vec<ManifestFile>>,
    ) -> Result<Vec<ClientManifests>, NotRebased> {
        let mut clients: Vec<ClientManifests> = Vec::with_capacity(self.added.len());
        for (added, list) in self.added.iter().zip(lists) {
            let paths: HashSet<_> = list.iter().map(|manifest| manifest.path.as_str()).collect();
            let mut earlier = clients.iter().flat_map(ClientManifests::own);
            // After the rebase, the snapshot has all manifests of the earlier ones.
            if !earlier.all(|manifest| paths.contains(manifest.path.as_str())) {
                return Err(NotRebased::Chain);
            }
            let client = ClientManifests::of(added.snapshot_id(), self.operation, list)?;
            if self.added.len() > 1 && client.replaces() {
                return Err(NotRebased::Chain);
            }
            clients.push(client);
        }
        Ok(clients)
    }
}

/// Returns the snapshots of a commit, and the branch to which it adds them.
fn snapshots_of(
    updates: &[TableUpdate],
) -> Result<(Vec<&Arc<Snapshot>>, &String, &SnapshotRef), NotRebased> {
    let mut snapshots: Vec<&Arc<Snapshot>> = Vec::new();
    let mut branch: Option<(&String, &SnapshotRef)> = None;
    for update in updates {
        match update {
            TableUpdate::SetProperties { .. } | TableUpdate::RemoveProperties { .. } => {}
            TableUpdate::AddSnapshot { snapshot } => snapshots.push(snapshot),
            // Some clients move the branch after each snapshot, others once at the end.
            TableUpdate::SetSnapshotRef { ref_name, reference }
                if reference.kind == SnapshotRefKind::Branch
                    && snapshots
                        .last()
                        .is_some_and(|it| it.snapshot_id == reference.snapshot_id)
                    && branch.is_none_or(|(name, before)| {
                        name == ref_name && has_same_settings(before, reference)
                    }) =>
            {
                branch = Some((ref_name, reference));
            }
            _ => return Err(NotRebased::NotAnAppend),
        }
    }
    let (name, reference) = branch.ok_or(NotRebased::NotAnAppend)?;
    if snapshots.last().is_none_or(|last| last.snapshot_id != reference.snapshot_id) {
        return Err(NotRebased::NotAnAppend);
    }
    Ok((snapshots, name, reference))
}

/// Whether two branches differ at most in their snapshots.
fn has_same_settings(one: &SnapshotRef, other: &SnapshotRef) -> bool {
    SnapshotRef { snapshot_id: one.snapshot_id, ..other.clone() } == *one
}

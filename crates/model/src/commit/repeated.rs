//! Recognizes a commit that the table already contains.
//!
//! If the response to an append is lost, the client sends the same commit again. The first attempt
//! has changed the table, so the requirements of the second attempt fail. If the client then got a
//! conflict, it would delete the files of its snapshot, although the table needs them. Therefore,
//! the repeated commit is accepted without effect.

use std::collections::HashMap;

use super::super::rebase::is_rebased_form;
use super::super::requirement::TableRequirement;
use super::super::snapshot::{Snapshot, SnapshotRef};
use super::super::table::TableMetadata;
use super::super::update::TableUpdate;

/// Whether the table contains the result of this commit. Two conditions must hold. The table has
/// the snapshots of the commit, and the branches and tags that the commit sets to these snapshots.
/// Applying all other updates again would change nothing, which `has_no_effect` checks.
pub(super) fn is_repeated(
    table: &TableMetadata,
    requirements: &[TableRequirement],
    updates: &[TableUpdate],
    has_no_effect: impl FnOnce(&[&TableUpdate]) -> bool,
) -> bool {
    let added: Vec<&Snapshot> = updates
        .iter()
        .filter_map(|update| match update {
            TableUpdate::AddSnapshot { snapshot } => Some(&**snapshot),
            _ => None,
        })
        .collect();
    // For most refused commits, the check ends here, before it builds a map of all snapshots.
    if added.first().is_none_or(|new| table.snapshot(new.snapshot_id).is_none()) {
        return false;
    }
    let known: HashMap<i64, &Snapshot> =
        table.snapshots.iter().map(|snapshot| (snapshot.snapshot_id, &**snapshot)).collect();
    let is_known = |new: &&Snapshot| {
        known.get(&new.snapshot_id).is_some_and(|it| it == new || is_rebased_form(it, new))
    };
    if !added.iter().all(is_known) {
        return false;
    }
    // The other requirements describe the state before the first attempt.
    let same_table = |requirement: &TableRequirement| match requirement {
        TableRequirement::UuidMatch { uuid } => *uuid == table.table_uuid,
        _ => true,
    };
    let mut others = Vec::new();
    for update in updates {
        match update {
            TableUpdate::AddSnapshot { .. } => {}
            TableUpdate::SetSnapshotRef { ref_name, reference }
                if added.iter().any(|new| new.snapshot_id == reference.snapshot_id) =>
            {
                let current = table.refs.get(ref_name);
                if !current.is_some_and(|it| leads_to(it, reference, &known)) {
                    return false;
                }
            }
            other => others.push(other),
        }
    }
    requirements.iter().all(same_table) && has_no_effect(&others)
}

/// Whether a branch or tag is equal to `wanted`, except that it may point to a descendant of the
/// snapshot of `wanted`.
fn leads_to(current: &SnapshotRef, wanted: &SnapshotRef, known: &HashMap<i64, &Snapshot>) -> bool {
    if (SnapshotRef { snapshot_id: current.snapshot_id, ..wanted.clone() }) != *current {
        return false;
    }
    let parent = |id: &i64| known.get(id).and_then(|snapshot| snapshot.parent_snapshot_id);
    // Limited, because a registered metadata file may contain a cycle of parents.
    std::iter::successors(Some(current.snapshot_id), parent)
        .take(known.len() + 1)
        .any(|id| id == wanted.snapshot_id)
}

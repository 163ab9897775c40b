//! Commits that lose against appends.

use super::super::requirement::TableRequirement;
use super::super::snapshot::Operation;
use super::super::table::TableMetadata;
use super::super::update::TableUpdate;
use super::ancestors::snapshots_since;
use super::summary::REBASED_FROM;

/// Whether a commit, which was rejected, changes more than an append and conflicts only with
/// appends, of which at least one was rebased. Without rebases, such a commit would have lost only
/// against appends that were committed to the newest state.
pub fn lost_to_appends(
    requirements: &[TableRequirement],
    updates: &[TableUpdate],
    table: &TableMetadata,
) -> bool {
    let is_append = |update: &TableUpdate| match update {
        TableUpdate::AddSnapshot { snapshot } => {
            Some(snapshot.operation() == Some(Operation::Append))
        }
        _ => None,
    };
    let mut appends = updates.iter().filter_map(is_append).peekable();
    if appends.peek().is_some() && appends.all(|it| it) {
        return false;
    }
    let mut has_lost = false;
    for requirement in requirements {
        let TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id } = requirement else {
            continue;
        };
        let Some(since) = snapshots_since(table, r#ref, *snapshot_id) else { return false };
        for snapshot in since {
            if snapshot.operation() != Some(Operation::Append) {
                return false;
            }
            has_lost = has_lost || snapshot.summary().contains_key(REBASED_FROM);
        }
    }
    has_lost
}

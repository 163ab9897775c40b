//! Classifies the changes in a commit. Each kind of change corresponds to an action that the
//! policies must allow.
//!
//! Every update has a kind, and the policies must allow each kind of change that a commit contains.
//! So the permission for one kind, such as writing rows, never covers an update of another kind. An
//! update that may be either a write or a stronger change has the stronger kind.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::action::{
    Action, CommitData, CommitLocation, CommitProperties, CommitRefs, CommitSchema,
};
use slateberg_model::snapshot::{MAIN_BRANCH, SnapshotRef, SnapshotRefKind};

use slateberg_model::update::TableUpdate;
use slateberg_model::view_update::ViewUpdate;

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CommitKind {
    /// Added, changed or deleted rows.
    Data,
    /// Change of the schema of a table, or of the definition of a view.
    Schema,
    /// Change of properties.
    Properties,
    /// Change of branches or tags, except writes to a branch.
    Refs,
    /// Change of the location of files.
    Location,
}

/// Branches and tags, by name.
pub type Refs = BTreeMap<String, SnapshotRef>;

/// Properties that determine the location of a table's files.
const LOCATION_PROPERTIES: [&str; 4] = [
    "write.data.path",
    "write.folder-storage.path",
    "write.metadata.path",
    "write.object-storage.path",
];

impl CommitKind {
    /// Returns the name of the action.
    pub fn action(self) -> &'static str {
        match self {
            Self::Data => CommitData::NAME,
            Self::Schema => CommitSchema::NAME,
            Self::Properties => CommitProperties::NAME,
            Self::Refs => CommitRefs::NAME,
            Self::Location => CommitLocation::NAME,
        }
    }
}

/// Returns the kinds of changes in a commit to a table with these branches and tags. The set is
/// empty for a commit without updates. Such a commit requires the permission to load the table,
/// because it reveals no more than a load.
pub fn of_table(updates: &[TableUpdate], refs: &Refs) -> BTreeSet<CommitKind> {
    let added: HashSet<i64> = updates
        .iter()
        .filter_map(|update| match update {
            TableUpdate::AddSnapshot { snapshot } => Some(snapshot.snapshot_id),
            _ => None,
        })
        .collect();
    let mut kinds = BTreeSet::new();
    // The refs that were set by earlier updates in this commit. Removed refs need no entry here,
    // because their removal adds the kind `Refs` in any case.
    let mut set: BTreeMap<&str, &SnapshotRef> = BTreeMap::new();
    for update in updates {
        match update {
            TableUpdate::AssignUuid { .. }
            | TableUpdate::UpgradeFormatVersion { .. }
            | TableUpdate::AddSchema { .. }
            | TableUpdate::SetCurrentSchema { .. }
            | TableUpdate::RemoveSchemas { .. }
            | TableUpdate::AddSpec { .. }
            | TableUpdate::SetDefaultSpec { .. }
            | TableUpdate::RemovePartitionSpecs { .. }
            | TableUpdate::AddSortOrder { .. }
            | TableUpdate::SetDefaultSortOrder { .. } => kinds.extend([CommitKind::Schema]),
            TableUpdate::AddSnapshot { .. }
            | TableUpdate::SetStatistics { .. }
            | TableUpdate::RemoveStatistics { .. }
            | TableUpdate::SetPartitionStatistics { .. }
            | TableUpdate::RemovePartitionStatistics { .. }
            | TableUpdate::AddEncryptionKey { .. }
            | TableUpdate::RemoveEncryptionKey { .. } => kinds.extend([CommitKind::Data]),
            TableUpdate::RemoveSnapshots { snapshot_ids } => {
                kinds.extend([CommitKind::Data]);
                // The removal of a snapshot also removes the refs that point to it. As long as
                // `kinds` does not contain `Refs`, earlier updates have set only existing branches
                // and `main`. So the loop visits at most the table's refs and `main`, even if the
                // commit has many updates.
                if !kinds.contains(&CommitKind::Refs) {
                    let removed_ids: HashSet<_> = snapshot_ids.iter().copied().collect();
                    let takes_refs =
                        refs_after(refs, &set).any(|it| removed_ids.contains(&it.snapshot_id));
                    kinds.extend(takes_refs.then_some(CommitKind::Refs));
                }
            }
            TableUpdate::SetSnapshotRef { ref_name, reference } => {
                let writes = added.contains(&reference.snapshot_id)
                    && only_moves(refs.get(ref_name), ref_name, reference);
                kinds.extend([if writes { CommitKind::Data } else { CommitKind::Refs }]);
                set.insert(ref_name, reference);
            }
            TableUpdate::RemoveSnapshotRef { .. } => kinds.extend([CommitKind::Refs]),
            TableUpdate::SetLocation { .. } => kinds.extend([CommitKind::Location]),
            TableUpdate::SetProperties { updates } => kinds.extend(of_properties(updates.keys())),
            TableUpdate::RemoveProperties { removals } => {
                kinds.extend(of_properties(removals.iter()))
            }
        }
    }
    kinds
}

/// Returns the kinds of changes in a commit to a view.
pub fn of_view(updates: &[ViewUpdate]) -> BTreeSet<CommitKind> {
    let mut kinds = BTreeSet::new();
    for update in updates {
        match update {
            ViewUpdate::AssignUuid { .. }
            | ViewUpdate::UpgradeFormatVersion { .. }
            | ViewUpdate::AddSchema { .. }
            | ViewUpdate::AddViewVersion { .. }
            | ViewUpdate::SetCurrentViewVersion { .. } => kinds.extend([CommitKind::Schema]),
            ViewUpdate::SetLocation { .. } => kinds.extend([CommitKind::Location]),
            ViewUpdate::SetProperties { updates } => kinds.extend(of_properties(updates.keys())),
            ViewUpdate::RemoveProperties { removals } => {
                kinds.extend(of_properties(removals.iter()))
            }
        }
    }
    kinds
}

/// Returns the refs of a table after the updates so far.
fn refs_after<'a>(
    before: &'a Refs,
    set: &'a BTreeMap<&str, &SnapshotRef>,
) -> impl Iterator<Item = &'a SnapshotRef> {
    let stay = before.iter().filter(move |(name, _)| !set.contains_key(name.as_str()));
    stay.map(|(_, reference)| reference).chain(set.values().copied())
}

/// Whether only the snapshot of an existing branch changes, or `main` gets its first snapshot.
fn only_moves(before: Option<&SnapshotRef>, name: &str, after: &SnapshotRef) -> bool {
    let settings = |it: &SnapshotRef| {
        (it.kind, it.min_snapshots_to_keep, it.max_snapshot_age_ms, it.max_ref_age_ms)
    };
    after.kind == SnapshotRefKind::Branch
        && match before {
            Some(before) => settings(before) == settings(after),
            None => {
                name == MAIN_BRANCH
                    && settings(after) == (SnapshotRefKind::Branch, None, None, None)
            }
        }
}

fn of_properties<'a>(keys: impl Iterator<Item = &'a String>) -> Vec<CommitKind> {
    let mut kinds = vec![CommitKind::Properties];
    let is_place = |key: &String| LOCATION_PROPERTIES.contains(&key.as_str());
    kinds.extend({ keys }.any(is_place).then_some(CommitKind::Location));
    kinds
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;
    use serde_json::{Value, json};

    use super::CommitKind::{Data, Location, Properties, Refs, Schema};
    use super::*;

    fn updates(changes: &Value) -> Vec<TableUpdate> {
        let parse = |change: &Value| {
            let raw = to_raw_value(change).expect("a value is JSON");
            TableUpdate::parse(&raw).expect("the update is well-formed")
        };
        changes.as_array().expect("updates are a list").iter().map(parse).collect()
    }

    /// Returns the kinds of a commit to a table whose `main` and tag `v1` point to snapshot 1.
    fn kinds(changes: Value) -> Vec<CommitKind> {
        let reference = |kind| SnapshotRef {
            snapshot_id: 1,
            kind,
            min_snapshots_to_keep: None,
            max_snapshot_age_ms: None,
            max_ref_age_ms: None,
        };
        let refs = BTreeMap::from([
            ("main".to_owned(), reference(SnapshotRefKind::Branch)),
            ("v1".to_owned(), reference(SnapshotRefKind::Tag)),
        ]);
        of_table(&updates(&changes), &refs).into_iter().collect()
    }

    fn added(id: i64) -> Value {
        json!({"action": "add-snapshot", "snapshot": {
            "snapshot-id": id, "sequence-number": 2, "timestamp-ms": 1, "schema-id": 0,
            "manifest-list": "s3://b/m", "summary": {"operation": "append"}}})
    }

    fn set(name: &str, kind: &str, id: i64) -> Value {
        json!({"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": id})
    }

    #[test]
    fn an_append_is_data_and_moves_its_branch() {
        assert_eq!(kinds(json!([added(2), set("main", "branch", 2)])), [Data]);
        assert_eq!(kinds(json!([])), []);
    }

    #[test]
    fn changed_branch_settings_are_a_change_of_refs() {
        // A rollback, a new branch, a tag, a tag that becomes a branch, other retention settings.
        assert_eq!(kinds(json!([set("main", "branch", 1)])), [Refs]);
        assert_eq!(kinds(json!([added(2), set("audit", "branch", 2)])), [Data, Refs]);
        assert_eq!(kinds(json!([added(2), set("v2", "tag", 2)])), [Data, Refs]);
        assert_eq!(kinds(json!([added(2), set("v1", "branch", 2)])), [Data, Refs]);
        let mut keeps_less = set("main", "branch", 2);
        keeps_less["min-snapshots-to-keep"] = json!(1);
        assert_eq!(kinds(json!([added(2), keeps_less])), [Data, Refs]);
        assert_eq!(kinds(json!([{"action": "remove-snapshot-ref", "ref-name": "v1"}])), [Refs]);
    }

    #[test]
    fn removed_snapshot_removes_its_refs() {
        let removed = |id: i64| json!([{"action": "remove-snapshots", "snapshot-ids": [id]}]);
        assert_eq!(kinds(removed(7)), [Data]);
        assert_eq!(kinds(removed(1)), [Data, Refs]);
    }

    #[test]
    fn removed_snapshot_removes_refs_that_the_same_commit_set() {
        let remove = |ids: &[i64]| json!({"action": "remove-snapshots", "snapshot-ids": ids});
        let moved = set("main", "branch", 2);
        assert_eq!(kinds(json!([added(2), moved, remove(&[2])])), [Data, Refs]);
        // The first removal affects no ref, because no ref points to snapshot 7. The second removal
        // removes snapshot 2, to which `main` points at that time.
        assert_eq!(kinds(json!([added(2), remove(&[7]), moved, remove(&[7, 2])])), [Data, Refs]);
        // `main` points to snapshot 3 when snapshot 2 is removed, so the removal does not affect
        // `main`.
        let on = json!([added(2), moved, added(3), set("main", "branch", 3), remove(&[2])]);
        assert_eq!(kinds(on), [Data]);
        // The tag `v1` still points to snapshot 1, and is removed together with this snapshot.
        assert_eq!(kinds(json!([added(2), moved, remove(&[1])])), [Data, Refs]);
    }

    /// A comparison of each update with all earlier ones would take minutes.
    #[test]
    fn many_updates_are_classified_in_linear_time() {
        let many = 50_000;
        let tags = (0..many).map(|n| set(&format!("tag-{n}"), "tag", 1));
        let removals =
            (0..many).map(|_| json!({"action": "remove-snapshots", "snapshot-ids": [9]}));
        assert_eq!(kinds(tags.chain(removals).collect()), [Data, Refs]);
    }

    #[test]
    fn location_property_is_a_location_change() {
        let set =
            |key: &str| json!([{"action": "set-properties", "updates": {key: "s3://elsewhere"}}]);
        assert_eq!(kinds(set("comment")), [Properties]);
        assert_eq!(kinds(set("write.data.path")), [Properties, Location]);
        let removed = json!([{"action": "remove-properties", "removals": ["write.metadata.path"]}]);
        assert_eq!(kinds(removed), [Properties, Location]);
        assert_eq!(kinds(json!([{"action": "set-location", "location": "s3://b"}])), [Location]);
    }

    #[test]
    fn commit_needs_all_of_its_kinds() {
        let mixed = json!([
            added(2), set("main", "branch", 2),
            {"action": "set-current-schema", "schema-id": 0},
            {"action": "set-properties", "updates": {"a": "b"}},
        ]);
        assert_eq!(kinds(mixed), [Data, Schema, Properties]);
    }
}

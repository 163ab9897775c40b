//! Tests of the rebase of appends.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::commit::{CommitBase, apply};
use super::super::manifest_file::ManifestFile;
use super::super::requirement::{TableRequirement, parse_requirement};
use super::super::snapshot::Snapshot;
use super::super::table::TableMetadata;
use super::super::testing::{
    CREATED_MS, METADATA_LOCATION, add_snapshot, commit, committed, conflict, ctx, raw, set_ref,
    snapshot, table_with_snapshots, updates,
};
use super::super::update::TableUpdate;
use super::*;

mod chains;
mod history;

const LOCATION: &str = "s3://b/t/metadata/snap-new.avro";

/// An append of one manifest with ten rows, made for the state after snapshot `base`.
struct Sent {
    base: i64,
    branch: &'static str,
    snapshot: Value,
    manifest: ManifestFile,
}

fn sent(base: i64) -> Sent {
    let mut snapshot = snapshot(77, Some(base), base + 1);
    snapshot["summary"] = json!({"operation": "append", "added-records": "10",
        "added-data-files": "1", "total-records": "999", "total-data-files": "9",
        "total-files-size": "1", "manifests-kept": "7", "note": "mine"});
    snapshot["unknown"] = json!({"x": [1]});
    let manifest = ManifestFile {
        path: "s3://b/t/metadata/m.avro".to_owned(),
        length: 100,
        spec_id: 0,
        content: 0,
        sequence_number: base + 1,
        min_sequence_number: base + 1,
        added_snapshot_id: 77,
        added_files_count: Some(1),
        existing_files_count: Some(0),
        deleted_files_count: Some(0),
        added_rows_count: Some(10),
        existing_rows_count: Some(0),
        deleted_rows_count: Some(0),
        partitions: None,
        key_metadata: None,
        first_row_id: None,
    };
    Sent { base, branch: "main", snapshot, manifest }
}

/// A commit of one snapshot that was applied to the current state.
struct Rebased {
    snapshot: Arc<Snapshot>,
    own: Vec<ManifestFile>,
    updates: Vec<TableUpdate>,
    requirements: Vec<TableRequirement>,
}

/// Rebases a commit of one snapshot.
fn rebase(
    candidate: &RebaseCandidate,
    table: &TableMetadata,
    requirements: &[TableRequirement],
    (own, list): (&[ManifestFile], NewList<'_>),
) -> Result<Rebased, NotRebased> {
    let mut chain = RebaseChain::new(candidate, table);
    let RebasedSnapshot { snapshot, own } = chain.add(own, list)?;
    let RebasedCommit { updates, requirements } = chain.finish(requirements);
    Ok(Rebased { snapshot, own, updates, requirements })
}

/// Returns the manifests that the client of one append has written.
fn own_of(
    append: &RebaseCandidate,
    manifest: &ManifestFile,
) -> Result<Vec<ManifestFile>, NotRebased> {
    let clients = append.manifests([vec![manifest.clone()]])?;
    Ok(clients[0].own().to_vec())
}

impl Sent {
    fn requirements(&self) -> Vec<TableRequirement> {
        let requirement =
            json!({"type": "assert-ref-snapshot-id", "ref": self.branch, "snapshot-id": self.base});
        vec![parse_requirement(&raw(&requirement)).expect("a requirement")]
    }

    fn updates(&self) -> Vec<TableUpdate> {
        let changes =
            json!([add_snapshot(self.snapshot.clone()), set_ref(self.branch, "branch", 77)]);
        updates(&changes).expect("valid updates")
    }

    fn append(&self) -> Result<RebaseCandidate, NotRebased> {
        RebaseCandidate::of(&self.requirements(), &self.updates())
    }

    /// Rebases the append and applies it.
    fn rebased(&self, table: &TableMetadata) -> Result<(Rebased, TableMetadata), NotRebased> {
        let append = self.append()?;
        append.check(table)?;
        let client = own_of(&append, &self.manifest)?;
        let now_ms = table.last_updated_ms + 1000;
        let list = NewList { location: LOCATION, kept: 3, replaced: 0, now_ms };
        let rebased = rebase(&append, table, &self.requirements(), (&client, list))?;
        let base = CommitBase { metadata: table, metadata_location: Some(METADATA_LOCATION) };
        let context = ctx(now_ms);
        let applied = apply(Some(base), &rebased.requirements, &rebased.updates, &context);
        Ok((rebased, applied.expect("the rebased commit applies").metadata))
    }
}

#[test]
fn stale_append_gets_the_place_of_a_retry() {
    let table = table_with_snapshots(2, 5);
    let (rebased, after) = sent(3).rebased(&table).expect("it is rebased");
    let snapshot: Value = serde_json::from_str(rebased.snapshot.json()).expect("JSON");
    let expected = json!({"snapshot-id": 77, "sequence-number": 6, "schema-id": 0,
        "timestamp-ms": table.last_updated_ms + 1000, "manifest-list": LOCATION,
        "parent-snapshot-id": 5, "unknown": {"x": [1]},
        "summary": {"operation": "append", "added-records": "10", "added-data-files": "1",
            "manifests-kept": "3", "note": "mine", "slateberg.rebased-from": "3"}});
    assert_eq!(snapshot, expected);
    assert_eq!(rebased.own[0].sequence_number, 6);
    assert_eq!(rebased.own[0].min_sequence_number, 6);
    assert_eq!(after.current_snapshot_id, Some(77));
    assert_eq!(after.last_sequence_number, 6);
}

#[test]
fn totals_continue_those_of_the_branch() {
    let table = table_with_snapshots(2, 2);
    let mut third = snapshot(3, Some(2), 3);
    third["summary"] = json!({"operation": "append", "total-records": "100",
        "total-data-files": "4", "total-files-size": "5000"});
    let table = committed(&table, json!([add_snapshot(third), set_ref("main", "branch", 3)]));
    let (rebased, _) = sent(1).rebased(&table).expect("it is rebased");
    let summary = rebased.snapshot.summary();
    assert_eq!(summary["total-records"], "110");
    assert_eq!(summary["total-data-files"], "5");
    assert_eq!(summary["total-files-size"], "5000");
    assert_eq!(summary.get("total-delete-files"), None, "the head has none");
}

#[test]
fn stale_append_to_version_3_gets_new_row_ids() {
    let table = table_with_snapshots(3, 4);
    let mut append = sent(2);
    append.snapshot["first-row-id"] = 20.into();
    append.snapshot["added-rows"] = 10.into();
    append.manifest.first_row_id = Some(20);
    let (rebased, after) = append.rebased(&table).expect("it is rebased");
    assert_eq!(rebased.snapshot.first_row_id, Some(40));
    assert_eq!(rebased.own[0].first_row_id, Some(40));
    assert_eq!(after.next_row_id, 50);

    append.snapshot["added-rows"] = 9.into();
    assert_eq!(append.rebased(&table).err(), Some(NotRebased::Manifests), "fewer ids than rows");
    append.snapshot["added-rows"] = 10.into();
    append.manifest.first_row_id = Some(19);
    assert_eq!(append.rebased(&table).err(), Some(NotRebased::Manifests), "ids of another");
    append.manifest.first_row_id = None;
    assert_eq!(append.rebased(&table).err(), Some(NotRebased::Manifests), "no ids");
}

#[test]
fn append_to_a_branch_is_rebased_after_commits_to_other_branches() {
    let table = table_with_snapshots(2, 3);
    let table = committed(&table, json!([set_ref("audit", "branch", 2)]));
    let mut append = sent(2);
    append.branch = "audit";
    let stale = json!([add_snapshot(append.snapshot.clone()), set_ref("audit", "branch", 77)]);
    assert!(conflict(&table, stale).contains("sequence number"));
    let (rebased, after) = append.rebased(&table).expect("it is rebased");
    assert_eq!(rebased.snapshot.parent_snapshot_id, Some(2));
    assert_eq!(rebased.snapshot.sequence_number, 4);
    assert_eq!(after.current_snapshot_id, Some(3), "main stays");
}

#[test]
fn append_is_not_rebased_over_other_changes_of_the_branch() {
    let table = table_with_snapshots(2, 2);
    let third = |operation: &str, extra: Option<(&str, &str)>| {
        let mut third = snapshot(3, Some(2), 3);
        third["summary"]["operation"] = operation.into();
        if let Some((key, value)) = extra {
            third["summary"][key] = value.into();
        }
        committed(&table, json!([add_snapshot(third), set_ref("main", "branch", 3)]))
    };
    let reason = |table: &TableMetadata| sent(2).rebased(table).err();
    assert_eq!(reason(&third("append", None)), None);
    assert_eq!(reason(&third("replace", None)), None);
    for operation in ["delete", "overwrite"] {
        assert_eq!(reason(&third(operation, None)), Some(NotRebased::NotOnlyAppends));
    }
    let rolled_back = committed(&third("append", None), json!([set_ref("main", "branch", 1)]));
    assert_eq!(reason(&rolled_back), Some(NotRebased::NotOnlyAppends));
    let expired = json!([{"action": "remove-snapshots", "snapshot-ids": [2]}]);
    let expired = committed(&third("append", None), expired);
    assert_eq!(reason(&expired), None, "the parent of snapshot 3 is still the base");
}

#[test]
fn second_append_of_the_same_writer_is_not_rebased() {
    let table = table_with_snapshots(2, 2);
    let pairs = [
        (vec![("kafka.connect.offsets.t.g", "1")], vec![("kafka.connect.offsets.t.g", "2")], true),
        (vec![("kafka.connect.offsets.t.g", "1")], vec![("kafka.connect.offsets.u.g", "1")], false),
        (
            vec![("flink.job-id", "j"), ("flink.operator-id", "o")],
            vec![("flink.job-id", "j"), ("flink.operator-id", "o")],
            true,
        ),
        (
            vec![("flink.job-id", "j"), ("flink.operator-id", "o")],
            vec![("flink.job-id", "j"), ("flink.operator-id", "p")],
            false,
        ),
        (
            vec![("spark.sql.streaming.queryId", "q")],
            vec![("spark.sql.streaming.queryId", "q")],
            true,
        ),
    ];
    for (before, now, same) in pairs {
        let mut third = snapshot(3, Some(2), 3);
        let mut append = sent(2);
        before.iter().for_each(|(key, value)| third["summary"][*key] = json!(value));
        now.iter().for_each(|(key, value)| append.snapshot["summary"][*key] = json!(value));
        let table = committed(&table, json!([add_snapshot(third), set_ref("main", "branch", 3)]));
        let expected = same.then_some(NotRebased::SameWriter);
        assert_eq!(append.rebased(&table).err(), expected, "{before:?} {now:?}");
    }
}

#[test]
fn only_appends_to_one_branch_are_rebased() {
    let refused = |change: fn(&mut Sent)| {
        let mut append = sent(2);
        change(&mut append);
        append.append().err()
    };
    assert_eq!(refused(|_| {}), None);
    for operation in ["overwrite", "delete"] {
        let mut append = sent(2);
        append.snapshot["summary"]["operation"] = operation.into();
        assert_eq!(append.append().err(), Some(NotRebased::Dependent), "{operation}");
    }
    for key in ["source-snapshot-id", "published-wap-id", "wap.id", "replace-partitions"] {
        let mut append = sent(2);
        append.snapshot["summary"][key] = "1".into();
        assert_eq!(append.append().err(), Some(NotRebased::Dependent), "{key}");
    }
    assert_eq!(refused(|it| it.snapshot["key-id"] = "k".into()), Some(NotRebased::Encrypted));
    let other_parent = refused(|it| it.snapshot["parent-snapshot-id"] = 1.into());
    assert_eq!(other_parent, Some(NotRebased::NotAnAppend));

    let append = sent(2);
    let mut more = append.updates();
    more.extend(updates(&json!([{"action": "set-location", "location": "s3://b/u"}])).unwrap());
    assert_eq!(
        RebaseCandidate::of(&append.requirements(), &more).err(),
        Some(NotRebased::NotAnAppend)
    );
    assert_eq!(RebaseCandidate::of(&[], &append.updates()).err(), Some(NotRebased::NotAnAppend));
    let tag = json!([add_snapshot(append.snapshot.clone()), set_ref("main", "tag", 77)]);
    let tag = updates(&tag).expect("valid updates");
    assert_eq!(
        RebaseCandidate::of(&append.requirements(), &tag).err(),
        Some(NotRebased::NotAnAppend)
    );
}

#[test]
fn manifests_that_do_more_than_add_data_files_are_not_rebased() {
    let append = sent(2).append().expect("an append");
    let refused = |change: fn(&mut ManifestFile)| {
        let mut manifest = sent(2).manifest;
        change(&mut manifest);
        append.manifests([vec![manifest]]).err()
    };
    assert_eq!(refused(|_| {}), None);
    assert_eq!(refused(|it| it.content = 1), Some(NotRebased::Manifests));
    assert_eq!(refused(|it| it.deleted_files_count = Some(1)), Some(NotRebased::Manifests));
    assert_eq!(refused(|it| it.existing_files_count = Some(-1)), Some(NotRebased::Manifests));
    assert_eq!(refused(|it| it.deleted_files_count = None), Some(NotRebased::Manifests));
    assert_eq!(refused(|it| it.added_rows_count = None), Some(NotRebased::Manifests));
    assert_eq!(refused(|it| it.added_snapshot_id = 2), Some(NotRebased::Manifests), "no own one");
    assert_eq!(refused(|it| it.key_metadata = Some("k".into())), Some(NotRebased::Encrypted));
}

#[test]
fn append_that_does_not_fit_the_table_is_not_rebased() {
    let table = table_with_snapshots(2, 3);
    let mut unknown_spec = sent(2);
    unknown_spec.manifest.spec_id = 9;
    assert_eq!(unknown_spec.rebased(&table).err(), Some(NotRebased::Manifests));
    let mut other_schema = sent(2);
    other_schema.snapshot["schema-id"] = 4.into();
    assert_eq!(other_schema.rebased(&table).err(), Some(NotRebased::Schema));
    let old = table_with_snapshots(1, 3);
    assert_eq!(sent(2).rebased(&old).err(), Some(NotRebased::FormatVersion(1)));
    let upgrade = json!([{"action": "upgrade-format-version", "format-version": 4}]);
    let newer = committed(&table, upgrade);
    assert_eq!(sent(2).rebased(&newer).err(), Some(NotRebased::FormatVersion(4)));
    let retention = json!([{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
        "snapshot-id": 3, "max-ref-age-ms": 5}]);
    let changed = committed(&table, retention);
    assert_eq!(sent(2).rebased(&changed).err(), Some(NotRebased::Branch));
    let encrypted = json!([{"action": "set-properties", "updates": {"encryption.key-id": "k"}}]);
    let encrypted = committed(&table, encrypted);
    assert_eq!(sent(2).rebased(&encrypted).err(), Some(NotRebased::Encrypted));
}

#[test]
fn compaction_is_rebased_only_over_appends_and_needs_no_declaration() {
    let table = table_with_snapshots(2, 2);
    let third = |operation: &str| {
        let mut third = snapshot(3, Some(2), 3);
        third["summary"]["operation"] = operation.into();
        committed(&table, json!([add_snapshot(third), set_ref("main", "branch", 3)]))
    };
    let mut compaction = sent(2);
    compaction.snapshot["summary"]["operation"] = "replace".into();
    assert!(compaction.append().expect("a candidate").is_declared_blind());
    assert!(!sent(2).append().expect("a candidate").is_declared_blind());
    let reason = |operation: &str| compaction.rebased(&third(operation)).err();
    assert_eq!(reason("append"), None);
    for operation in ["replace", "delete", "overwrite"] {
        assert_eq!(reason(operation), Some(NotRebased::NotOnlyAppends), "{operation}");
    }
    let requirement = json!({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": null});
    let requirements = [parse_requirement(&raw(&requirement)).expect("a requirement")];
    compaction.snapshot.as_object_mut().expect("an object").remove("parent-snapshot-id");
    let of = RebaseCandidate::of(&requirements, &compaction.updates());
    assert_eq!(of.err(), Some(NotRebased::Dependent), "there is nothing to compact");
}

#[test]
fn properties_beside_an_append_are_set() {
    let table = table_with_snapshots(2, 4);
    let append = sent(3);
    for at in 0..3 {
        let mut more = append.updates();
        let property = json!([{"action": "set-properties", "updates": {"a": "b"}}]);
        more.splice(at..at, updates(&property).expect("valid updates"));
        let of = RebaseCandidate::of(&append.requirements(), &more).expect("an append");
        assert_eq!(of.check(&table), Ok(()));
        let client = own_of(&of, &append.manifest).expect("its manifests");
        let now_ms = table.last_updated_ms + 1;
        let list = NewList { location: LOCATION, kept: 3, replaced: 0, now_ms };
        let rebased = rebase(&of, &table, &append.requirements(), (&client, list));
        let Rebased { updates, requirements, .. } = rebased.expect("it is rebased");
        let base = CommitBase { metadata: &table, metadata_location: Some(METADATA_LOCATION) };
        let applied = apply(Some(base), &requirements, &updates, &ctx(now_ms));
        let after = applied.expect("it is applied").metadata;
        assert_eq!((after.current_snapshot_id, after.properties["a"].as_str()), (Some(77), "b"));
        let base = CommitBase { metadata: &after, metadata_location: Some(METADATA_LOCATION) };
        let again = apply(Some(base), &append.requirements(), &more, &ctx(now_ms));
        assert!(!again.expect("it is recognized").changed);
    }
}

#[test]
fn counts_of_manifests_in_the_summary_are_those_of_the_new_list() {
    let table = table_with_snapshots(2, 5);
    let mut merge = sent(3);
    for (key, value) in [("manifests-created", "9"), ("manifests-replaced", "8")] {
        merge.snapshot["summary"][key] = value.into();
    }
    let (rebased, after) = merge.rebased(&table).expect("it is rebased");
    let summary = rebased.snapshot.summary();
    let counts =
        ["manifests-kept", "manifests-created", "manifests-replaced"].map(|it| &summary[it]);
    assert_eq!(counts, ["3", "1", "0"]);
    let base = CommitBase { metadata: &after, metadata_location: Some(METADATA_LOCATION) };
    let context = ctx(after.last_updated_ms);
    let again = apply(Some(base), &merge.requirements(), &merge.updates(), &context);
    assert!(!again.expect("it is recognized").changed);
}

#[test]
fn rebased_append_that_is_sent_again_is_accepted_without_effect() {
    let table = table_with_snapshots(2, 4);
    let append = sent(3);
    let (_, after) = append.rebased(&table).expect("it is rebased");
    let base = CommitBase { metadata: &after, metadata_location: Some(METADATA_LOCATION) };
    let again = |append: &Sent| {
        apply(Some(base), &append.requirements(), &append.updates(), &ctx(after.last_updated_ms))
    };
    assert!(!again(&append).expect("it is recognized").changed);
    let mut other = sent(3);
    other.snapshot["summary"]["added-records"] = "11".into();
    assert!(again(&other).is_err(), "another commit with the same snapshot id");
}

#[test]
fn first_append_of_two_to_an_empty_table_does_not_stop_the_second() {
    let empty = super::super::testing::table(2);
    let first = json!([add_snapshot(snapshot(1, None, 1)), set_ref("main", "branch", 1)]);
    let after = commit(&empty, first).expect("it is accepted").metadata;
    let mut append = sent(0);
    append.snapshot.as_object_mut().expect("an object").remove("parent-snapshot-id");
    let requirement = json!({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": null});
    let requirements = [parse_requirement(&raw(&requirement)).expect("a requirement")];
    let of = RebaseCandidate::of(&requirements, &append.updates()).expect("an append");
    assert_eq!(of.check(&after), Ok(()));
    let client = own_of(&of, &append.manifest).expect("its manifests");
    let list = NewList { location: LOCATION, kept: 1, replaced: 0, now_ms: CREATED_MS + 99_000 };
    let rebased = rebase(&of, &after, &requirements, (&client, list)).expect("it is rebased");
    assert_eq!(rebased.snapshot.parent_snapshot_id, Some(1));
    assert_eq!(rebased.snapshot.summary()[REBASED_FROM], "none");
}

//! The snapshots of a scan, their schema, and the types of partition values.

use serde_json::json;

use crate::manifest_file::ManifestFile;
use crate::scan::{AppendRange, BoundSpec, ScanError, ScanSnapshots, SnapshotSelection};
use crate::table::TableMetadata;
use crate::testing::{add_snapshot, committed, set_ref, snapshot, table, table_with_snapshots};
use crate::transform::Transform;
use crate::types::PrimitiveType;
use crate::value::Datum;

fn at(snapshot_id: i64) -> SnapshotSelection {
    SnapshotSelection { snapshot_id: Some(snapshot_id), ..SnapshotSelection::default() }
}

fn between(start: i64, end: i64) -> SnapshotSelection {
    SnapshotSelection {
        start_snapshot_id: Some(start),
        end_snapshot_id: Some(end),
        ..SnapshotSelection::default()
    }
}

fn error(selection: SnapshotSelection, table: &TableMetadata) -> String {
    match selection.resolve(table) {
        Err(ScanError::IllegalArgument(message)) => message,
        other => panic!("{selection:?}: {other:?}"),
    }
}

fn appends(start: i64, end: i64, table: &TableMetadata) -> AppendRange {
    match between(start, end).resolve(table) {
        Ok(ScanSnapshots::Appends(range)) => range,
        other => panic!("no range: {other:?}"),
    }
}

/// A table whose snapshots 2 and 4 are no appends.
fn table_with_overwrite() -> TableMetadata {
    (1..=5).fold(table(2), |table, id| {
        let mut next = snapshot(id, (id > 1).then(|| id - 1), id);
        if id % 2 == 0 {
            next["summary"] = json!({"operation": if id == 2 { "overwrite" } else { "replace" }});
        }
        committed(&table, json!([add_snapshot(next), set_ref("main", "branch", id)]))
    })
}

fn ids(range: &AppendRange) -> Vec<i64> {
    range.snapshots().iter().map(|snapshot| snapshot.snapshot_id).collect()
}

#[test]
fn request_without_a_snapshot_scans_the_main_branch() {
    let selection = SnapshotSelection::default();
    assert_eq!(selection.resolve(&table(2)), Ok(ScanSnapshots::Empty));
    match selection.resolve(&table_with_snapshots(2, 3)) {
        Ok(ScanSnapshots::Snapshot(snapshot)) => assert_eq!(snapshot.snapshot_id, 3),
        other => panic!("{other:?}"),
    }
    match at(2).resolve(&table_with_snapshots(2, 3)) {
        Ok(ScanSnapshots::Snapshot(snapshot)) => assert_eq!(snapshot.snapshot_id, 2),
        other => panic!("{other:?}"),
    }
}

#[test]
fn contradicting_or_unknown_snapshots_are_argument_errors() {
    let table = table_with_snapshots(2, 3);
    for (selection, message) in [
        (at(9), "Cannot find snapshot with ID 9"),
        (between(1, 9), "Cannot find snapshot with ID 9"),
        (
            SnapshotSelection { snapshot_id: Some(1), ..between(1, 2) },
            "Invalid scan: cannot provide both snapshotId and startSnapshotId/endSnapshotId",
        ),
        (
            SnapshotSelection { end_snapshot_id: None, ..between(1, 2) },
            "Invalid incremental scan: startSnapshotId and endSnapshotId is required",
        ),
        (
            SnapshotSelection { start_snapshot_id: None, ..between(1, 2) },
            "Invalid incremental scan: startSnapshotId and endSnapshotId is required",
        ),
        (
            between(3, 1),
            "Starting snapshot (exclusive) 3 is not a parent ancestor of end snapshot 1",
        ),
        (
            between(2, 2),
            "Starting snapshot (exclusive) 2 is not a parent ancestor of end snapshot 2",
        ),
    ] {
        assert_eq!(error(selection, &table), message);
    }
}

#[test]
fn incremental_scan_has_only_the_appends_of_its_range() {
    let table = table_with_overwrite();
    assert_eq!(ids(&appends(1, 5, &table)), [3, 5]);
    assert_eq!(ids(&appends(3, 4, &table)), [0_i64; 0]);
    assert_eq!(appends(3, 4, &table).end().snapshot_id, 4);
    assert_eq!(ids(&appends(2, 3, &table)), [3]);
}

#[test]
fn incremental_scan_may_begin_at_an_expired_snapshot() {
    let table = committed(
        &table_with_snapshots(2, 3),
        json!([{"action": "remove-snapshots", "snapshot-ids": [1]}]),
    );
    assert_eq!(ids(&appends(1, 3, &table)), [2, 3]);
}

#[test]
fn incremental_scan_includes_only_files_that_its_appends_added() {
    let range = appends(1, 5, &table_with_overwrite());
    let manifest = |content, added_snapshot_id| ManifestFile {
        added_snapshot_id,
        ..super::manifest(content, None)
    };
    assert!(range.includes_manifest(&manifest(0, 3)));
    assert!(!range.includes_manifest(&manifest(1, 3)), "delete files");
    assert!(!range.includes_manifest(&manifest(0, 4)), "a replacement");
    assert!(!range.includes_manifest(&manifest(0, 1)), "the exclusive start");
    assert!(range.includes_entry(true, 5));
    assert!(!range.includes_entry(false, 5), "an existing file");
    assert!(!range.includes_entry(true, 4));
}

#[test]
fn filters_are_bound_to_the_schema_of_the_snapshot_on_request() {
    let before = table_with_snapshots(2, 1);
    let mut schema =
        serde_json::to_value(before.current_schema().expect("a schema")).expect("JSON");
    schema["fields"][1]["name"] = json!("title");
    let table = committed(
        &before,
        json!([{"action": "add-schema", "schema": schema},
            {"action": "set-current-schema", "schema-id": -1}]),
    );
    let snapshots = at(1).resolve(&table).expect("a snapshot");
    let id = |use_snapshot_schema| {
        snapshots.schema(&table, use_snapshot_schema).expect("a schema").schema_id()
    };
    assert_eq!((id(true), id(false)), (0, 1));
    assert_eq!(ScanSnapshots::Empty.schema(&table, true).expect("a schema").schema_id(), 1);
}

#[test]
fn partition_values_have_the_types_of_their_transforms() {
    let table = table(2);
    let schema = table.current_schema().expect("a schema");
    let specs = BoundSpec::all(&table, schema);
    let spec = &specs[&0];
    let types: Vec<_> = spec.fields.iter().map(|field| field.result_type.clone()).collect();
    assert_eq!(types, [Some(PrimitiveType::Int), Some(PrimitiveType::Date)]);
    assert!(!spec.is_unpartitioned());
    let mut out = Vec::new();
    spec.write_json(&[Some(Datum::Integer(3)), Some(Datum::Integer(20_779))], &mut out);
    spec.write_json(&[None], &mut out);
    assert_eq!(String::from_utf8_lossy(&out), r#"[3,"2026-11-22"][null,null]"#);
}

#[test]
fn dropped_source_column_is_found_in_an_older_schema() {
    let before = table(2);
    let mut schema =
        serde_json::to_value(before.current_schema().expect("a schema")).expect("JSON");
    schema["fields"].as_array_mut().expect("a list").remove(2);
    let table = committed(
        &before,
        json!([{"action": "add-spec", "spec": {"spec-id": 1, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-schema", "schema": schema},
            {"action": "set-current-schema", "schema-id": -1}]),
    );
    let specs = BoundSpec::all(&table, table.current_schema().expect("a schema"));
    let field = &specs[&0].fields[1];
    assert_eq!(field.transform, Transform::Day);
    assert_eq!(field.source_type, Some(PrimitiveType::Timestamp));
    assert!(specs[&1].is_unpartitioned());
}

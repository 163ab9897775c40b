//! Test data and helper functions for the tests of this crate. `tests/differential.rs` of the
//! server also includes this file, and imports the modules of this crate into its root. So paths
//! that begin with `crate` are valid in both crates.

#[path = "testing/steps.rs"]
pub(crate) mod steps;

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::commit::{AppliedCommit, CommitBase, CommitContext, apply};
use crate::create::{NewTable, new_table};
use crate::partition::UnboundPartitionSpec;
use crate::refusal::Refusal;
use crate::requirement::parse_requirement;
use crate::schema::Schema;
use crate::sort::UnboundSortOrder;
use crate::table::{FORMAT_VERSION_MAX, TableMetadata};
use crate::update::TableUpdate;

/// Creation time of the fixture tables, in milliseconds since the epoch.
pub(crate) const CREATED_MS: i64 = 1_700_000_000_000;

/// Location of the fixture tables' metadata files.
pub(crate) const METADATA_LOCATION: &str = "s3://b/t/metadata/00000.metadata.json";

/// Returns the raw JSON of a value.
pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a value is JSON")
}

/// Returns a commit context with a fixed UUID.
pub(crate) fn ctx(now_ms: i64) -> CommitContext {
    CommitContext {
        now_ms,
        new_uuid: Uuid::from_u128(7),
        default_location: None,
        format_version_max: FORMAT_VERSION_MAX,
    }
}

/// Parses a valid schema.
pub(crate) fn schema(value: &Value) -> Schema {
    Schema::parse(&raw(value)).expect("a valid schema")
}

/// Columns: id (1, long, identifier), name (2, string), at (3, timestamp), place (4, struct of
/// x 6, y 7), tags (5, list of string 8).
pub(crate) fn columns() -> Value {
    json!({"type": "struct", "schema-id": 0, "identifier-field-ids": [1], "fields": [
        {"id": 1, "name": "id", "required": true, "type": "long"},
        {"id": 2, "name": "name", "required": false, "type": "string", "doc": "what it is called"},
        {"id": 3, "name": "at", "required": false, "type": "timestamp"},
        {"id": 4, "name": "place", "required": false, "type": {"type": "struct", "fields": [
            {"id": 6, "name": "x", "required": true, "type": "double"},
            {"id": 7, "name": "y", "required": true, "type": "double"}]}},
        {"id": 5, "name": "tags", "required": false, "type":
            {"type": "list", "element-id": 8, "element": "string", "element-required": true}}]})
}

/// A table of `columns`, partitioned by bucket of id (1000) and day of at (1001), sorted by name.
pub(crate) fn table(format_version: u8) -> TableMetadata {
    let spec = json!({"spec-id": 0, "fields": [
        {"name": "id_bucket", "transform": "bucket[16]", "source-id": 1, "field-id": 1000},
        {"name": "at_day", "transform": "day", "source-id": 3, "field-id": 1001}]});
    let order = json!({"order-id": 1, "fields": [
        {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"}]});
    let new = NewTable {
        location: "s3://b/t".to_owned(),
        schema: schema(&columns()),
        partition_spec: Some(UnboundPartitionSpec::parse(&raw(&spec)).expect("a valid spec")),
        sort_order: Some(UnboundSortOrder::parse(&raw(&order)).expect("a valid order")),
        properties: BTreeMap::from([("format-version".to_owned(), format_version.to_string())]),
    };
    new_table(new, &ctx(CREATED_MS)).expect("a valid table")
}

/// Parses a list of table updates.
pub(crate) fn updates(updates: &Value) -> Result<Vec<TableUpdate>, Refusal> {
    let updates = updates.as_array().expect("a list of updates");
    updates.iter().map(|update| TableUpdate::parse(&raw(update))).collect()
}

/// Applies a commit one second after the base.
pub(crate) fn commit(base: &TableMetadata, changes: Value) -> Result<AppliedCommit, Refusal> {
    commit_with_requirements(base, json!([]), changes)
}

/// Applies a commit with requirements one second after the base.
pub(crate) fn commit_with_requirements(
    base: &TableMetadata,
    requirements: Value,
    changes: Value,
) -> Result<AppliedCommit, Refusal> {
    let requirements = requirements.as_array().expect("a list of requirements").iter();
    let requirements: Vec<_> = requirements
        .map(|requirement| parse_requirement(&raw(requirement)))
        .collect::<Result<_, _>>()?;
    let ctx = ctx(base.last_updated_ms + 1000);
    let base = CommitBase { metadata: base, metadata_location: Some(METADATA_LOCATION) };
    apply(Some(base), &requirements, &updates(&changes)?, &ctx)
}

/// Applies a commit. Asserts that it changes something and that its result survives a round trip.
#[track_caller]
pub(crate) fn committed(base: &TableMetadata, changes: Value) -> TableMetadata {
    let applied = commit(base, changes).expect("the commit is accepted");
    assert!(applied.changed, "the commit changed nothing");
    assert_round_trip(&applied.metadata);
    applied.metadata
}

/// Asserts that a commit is refused as invalid, and returns the message.
#[track_caller]
pub(crate) fn invalid(base: &TableMetadata, changes: Value) -> String {
    match commit(base, changes) {
        Err(Refusal::Invalid(text)) => text,
        other => panic!("not invalid: {other:?}"),
    }
}

/// Asserts that a commit is refused as conflicting, and returns the message.
#[track_caller]
pub(crate) fn conflict(base: &TableMetadata, changes: Value) -> String {
    match commit(base, changes) {
        Err(Refusal::Conflict(text)) => text,
        other => panic!("not a conflict: {other:?}"),
    }
}

/// Asserts that a document survives a round trip through JSON.
#[track_caller]
pub(crate) fn assert_round_trip(metadata: &TableMetadata) {
    let json = metadata.to_json();
    let parsed = TableMetadata::parse(&json).expect("a written document can be read");
    assert_eq!(&parsed, metadata);
    assert_eq!(String::from_utf8_lossy(&parsed.to_json()), String::from_utf8_lossy(&json));
}

/// A snapshot as a client of version 2 sends it.
pub(crate) fn snapshot(id: i64, parent: Option<i64>, sequence_number: i64) -> Value {
    let mut snapshot = json!({
        "snapshot-id": id, "sequence-number": sequence_number, "schema-id": 0,
        "timestamp-ms": CREATED_MS + sequence_number * 1000,
        "manifest-list": format!("s3://b/t/metadata/snap-{id}.avro"),
        "summary": {"operation": "append", "added-records": "1"}});
    if let Some(parent) = parent {
        snapshot["parent-snapshot-id"] = parent.into();
    }
    snapshot
}

/// Returns the update that adds a snapshot.
pub(crate) fn add_snapshot(snapshot: Value) -> Value {
    json!({"action": "add-snapshot", "snapshot": snapshot})
}

/// Returns the update that sets a branch or tag.
pub(crate) fn set_ref(name: &str, kind: &str, snapshot_id: i64) -> Value {
    json!({"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": snapshot_id})
}

/// A table with snapshots 1 to `count`. Each of them was current, and its parent is the previous
/// one.
pub(crate) fn table_with_snapshots(format_version: u8, count: i64) -> TableMetadata {
    (1..=count).fold(table(format_version), |table, id| {
        let sequence_number = if format_version == 1 { 0 } else { id };
        let mut next = snapshot(id, (id > 1).then(|| id - 1), sequence_number);
        next["timestamp-ms"] = (CREATED_MS + id * 1000).into();
        if format_version == 3 {
            next["first-row-id"] = table.next_row_id.into();
            next["added-rows"] = 10.into();
        }
        committed(&table, json!([add_snapshot(next), set_ref("main", "branch", id)]))
    })
}

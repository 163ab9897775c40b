//! Tests of the creation of tables from requests and from staged updates.

use serde_json::{Value, json};

use super::super::testing::{CREATED_MS, assert_round_trip, columns, ctx, raw, schema, updates};
use super::*;

fn new(properties: &[(&str, &str)]) -> NewTable {
    NewTable {
        location: "s3://b/t/".to_owned(),
        schema: schema(&columns()),
        partition_spec: None,
        sort_order: None,
        properties: properties
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

fn refusal(new: NewTable) -> String {
    match new_table(new, &ctx(CREATED_MS)) {
        Err(Refusal::Invalid(text)) => text,
        other => panic!("not invalid: {other:?}"),
    }
}

#[test]
fn ids_of_the_client_are_replaced_everywhere() {
    let fields = json!([
        {"id": 70, "name": "a", "required": true, "type": "int"},
        {"id": 50, "name": "s", "required": true, "type": {"type": "struct", "fields": [
            {"id": 60, "name": "b", "required": true, "type": "date", "doc": "day"}]}},
        {"id": 40, "name": "c", "required": false, "type": "string"}]);
    let request = NewTable {
        schema: schema(&json!({"type": "struct", "schema-id": 9, "fields": fields,
            "identifier-field-ids": [60]})),
        partition_spec: Some(
            UnboundPartitionSpec::parse(&raw(&json!({"spec-id": 4, "fields": [
                {"name": "m", "transform": "month", "source-id": 60, "field-id": 7},
                {"name": "c", "transform": "identity", "source-id": 40, "field-id": 8}]})))
            .expect("a spec"),
        ),
        sort_order: Some(
            UnboundSortOrder::parse(&raw(&json!({"order-id": 5, "fields": [
                {"transform": "identity", "source-id": 70, "direction": "desc",
                 "null-order": "nulls-last"}]})))
            .expect("an order"),
        ),
        ..new(&[("a", "b"), ("format-version", "3"), ("uuid", "x")])
    };
    let table = new_table(request, &ctx(CREATED_MS)).expect("a table");
    assert_round_trip(&table);
    let json: Value = serde_json::from_slice(&table.to_json()).expect("JSON");
    assert_eq!(
        json,
        json!({
            "format-version": 3,
            "table-uuid": "00000000-0000-0000-0000-000000000007",
            "location": "s3://b/t",
            "last-sequence-number": 0,
            "last-updated-ms": CREATED_MS,
            "last-column-id": 4,
            "current-schema-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "identifier-field-ids": [4], "fields": [
                {"id": 1, "name": "a", "required": true, "type": "int"},
                {"id": 2, "name": "s", "required": true, "type": {"type": "struct", "fields": [
                    {"id": 4, "name": "b", "required": true, "type": "date", "doc": "day"}]}},
                {"id": 3, "name": "c", "required": false, "type": "string"}]}],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": [
                {"name": "m", "transform": "month", "source-id": 4, "field-id": 1000},
                {"name": "c", "transform": "identity", "source-id": 3, "field-id": 1001}]}],
            "last-partition-id": 1001,
            "default-sort-order-id": 1,
            "sort-orders": [{"order-id": 1, "fields": [{"transform": "identity", "source-id": 1,
                "direction": "desc", "null-order": "nulls-last"}]}],
            "properties": {"a": "b", "write.parquet.compression-codec": "zstd"},
            "current-snapshot-id": null,
            "next-row-id": 0,
            "refs": {},
            "snapshots": [],
            "statistics": [],
            "partition-statistics": [],
            "snapshot-log": [],
            "metadata-log": [],
        })
    );
}

#[test]
fn a_plain_table_is_unpartitioned_unsorted_and_of_version_2() {
    let table = new_table(new(&[]), &ctx(CREATED_MS)).expect("a table");
    assert_eq!(table.format_version, 2);
    assert_eq!(table.last_partition_id, 999);
    assert_eq!(table.default_spec().expect("a spec").fields, []);
    assert_eq!(table.default_sort_order_id, 0);
    assert_round_trip(&table);
    let empty = NewTable { schema: schema(&json!({"type": "struct", "fields": []})), ..new(&[]) };
    assert_round_trip(&new_table(empty, &ctx(CREATED_MS)).expect("a table"));
}

#[test]
fn invalid_create_requests_are_refused() {
    let spec = |source_id: i32| NewTable {
        partition_spec: Some(
            UnboundPartitionSpec::parse(&raw(&json!({"fields": [
                {"name": "p", "transform": "identity", "source-id": source_id}]})))
            .expect("a spec"),
        ),
        ..new(&[])
    };
    let variant = schema(&json!({"type": "struct", "fields": [
        {"id": 1, "name": "v", "required": false, "type": "variant"}]}));
    let table = [
        (spec(99), "Cannot find source column for partition field: p: identity(99)"),
        (spec(5), "Cannot partition by non-primitive source field: list<string>"),
        (
            new(&[("format-version", "two")]),
            "Table property format-version must have integer value: two",
        ),
        (new(&[("format-version", "5")]), "Unsupported format version: v5 (supported: v4)"),
        (new(&[("format-version", "0")]), "Unsupported format version: v0 (supported: v4)"),
        (
            new(&[("commit.retry.num-retries", "x")]),
            "Table property commit.retry.num-retries must have integer value",
        ),
        (
            new(&[("commit.retry.max-wait-ms", "-1")]),
            "Table property commit.retry.max-wait-ms must have non negative integer value",
        ),
        (
            new(&[("write.metadata.metrics.column.nope", "full")]),
            "Invalid metrics config, could not find column nope from table prop write.metadata.metrics.column.nope in schema",
        ),
        (new(&[("encryption.key-id", "k")]), "Invalid properties for v2: [encryption.key-id]"),
        (
            NewTable { schema: variant, ..new(&[]) },
            "Invalid schema for v2:\n- Invalid type for v: variant is not supported until v3",
        ),
        (NewTable { location: String::new(), ..new(&[]) }, "Invalid location: must not be empty"),
    ];
    for (request, text) in table {
        assert_eq!(refusal(request), text);
    }
    let metrics = new(&[("write.metadata.metrics.column.place.x", "full")]);
    assert!(new_table(metrics, &ctx(CREATED_MS)).is_ok());
}

#[test]
fn a_staged_table_is_created_by_its_updates() {
    let changes = json!([
        {"action": "assign-uuid", "uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7"},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "add-schema", "schema": columns()},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1}]);
    let create = |changes: &Value, default_location: Option<&str>| {
        let ctx = CommitContext {
            default_location: default_location.map(str::to_owned),
            ..ctx(CREATED_MS)
        };
        let create = [super::super::requirement::TableRequirement::NotExist];
        commit::apply(None, &create, &updates(changes)?, &ctx).map(|applied| applied.metadata)
    };
    let table = create(&changes, Some("s3://b/default/")).expect("a table");
    assert_eq!(table.format_version, 1);
    assert_eq!(table.location, "s3://b/default");
    assert_eq!(table.table_uuid.to_string(), "f79c3e09-677c-4bbd-a479-3f349cb785e7");
    assert_eq!(table.metadata_log, []);
    assert_round_trip(&table);

    assert_eq!(create(&changes, None), Err(Refusal::invalid("Invalid location: null")));
    let mut twice = changes.clone();
    twice[1] = json!({"action": "assign-uuid", "uuid": "e79c3e09-677c-4bbd-a479-3f349cb785e7"});
    assert!(create(&twice, Some("s3://b")).is_err(), "a UUID can be assigned only once");
    assert_eq!(
        create(&json!([]), Some("s3://b")),
        Err(Refusal::invalid("Cannot find schema with current-schema-id=0 from schemas"))
    );
}

//! Tests with documents of every format version: reading, writing, and refusals.

use serde_json::json;

use super::super::testing::{
    METADATA_LOCATION, assert_round_trip, columns, committed, raw, set_ref, snapshot, table,
    table_with_snapshots,
};
use super::*;

fn parse(json: &Value) -> Result<TableMetadata, Refusal> {
    TableMetadata::parse(json.to_string().as_bytes())
}

fn document(metadata: &TableMetadata) -> Value {
    serde_json::from_slice(&metadata.to_json()).expect("JSON")
}

/// Returns a document of version 1 without lists of schemas and specs, which were introduced later.
fn old_v1() -> Value {
    json!({
        "format-version": 1,
        "location": "s3://b/t/",
        "last-updated-ms": 1_602_638_573_874_i64,
        "last-column-id": 8,
        "schema": {"type": "struct", "fields": columns()["fields"]},
        "partition-spec": [
            {"name": "x", "transform": "identity", "source-id": 1},
            {"name": "d", "transform": "day", "source-id": 3}],
        "current-snapshot-id": 638_933_773_299_822_130_i64,
        "snapshots": [{
            "snapshot-id": 638_933_773_299_822_130_i64,
            "timestamp-ms": 1_662_532_818_843_i64,
            "manifests": ["s3://b/t/metadata/m0.avro"]}],
    })
}

#[test]
fn metadata_members_are_written_in_the_order_of_the_reference() {
    let names = |version: u8| {
        let json = String::from_utf8(table(version).to_json().to_vec()).expect("UTF-8");
        let names = KNOWN_MEMBERS.iter();
        let mut positions: Vec<(usize, &str)> = names
            .filter_map(|name| json.find(&format!("\"{name}\":")).map(|place| (place, *name)))
            .collect();
        positions.sort_unstable();
        positions.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        names(2),
        "format-version table-uuid location last-sequence-number last-updated-ms last-column-id \
         current-schema-id schemas default-spec-id partition-specs last-partition-id \
         default-sort-order-id sort-orders properties current-snapshot-id refs snapshots statistics \
         partition-statistics snapshot-log metadata-log"
    );
    assert_eq!(
        names(3),
        names(2).replace("current-snapshot-id", "current-snapshot-id next-row-id")
    );
    assert_eq!(
        names(1),
        names(2)
            .replace("last-sequence-number ", "")
            .replace("current-schema-id", "schema current-schema-id")
            .replace("default-spec-id", "partition-spec default-spec-id")
    );
    assert_eq!(document(&table(1))["current-snapshot-id"], json!(-1));
    assert_eq!(document(&table(2))["current-snapshot-id"], json!(-1));
    assert_eq!(document(&table(3))["current-snapshot-id"], Value::Null);
    for version in 1..=3 {
        assert_round_trip(&table(version));
        assert_round_trip(&table_with_snapshots(version, 3));
    }
}

#[test]
fn old_documents_of_version_1_are_read() {
    let table = parse(&old_v1()).expect("a valid document");
    assert!(table.table_uuid.is_nil());
    assert_eq!(table.location, "s3://b/t");
    assert_eq!(table.schemas.len(), 1);
    let field_ids = |table: &TableMetadata| {
        let spec = table.default_spec().expect("a spec");
        spec.fields.iter().map(|field| field.field_id).collect::<Vec<_>>()
    };
    assert_eq!(field_ids(&table), [1000, 1001]);
    assert_eq!(table.last_partition_id, 1001);
    assert_eq!(table.refs.get("main").map(|main| main.snapshot_id), table.current_snapshot_id);
    assert_eq!(table.sort_orders.len(), 1);
    assert_round_trip(&table);
    // The first commit assigns a UUID.
    let table =
        committed(&table, json!([{"action": "upgrade-format-version", "format-version": 2}]));
    assert_eq!(table.table_uuid, Uuid::from_u128(7));
}

#[test]
fn unknown_members_survive() {
    let mut json = document(&table_with_snapshots(2, 1));
    json["future"] = json!({"a": [1, null, "b"], "c": 0.5});
    json["snapshots"][0]["future"] = json!([{"b": 1}]);
    let table = parse(&json).expect("a valid document");
    assert_eq!(document(&table), json);
    let table = committed(&table, json!([{"action": "set-properties", "updates": {"a": "b"}}]));
    assert_eq!(document(&table)["future"], json["future"]);
    assert_eq!(document(&table)["snapshots"], json["snapshots"]);
}

#[test]
fn inconsistent_table_documents_are_refused() {
    let good = document(&table_with_snapshots(2, 2));
    let change = |path: &str, value: Value| {
        let mut json = good.clone();
        *json.pointer_mut(path).expect("a member") = value;
        json
    };
    let without = |name: &str| {
        let mut json = good.clone();
        json.as_object_mut().expect("an object").remove(name);
        json
    };
    let table = [
        (json!([]), "Cannot parse metadata from a non-object: []"),
        (json!({}), "Cannot parse missing int: format-version"),
        (change("/format-version", json!(5)), "Cannot read unsupported version 5"),
        (change("/format-version", json!(0)), "Cannot read unsupported version 0"),
        (change("/format-version", json!(3)), "Cannot parse missing long: next-row-id"),
        (change("/table-uuid", json!("x")), "Cannot parse to a UUID: table-uuid: x"),
        (without("table-uuid"), "UUID is required in format v2"),
        (without("location"), "Cannot parse missing string: location"),
        (change("/location", json!("")), "Invalid location: must not be empty"),
        (without("schemas"), "schemas must exist in format v2"),
        (without("current-schema-id"), "Cannot parse missing int: current-schema-id"),
        (
            change("/current-schema-id", json!(9)),
            "Cannot find schema with current-schema-id=9 from schemas",
        ),
        (without("partition-specs"), "partition-specs must exist in format v2"),
        (change("/partition-specs", json!([])), "Partition specs cannot be null or empty"),
        (
            change("/default-spec-id", json!(9)),
            "Cannot find spec with default-spec-id=9 from partition-specs",
        ),
        (without("last-partition-id"), "last-partition-id must exist in format v2"),
        (without("sort-orders"), "sort-orders must exist in format v2"),
        (change("/sort-orders", json!([])), "Sort orders cannot be null or empty"),
        (
            change("/default-sort-order-id", json!(9)),
            "Cannot find sort order with default-sort-order-id=9 from sort-orders",
        ),
        (
            change("/schemas", json!([columns(), columns()])),
            "Invalid metadata: duplicate schema id: 0",
        ),
        (
            change("/snapshots/1/snapshot-id", json!(1)),
            "Invalid metadata: duplicate snapshot id: 1",
        ),
        (
            change("/snapshots/1/sequence-number", json!(3)),
            "Invalid snapshot with sequence number 3 greater than last sequence number 2",
        ),
        (
            change("/last-sequence-number", json!(-3)),
            "Invalid last-sequence-number (cannot be negative): -3",
        ),
        (
            change("/current-snapshot-id", json!(1)),
            "Current snapshot ID does not match main branch (1 != 2)",
        ),
        (
            change("/current-snapshot-id", json!(-1)),
            "Current snapshot is not set, but main branch exists: 2",
        ),
        (change("/refs", json!({})), ""),
        (
            change("/refs/main/snapshot-id", json!(7)),
            "Snapshot for reference main does not exist in the existing snapshots list",
        ),
        (change("/refs/main", json!(7)), "Cannot parse snapshot reference from a non-object: 7"),
        (change("/snapshots", json!({})), "Cannot parse snapshots from non-array: {}"),
        (
            change("/snapshot-log/1/timestamp-ms", json!(5)),
            "Invalid snapshot log: entries are not sorted by time",
        ),
        (
            change("/last-updated-ms", json!(5)),
            "Invalid update timestamp 5: before last snapshot log entry at 1700000002000",
        ),
        (
            change("/metadata-log/0/metadata-file", json!(5)),
            "Cannot parse to a string value: metadata-file: 5",
        ),
        (
            change("/metadata-log/0/timestamp-ms", json!(i64::MAX)),
            "Invalid metadata log: entries are not sorted by time",
        ),
        (change("/properties", json!({"a": 1})), "Cannot parse to a string value: a: 1"),
        (
            change("/partition-specs/0/fields/0/source-id", json!(99)),
            "Cannot find source column for partition field: 1000: id_bucket: bucket[16](99)",
        ),
        (
            change("/partition-specs/0/fields/0/name", json!("name")),
            "Cannot create identity partition sourced from different field in schema: name",
        ),
    ];
    for (json, text) in table {
        let expected = if text.is_empty() { Ok(()) } else { Err(Refusal::invalid(text)) };
        assert_eq!(parse(&json).map(|_| ()), expected);
    }
    assert!(TableMetadata::parse(b"\xff{}").is_err());
    assert!(TableMetadata::parse(b"{\"a\":").is_err());
}

#[test]
fn unreferenced_snapshots_can_be_omitted() {
    let table = table_with_snapshots(2, 4);
    let table = committed(&table, json!([set_ref("old", "tag", 2)]));
    let referenced = table.with_referenced_snapshots_only();
    let ids: Vec<i64> = referenced.snapshots.iter().map(|s| s.snapshot_id).collect();
    assert_eq!(ids, [2, 4]);
    assert_eq!(referenced.snapshot_log, table.snapshot_log);
    assert_round_trip(&referenced);
}

#[test]
fn a_snapshot_is_written_verbatim() {
    let table = table_with_snapshots(2, 1);
    let json = String::from_utf8(table.to_json().to_vec()).expect("UTF-8");
    assert!(json.contains(raw(&snapshot(1, None, 1)).get()));
    assert!(!json.contains(METADATA_LOCATION) || table.metadata_log.len() == 1);
}

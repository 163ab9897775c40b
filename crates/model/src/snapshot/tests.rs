//! Tests that the JSON of snapshots is preserved, and that invalid snapshots are refused.

use serde_json::json;

use super::super::testing::raw;
use super::*;

fn minimal() -> Value {
    json!({"snapshot-id": 5, "timestamp-ms": 9, "manifest-list": "s3://b/m.avro"})
}

fn with(name: &str, value: Value) -> Result<Snapshot, Refusal> {
    let mut snapshot = minimal();
    snapshot[name] = value;
    Snapshot::parse(&raw(&snapshot))
}

#[test]
fn snapshot_json_keeps_unknown_members() {
    let text = r#"{"snapshot-id":5,"key-id":"k","timestamp-ms":9,"future":[1,{"a":null}],"summary":{"operation":"append","b":"1 2"},"manifest-list":"s3://b/m.avro"}"#;
    let raw = RawValue::from_string(text.to_owned()).expect("JSON");
    let snapshot = Snapshot::parse(&raw).expect("a snapshot");
    // A nested null requires the slow path, which must not lose any member.
    let value: Value = serde_json::from_str(snapshot.json()).expect("JSON");
    assert_eq!(value, serde_json::from_str::<Value>(text).expect("JSON"));

    let text = text.replace("null", "2");
    let raw = RawValue::from_string(text.clone()).expect("JSON");
    let snapshot = Snapshot::parse(&raw).expect("a snapshot");
    assert_eq!(snapshot.json(), text);
    assert_eq!(snapshot.manifest_list().as_deref(), Some("s3://b/m.avro"));
    assert_eq!(snapshot.summary().get("operation").map(String::as_str), Some("append"));
}

#[test]
fn whitespace_and_null_members_are_removed() {
    let text = "{ \"snapshot-id\": 5,\n \"timestamp-ms\":9, \"parent-snapshot-id\": null,
        \"summary\": {\"operation\": \"a  b\\\" c\"}, \"manifest-list\": \"m\" }";
    let raw = RawValue::from_string(text.to_owned()).expect("JSON");
    let snapshot = Snapshot::parse(&raw).expect("a snapshot");
    assert_eq!(snapshot.parent_snapshot_id, None);
    assert_eq!(
        snapshot.json(),
        r#"{"snapshot-id":5,"timestamp-ms":9,"summary":{"operation":"a  b\" c"},"manifest-list":"m"}"#
    );
}

#[test]
fn invalid_snapshot_is_refused_with_its_member() {
    let table = [
        ("snapshot-id", json!("5"), "Cannot parse to a long value: snapshot-id: \"5\""),
        ("snapshot-id", json!(null), "Cannot parse missing long: snapshot-id"),
        ("snapshot-id", json!(-1), "Invalid snapshot id: -1 (reserved)"),
        ("snapshot-id", json!(1.5), "Cannot parse to a long value: snapshot-id: 1.5"),
        (
            "snapshot-id",
            json!(u64::MAX),
            "Cannot parse to a long value: snapshot-id: 18446744073709551615",
        ),
        ("timestamp-ms", json!([]), "Cannot parse to a long value: timestamp-ms: []"),
        ("sequence-number", json!(-1), "Invalid sequence number (cannot be negative): -1"),
        (
            "schema-id",
            json!(1_i64 << 40),
            "Cannot parse to an integer value: schema-id: 1099511627776",
        ),
        ("summary", json!({"a": 1}), "Cannot parse to a string value: a: 1"),
        ("summary", json!("a"), "Cannot parse string map from non-object value: summary: \"a\""),
        ("manifest-list", json!(null), "Cannot parse missing string: manifest-list"),
        ("manifest-list", json!(1), "Cannot parse to a string value: manifest-list: 1"),
        ("first-row-id", json!(-1), "Invalid first-row-id (cannot be negative): -1"),
        ("first-row-id", json!(1), "Invalid added-rows (required when first-row-id is set): null"),
        ("added-rows", json!(-2), "Invalid added-rows (cannot be negative): -2"),
    ];
    for (name, value, text) in table {
        assert_eq!(with(name, value), Err(Refusal::invalid(text)));
    }
    assert_eq!(
        Snapshot::parse(&raw(&json!([1]))).map(|_| ()),
        Err(Refusal::invalid("Cannot parse snapshot from a non-object: [1]"))
    );
}

#[test]
fn invalid_retention_of_a_reference_is_refused() {
    let parse = |json: Value| SnapshotRef::from_json(&json);
    let tag = parse(json!({"snapshot-id": 1, "type": "TAG", "max-ref-age-ms": 1}));
    assert_eq!(
        serde_json::to_value(tag.expect("a tag")).expect("JSON"),
        json!({"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 1})
    );
    let table = [
        (json!({"type": "fork"}), "Invalid snapshot ref type: fork"),
        (
            json!({"type": "tag", "min-snapshots-to-keep": 1}),
            "Tags do not support setting minSnapshotsToKeep",
        ),
        (
            json!({"type": "tag", "max-snapshot-age-ms": 1}),
            "Tags do not support setting maxSnapshotAgeMs",
        ),
        (
            json!({"type": "branch", "min-snapshots-to-keep": 0}),
            "Min snapshots to keep must be greater than 0",
        ),
        (
            json!({"type": "branch", "max-snapshot-age-ms": -1}),
            "Max snapshot age must be greater than 0 ms",
        ),
        (
            json!({"type": "branch", "max-ref-age-ms": 0}),
            "Max reference age must be greater than 0",
        ),
    ];
    for (mut json, text) in table {
        json["snapshot-id"] = 1.into();
        assert_eq!(parse(json), Err(Refusal::invalid(text)));
    }
}

#[test]
fn deeply_nested_snapshot_is_refused() {
    let nested = |depth: usize| {
        let inner = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let text =
            format!(r#"{{"snapshot-id":5,"timestamp-ms":9,"manifest-list":"m","future":{inner}}}"#);
        Snapshot::parse(&RawValue::from_string(text).expect("JSON")).map(|_| ())
    };
    assert_eq!(nested(31), Ok(()));
    let rejection = Err(Refusal::invalid("Cannot parse snapshot: nested more than 32 deep"));
    assert_eq!(nested(32), rejection);
    assert_eq!(nested(100_000), rejection);
}

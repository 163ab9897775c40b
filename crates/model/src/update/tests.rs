//! Tests that valid updates are parsed, and that invalid ones are refused with the expected
//! message.

use serde_json::{Value, json};

use super::super::testing::{columns, raw, snapshot};
use super::*;

fn parse(json: Value) -> Result<TableUpdate, Refusal> {
    TableUpdate::parse(&raw(&json))
}

#[test]
fn every_action_of_the_specification_parses() {
    let statistics = json!({"snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1, "blob-metadata": [
            {"type": "t", "snapshot-id": 1, "sequence-number": 1, "fields": [1]}]});
    let partition_statistics =
        json!({"snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 1});
    let all = json!([
        {"action": "assign-uuid", "uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7"},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": columns(), "last-column-id": 3},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "add-snapshot", "snapshot": snapshot(1, None, 1)},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
        {"action": "remove-snapshots", "snapshot-ids": [1]},
        {"action": "remove-snapshot-ref", "ref-name": "main"},
        {"action": "set-location", "location": "s3://b"},
        {"action": "set-properties", "updates": {"a": "b"}},
        {"action": "remove-properties", "removals": ["a"]},
        {"action": "set-statistics", "snapshot-id": 4, "statistics": statistics},
        {"action": "remove-statistics", "snapshot-id": 1},
        {"action": "set-partition-statistics", "partition-statistics": partition_statistics},
        {"action": "remove-partition-statistics", "snapshot-id": 1},
        {"action": "remove-partition-specs", "spec-ids": [1]},
        {"action": "remove-schemas", "schema-ids": [1]},
        {"action": "add-encryption-key", "encryption-key":
            {"key-id": "k", "encrypted-key-metadata": "AAA="}},
        {"action": "remove-encryption-key", "key-id": "k"},
    ]);
    let all = all.as_array().expect("a list");
    assert_eq!(all.len(), 23);
    for update in all {
        let parsed = parse(update.clone()).unwrap_or_else(|refusal| panic!("{update}: {refusal}"));
        assert_eq!(Some(parsed.action()), update["action"].as_str());
        let mut expected = update.clone();
        let members = expected.as_object_mut().expect("an object");
        match parsed {
            TableUpdate::AddSchema { .. } => members.remove("last-column-id"),
            TableUpdate::SetStatistics { .. } => members.remove("snapshot-id"),
            _ => None,
        };
        assert_eq!(serde_json::to_value(&parsed).expect("it is written"), expected);
    }
}

#[test]
fn legacy_spellings_parse() {
    let old = parse(json!({"action": "set-properties", "updated": {"a": "b"}}));
    assert!(matches!(old, Ok(TableUpdate::SetProperties { updates }) if updates.len() == 1));
    let both = parse(json!({"action": "set-properties", "updated": {"a": "b"}, "updates": {}}));
    assert!(matches!(both, Ok(TableUpdate::SetProperties { updates }) if updates.is_empty()));
    let old = parse(json!({"action": "remove-properties", "removed": ["a"]}));
    assert!(matches!(old, Ok(TableUpdate::RemoveProperties { removals }) if removals == ["a"]));
    let upper = parse(json!({"action": "SET-LOCATION", "location": "s3://b"}));
    assert!(matches!(upper, Ok(TableUpdate::SetLocation { .. })));
}

#[test]
fn invalid_updates_are_refused_with_their_member() {
    let table = [
        (json!([]), "Cannot parse metadata update from a non-object: []"),
        (json!({"uuid": "x"}), "Cannot parse metadata update. Missing field: action"),
        (json!({"action": 1}), "Cannot parse to a string value: action: 1"),
        (json!({"action": "fly"}), "Cannot parse metadata update. Unrecognized action: fly"),
        (json!({"action": "add-view-version"}), "Cannot apply update add-view-version to a table"),
        (json!({"action": "assign-uuid"}), "Cannot parse missing string: uuid"),
        (json!({"action": "assign-uuid", "uuid": "1"}), "Cannot parse to a UUID: uuid: 1"),
        (json!({"action": "add-schema"}), "Cannot parse missing field: schema"),
        (
            json!({"action": "add-schema", "schema": "int"}),
            "Cannot parse schema from a non-object: \"int\"",
        ),
        (
            json!({"action": "add-schema", "schema": {"type": "list"}}),
            "Cannot create schema, not a struct type: {\"type\":\"list\"}",
        ),
        (
            json!({"action": "set-current-schema", "schema-id": 1e3}),
            "Cannot parse to an integer value: schema-id: 1000.0",
        ),
        (
            json!({"action": "set-default-spec", "spec-id": 3_000_000_000_u32}),
            "Cannot parse to an integer value: spec-id: 3000000000",
        ),
        (
            json!({"action": "remove-snapshots", "snapshot-ids": [1, "2"]}),
            "Cannot parse long from non-long value in snapshot-ids: \"2\"",
        ),
        (
            json!({"action": "remove-snapshots", "snapshot-ids": 1}),
            "Cannot parse JSON array from non-array value: snapshot-ids: 1",
        ),
        (json!({"action": "remove-schemas"}), "Cannot parse missing list: schema-ids"),
        (
            json!({"action": "set-properties", "updates": {"a": 1}}),
            "Cannot parse to a string value: a: 1",
        ),
        (json!({"action": "set-properties"}), "Cannot parse missing map: updates"),
        (
            json!({"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "?"}}),
            "Cannot parse encrypted-key-metadata: not base64",
        ),
        (
            json!({"action": "set-statistics", "statistics": {"snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}}),
            "Cannot parse missing field: blob-metadata",
        ),
    ];
    for (json, text) in table {
        assert_eq!(parse(json).map(|_| ()), Err(Refusal::invalid(text)));
    }
}

#[test]
fn refusal_truncates_the_value_of_the_request() {
    let action = "x".repeat(100_000);
    let Err(Refusal::Invalid(text)) = parse(json!({"action": action})) else {
        panic!("not invalid");
    };
    assert!(text.len() < 400);
}

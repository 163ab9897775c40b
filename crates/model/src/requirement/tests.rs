//! Tests of the checks of requirements, and of the messages for requirements that do not hold.

use serde_json::{Value, json};

use super::super::testing::{
    commit_with_requirements, committed, raw, set_ref, table, table_with_snapshots,
};
use super::*;

fn parse(json: Value) -> Result<TableRequirement, Refusal> {
    parse_requirement(&raw(&json))
}

#[test]
fn requirements_fail_with_the_message_of_the_reference() {
    let table = table_with_snapshots(2, 2);
    let table = committed(&table, json!([set_ref("old", "tag", 1)]));
    let uuid = table.table_uuid;
    let holds = [
        json!({"type": "assert-table-uuid", "uuid": uuid.to_string().to_uppercase()}),
        json!({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2}),
        json!({"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": null}),
        json!({"type": "assert-ref-snapshot-id", "ref": "none"}),
        json!({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 8}),
        json!({"type": "assert-current-schema-id", "current-schema-id": 0}),
        json!({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1001}),
        json!({"type": "assert-default-spec-id", "default-spec-id": 0}),
        json!({"type": "assert-default-sort-order-id", "default-sort-order-id": 1}),
    ];
    for requirement in holds {
        let requirement = parse(requirement).expect("a requirement");
        assert_eq!(check_requirements(Some(&table), &[requirement]), Ok(()));
    }
    let other = Uuid::from_u128(9);
    let fails = [
        (json!({"type": "assert-create"}), "table already exists".to_owned()),
        (
            json!({"type": "assert-table-uuid", "uuid": other}),
            format!("UUID does not match: expected {uuid} != {other}"),
        ),
        (
            json!({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": null}),
            "branch main was created concurrently".to_owned(),
        ),
        (
            json!({"type": "assert-ref-snapshot-id", "ref": "old", "snapshot-id": null}),
            "tag old was created concurrently".to_owned(),
        ),
        (
            json!({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}),
            "branch main has changed: expected id 1 != 2".to_owned(),
        ),
        (
            json!({"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": 1}),
            "branch or tag none is missing, expected 1".to_owned(),
        ),
        (
            json!({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 7}),
            "last assigned field id changed: expected id 7 != 8".to_owned(),
        ),
        (
            json!({"type": "assert-current-schema-id", "current-schema-id": 1}),
            "current schema changed: expected id 1 != 0".to_owned(),
        ),
        (
            json!({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999}),
            "last assigned partition id changed: expected id 999 != 1001".to_owned(),
        ),
        (
            json!({"type": "assert-default-spec-id", "default-spec-id": 3}),
            "default partition spec changed: expected id 3 != 0".to_owned(),
        ),
        (
            json!({"type": "assert-default-sort-order-id", "default-sort-order-id": 0}),
            "default sort order changed: expected id 0 != 1".to_owned(),
        ),
    ];
    for (requirement, text) in fails {
        let requirement = parse(requirement).expect("a requirement");
        let message = Err(Refusal::conflict(format!("Requirement failed: {text}")));
        assert_eq!(check_requirements(Some(&table), &[requirement]), message);
    }
}

#[test]
fn missing_table_satisfies_only_assert_create() {
    let create = TableRequirement::NotExist;
    let uuid = TableRequirement::UuidMatch { uuid: Uuid::nil() };
    assert_eq!(check_requirements(None, &[]), Ok(()));
    assert_eq!(check_requirements(None, std::slice::from_ref(&create)), Ok(()));
    assert_eq!(
        check_requirements(None, std::slice::from_ref(&uuid)),
        Err(Refusal::conflict("Requirement failed: table does not exist"))
    );
    let both = Err(Refusal::invalid("Invalid create requirements: [assert-table-uuid]"));
    assert_eq!(check_requirements(None, &[create.clone(), uuid.clone()]), both);
    assert_eq!(check_requirements(Some(&table(2)), &[uuid, create]), both);
}

#[test]
fn unknown_requirements_are_refused() {
    let table = [
        (
            json!({"type": "assert-view-uuid", "uuid": Uuid::nil()}),
            "Cannot validate assert-view-uuid against a table",
        ),
        (
            json!({"type": "assert-moon-phase"}),
            "Cannot parse update requirement. Unrecognized type: assert-moon-phase",
        ),
        (json!({"uuid": "x"}), "Cannot parse update requirement. Missing field: type"),
        (json!({"type": "assert-table-uuid", "uuid": "x"}), "Cannot parse to a UUID: uuid: x"),
        (json!({"type": "assert-default-spec-id"}), "Cannot parse missing int: default-spec-id"),
        (
            json!("assert-create"),
            "Cannot parse update requirement from a non-object: \"assert-create\"",
        ),
    ];
    for (json, text) in table {
        assert_eq!(parse(json), Err(Refusal::invalid(text)));
    }
}

#[test]
fn requirements_are_checked_before_updates() {
    let requirement = json!([{"type": "assert-current-schema-id", "current-schema-id": 4}]);
    let expected = commit_with_requirements(
        &table(2),
        requirement,
        json!([{"action": "set-location", "location": ""}]),
    );
    assert!(matches!(expected, Err(Refusal::Conflict(_))));
}

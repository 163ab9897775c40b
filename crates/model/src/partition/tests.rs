//! Tests whether partition specs and sort orders are compatible with schemas.

use serde_json::json;

use super::super::schema::Schema;
use super::super::sort::UnboundSortOrder;
use super::super::testing::{columns, raw, schema};
use super::*;

fn bind(schema: &Schema, fields: Value) -> Result<PartitionSpec, Refusal> {
    let spec = UnboundPartitionSpec::parse(&raw(&json!({"fields": fields})))?;
    let spec = spec.with_sequential_ids(0)?;
    let index = schema.index()?;
    spec.check_names(&index)?;
    spec.check_field_ids()?;
    spec.check_compatibility(&index)?;
    Ok(spec)
}

fn field(name: &str, transform: &str, source_id: i32) -> Value {
    json!({"name": name, "transform": transform, "source-id": source_id})
}

#[test]
fn spec_json_round_trips() {
    let fields = json!([
        {"name": "b", "transform": "bucket[16]", "source-id": 1, "field-id": 1000},
        {"name": "z", "transform": "zorder", "source-id": 1, "field-id": 1001}]);
    let spec = bind(&schema(&columns()), fields.clone()).expect("a valid spec");
    let written = serde_json::to_value(&spec).expect("JSON");
    assert_eq!(written, json!({"spec-id": 0, "fields": fields}));
    assert_eq!(spec.last_assigned_field_id(), 1001);
    assert_eq!(PartitionSpec::unpartitioned().last_assigned_field_id(), 999);
}

#[test]
fn incompatible_specs_are_refused() {
    let schema = schema(&columns());
    let table = [
        (
            json!([field("p", "identity", 99)]),
            "Cannot find source column for partition field: 1000: p: identity(99)",
        ),
        (
            json!([field("p", "identity", 4)]),
            "Cannot partition by non-primitive source field: struct<6: x: required double, 7: y: required double>",
        ),
        (json!([field("p", "day", 2)]), "Invalid source type string for transform: day"),
        (
            json!([field("p", "bucket[4]", 6)]),
            "Invalid source type double for transform: bucket[4]",
        ),
        (
            json!([field("p", "truncate[4]", 3)]),
            "Invalid source type timestamp for transform: truncate[4]",
        ),
        (json!([field("p", "identity", 8)]), "Invalid partition field parent: list<string>"),
        (
            json!([field("name", "bucket[4]", 1)]),
            "Cannot create identity partition sourced from different field in schema: name",
        ),
        (
            json!([field("p", "day", 3), field("p", "bucket[4]", 1)]),
            "Cannot use partition name more than once: p",
        ),
        (json!([field("", "day", 3)]), "Cannot use empty partition name: "),
        (json!([field("p", "bucket[0]", 1)]), "Invalid number of buckets: 0 (must be > 0)"),
        (
            json!([field("p", "truncate[99999999999]", 2)]),
            "Invalid truncate width: 99999999999 (must be > 0)",
        ),
        (json!({}), "Cannot parse partition spec fields, not an array: {}"),
        (json!([{"name": "p", "transform": "day"}]), "Cannot parse missing int: source-id"),
        (
            json!([{"name": "p", "transform": "day", "source-id": 3, "field-id": 1000}, field("q", "day", 3)]),
            "Cannot parse spec with missing field IDs: 1 missing of 2 fields.",
        ),
        (
            json!([{"name": "p", "transform": "day", "source-id": 3, "field-id": 1000}, {"name": "q", "transform": "hour", "source-id": 3, "field-id": 1000}]),
            "Cannot use partition field id more than once: 1000",
        ),
    ];
    for (fields, text) in table {
        assert_eq!(bind(&schema, fields), Err(Refusal::invalid(text)));
    }
}

#[test]
fn compatible_specs_are_accepted() {
    let schema = schema(&columns());
    for fields in [
        json!([]),
        json!([field("id", "identity", 1)]),
        json!([field("name", "truncate[3]", 2)]),
        json!([field("place.x", "identity", 6), field("h", "HOUR", 3)]),
        json!([field("gone", "void", 99), field("p", "year", 3)]),
    ] {
        assert!(bind(&schema, fields.clone()).is_ok(), "{fields}");
    }
}

#[test]
fn transforms_accept_the_types_of_the_specification() {
    let table = [
        (
            "identity",
            "boolean int long float double decimal(9, 2) date time timestamp timestamptz timestamp_ns timestamptz_ns string uuid fixed[4] binary unknown",
        ),
        (
            "bucket[2]",
            "int long decimal(9, 2) date time timestamp timestamptz timestamp_ns timestamptz_ns string uuid fixed[4] binary",
        ),
        ("truncate[2]", "int long decimal(9, 2) string binary"),
        ("year", "date timestamp timestamptz timestamp_ns timestamptz_ns"),
        ("month", "date timestamp timestamptz timestamp_ns timestamptz_ns"),
        ("day", "date timestamp timestamptz timestamp_ns timestamptz_ns"),
        ("hour", "timestamp timestamptz timestamp_ns timestamptz_ns"),
    ];
    let all = "boolean;int;long;float;double;decimal(9, 2);date;time;timestamp;timestamptz;\
        timestamp_ns;timestamptz_ns;string;uuid;fixed[4];binary;unknown;variant;geometry;geography";
    for (transform, takes) in table {
        let transform = Transform::parse(transform).expect("a transform");
        let taken: Vec<String> = all
            .split(';')
            .map(|name| super::super::types::Type::parse(&json!(name.trim())).expect("a type"))
            .filter(|source| transform.can_transform(source))
            .map(|source| source.to_string())
            .collect();
        assert_eq!(taken.join(" "), takes, "{transform}");
    }
}

#[test]
fn sort_orders_are_checked_against_the_schema() {
    let schema = schema(&columns());
    let index = schema.index().expect("an index");
    let order = |order_id: i32, transform: &str, source_id: i32, direction: &str, nulls: &str| {
        let order = UnboundSortOrder::parse(&raw(&json!({"order-id": order_id, "fields": [
            {"transform": transform, "source-id": source_id, "direction": direction,
             "null-order": nulls}]})))?;
        order.with_order_id(order_id).check_compatibility(&index)
    };
    let rejection = |text: &str| Err(Refusal::invalid(text));
    assert_eq!(order(1, "identity", 2, "ASC", "NULLS-LAST"), Ok(()));
    assert_eq!(
        order(1, "identity", 99, "desc", "nulls-first"),
        rejection("Cannot find source column for sort field: identity(99) DESC NULLS FIRST")
    );
    assert_eq!(
        order(1, "identity", 5, "asc", "nulls-first"),
        rejection("Cannot sort by non-primitive source field: list<string>")
    );
    assert_eq!(
        order(1, "hour", 1, "asc", "nulls-first"),
        rejection("Invalid source type long for transform: hour")
    );
    assert_eq!(
        order(0, "identity", 2, "asc", "nulls-first"),
        rejection("Sort order ID 0 is reserved for unsorted order")
    );
    assert_eq!(
        order(1, "identity", 2, "up", "nulls-first"),
        rejection("Invalid sort direction: up")
    );
    assert_eq!(order(1, "identity", 2, "asc", "never"), rejection("Unexpected null order: never"));
    assert_eq!(
        UnboundSortOrder::parse(&raw(&json!({"order-id": 3, "fields": []}))).map(|_| ()),
        rejection("Unsorted order ID must be 0")
    );
}

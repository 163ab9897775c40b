//! Tests of the validation of schemas, of fresh ids, and of the lookup of names.

use serde_json::json;

use super::super::testing::{columns, raw, schema};
use super::*;

fn refusal(json: Value) -> String {
    match Schema::parse(&raw(&json)) {
        Err(Refusal::Invalid(text)) => text,
        other => panic!("not invalid: {other:?}"),
    }
}

fn field(id: i32, name: &str, field_type: Value) -> Value {
    json!({"id": id, "name": name, "required": true, "type": field_type})
}

fn of(fields: Value) -> Value {
    json!({"type": "struct", "fields": fields})
}

#[test]
fn schema_json_round_trips() {
    let schema = schema(&columns());
    assert_eq!(serde_json::to_value(&schema).expect("JSON"), columns());
    assert_eq!(schema.highest_field_id(), 8);
}

#[test]
fn ids_and_full_names_are_unique() {
    assert_eq!(
        refusal(of(json!([field(1, "a", json!("int")), field(1, "b", json!("int"))]))),
        "Invalid schema: multiple fields for id 1: a and b"
    );
    assert_eq!(
        refusal(of(json!([field(1, "a", json!("int")), field(2, "a", json!("int"))]))),
        "Invalid schema: multiple fields for name a: 1 and 2"
    );
    let inner = of(json!([field(2, "b", json!("int"))]));
    assert_eq!(
        refusal(of(json!([field(1, "a", inner), field(3, "a.b", json!("int"))]))),
        "Invalid schema: multiple fields for name a.b: 2 and 3"
    );
}

#[test]
fn excessive_total_name_length_is_refused() {
    let long = "n".repeat(1 << 20);
    let inner: Vec<Value> = (2..100).map(|id| field(id, &id.to_string(), json!("int"))).collect();
    let text = refusal(of(json!([field(1, &long, of(json!(inner)))])));
    assert!(text.contains("full names of fields exceed"), "{text}");
}

#[test]
fn identifier_fields_are_required_primitives_outside_of_lists_and_maps() {
    let with = |id: i32, fields: Value| {
        let mut schema = of(fields);
        schema["identifier-field-ids"] = json!([id]);
        refusal(schema)
    };
    let optional = |id: i32, name: &str, field_type: Value| json!({"id": id, "name": name, "required": false, "type": field_type});
    let cannot = "as an identifier field:";
    assert_eq!(
        with(2, json!([field(1, "a", json!("int"))])),
        format!("Cannot add fieldId 2 {cannot} field does not exist")
    );
    assert_eq!(
        with(1, json!([field(1, "a", of(json!([])))])),
        format!("Cannot add field a {cannot} not a primitive type field")
    );
    assert_eq!(
        with(1, json!([field(1, "a", json!("variant"))])),
        format!("Cannot add field a {cannot} not a primitive type field")
    );
    assert_eq!(
        with(1, json!([optional(1, "a", json!("int"))])),
        format!("Cannot add field a {cannot} not a required field")
    );
    assert_eq!(
        with(1, json!([field(1, "a", json!("double"))])),
        format!("Cannot add field a {cannot} must not be float or double field")
    );
    let inner = of(json!([field(2, "b", json!("int"))]));
    assert_eq!(
        with(2, json!([optional(1, "a", inner)])),
        format!(
            "Cannot add field b {cannot} must not be nested in an optional field 1: a: optional \
             struct<2: b: required int>"
        )
    );
    let list = json!({"type": "list", "element-id": 2, "element": "int", "element-required": true});
    assert!(with(2, json!([field(1, "a", list)])).contains("must not be nested in 1: a:"));
}

#[test]
fn fresh_ids_number_struct_fields_before_nested_fields() {
    let map = json!({"type": "map", "key-id": 20, "key": of(json!([field(21, "k", json!("int"))])),
        "value-id": 22, "value-required": true, "value":
        {"type": "list", "element-id": 23, "element": "long", "element-required": true}});
    let mut old = of(json!([
        field(10, "m", map),
        field(11, "s", of(json!([field(30, "x", json!("int")), field(31, "y", json!("int"))]))),
        field(12, "last", json!("int")),
    ]));
    old["identifier-field-ids"] = json!([31, 12]);
    let (fresh, new_by_old) = schema(&old).with_fresh_ids(0).expect("fresh ids");
    for (old, new) in
        [(10, 1), (11, 2), (12, 3), (20, 4), (22, 5), (21, 6), (23, 7), (30, 8), (31, 9)]
    {
        assert_eq!(new_by_old.get(&old), Some(&new), "{old}");
    }
    assert_eq!(fresh.identifier_field_ids, [9, 3]);
    assert_eq!(fresh.highest_field_id(), 9);
}

#[test]
fn types_and_defaults_of_version_3_are_refused_before_it() {
    let new = of(json!([
        field(1, "v", json!("variant")),
        {"id": 2, "name": "d", "required": true, "type": "int", "initial-default": 5},
        field(3, "s", of(json!([field(4, "t", json!("timestamp_ns"))]))),
    ]));
    let new = schema(&new);
    assert_eq!(new.check_compatibility(3), Ok(()));
    assert_eq!(
        new.check_compatibility(2),
        Err(Refusal::invalid(
            "Invalid schema for v2:\n\
             - Invalid type for v: variant is not supported until v3\n\
             - Invalid initial default for d: non-null default (5) is not supported until v3\n\
             - Invalid type for s.t: timestamp_ns is not supported until v3"
        ))
    );
}

#[test]
fn short_names_leave_out_element_and_value_before_a_struct() {
    let list = json!({"type": "list", "element-id": 2, "element-required": true,
        "element": of(json!([field(3, "x", json!("int"))]))});
    let nested = schema(&of(json!([field(1, "points", list)])));
    let index = nested.index().expect("an index");
    assert_eq!(index.id_by_name("points.element.x"), Some(3));
    assert_eq!(index.id_by_name("points.x"), Some(3));
    assert_eq!(index.id_by_name("points.element"), Some(2));
    assert_eq!(index.id_by_name("x"), None);
}

#[test]
fn deep_nesting_is_refused_by_the_parser() {
    let mut json = "\"int\"".to_owned();
    for depth in 0..200 {
        json = format!(
            r#"{{"type":"list","element-id":{depth},"element-required":true,"element":{json}}}"#
        );
    }
    let raw = RawValue::from_string(json).expect("JSON");
    assert!(Schema::parse(&raw).is_err());
}

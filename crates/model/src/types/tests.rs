//! Tests of types and defaults: parsing, refusals and writing.

use serde_json::{Value, json};

use super::*;

fn parse(json: Value) -> Result<Type, Refusal> {
    Type::parse(&json)
}

#[test]
fn type_strings_parse_in_any_case_and_render_like_the_reference() {
    let table = [
        ("boolean", "boolean"),
        ("INT", "int"),
        ("long", "long"),
        ("float", "float"),
        ("double", "double"),
        ("decimal(9,2)", "decimal(9, 2)"),
        ("Decimal( 38 , 0 )", "decimal(38, 0)"),
        ("date", "date"),
        ("time", "time"),
        ("timestamp", "timestamp"),
        ("timestamptz", "timestamptz"),
        ("timestamp_ns", "timestamp_ns"),
        ("timestamptz_ns", "timestamptz_ns"),
        ("string", "string"),
        ("uuid", "uuid"),
        ("fixed[ 16 ]", "fixed[16]"),
        ("binary", "binary"),
        ("unknown", "unknown"),
        ("Variant", "variant"),
        ("geometry", "geometry"),
        ("geometry(OGC:CRS84)", "geometry"),
        ("Geometry ( srid:3857 )", "geometry(srid:3857)"),
        ("geography", "geography"),
        ("geography(srid:4326)", "geography(srid:4326)"),
        ("geography(ogc:crs84, Karney)", "geography(OGC:CRS84, karney)"),
        ("geography(srid:4326,vincenty)", "geography(srid:4326, vincenty)"),
    ];
    for (text, written) in table {
        let parsed = parse(json!(text)).unwrap_or_else(|refusal| panic!("{text}: {refusal}"));
        assert_eq!(parsed.to_string(), written);
        assert_eq!(parse(json!(written)), Ok(parsed), "{written} is read as it was written");
    }
}

#[test]
fn invalid_type_strings_are_refused() {
    for text in [
        "",
        "integer",
        "fixed",
        "fixed[]",
        "fixed[-1]",
        "fixed[99999999999]",
        "fixed[1",
        "decimal",
        "decimal(1)",
        "decimal(39,0)",
        "decimal(1,2,3)",
        "decimal(1.5,2)",
        "geometry()",
        "geometry(a)b",
        "geometryx",
        "geography(x,)",
        "geography(x,flat)",
        "geography( ,karney)",
        "geo\u{1F30D}",
        "void",
    ] {
        assert!(matches!(parse(json!(text)), Err(Refusal::Invalid(_))), "{text}");
    }
    for json in [json!(1), json!(null), json!([]), json!({}), json!({"type": "tuple"})] {
        assert!(matches!(parse(json.clone()), Err(Refusal::Invalid(_))), "{json}");
    }
}

#[test]
fn nested_types_are_written_with_the_members_of_the_specification() {
    let nested = json!({"type": "map", "key-id": 2, "key": "string", "value-id": 3,
        "value-required": false, "value": {"type": "list", "element-id": 4, "element-required": true,
        "element": {"type": "struct", "fields": [
            {"id": 5, "name": "v", "required": false, "type": "variant", "doc": "anything"}]}}});
    let parsed = parse(nested.clone()).expect("a valid type");
    assert_eq!(serde_json::to_value(&parsed).expect("JSON"), nested);
    assert_eq!(parsed.to_string(), "map<string, list<struct<5: v: optional variant (anything)>>>");
}

#[test]
fn a_field_of_unknown_type_must_be_optional() {
    let list = |required: bool| {
        parse(json!({"type": "list", "element-id": 1, "element": "unknown",
            "element-required": required}))
    };
    assert!(list(false).is_ok());
    assert_eq!(
        list(true),
        Err(Refusal::invalid("Cannot create required field with unknown type: element"))
    );
}

#[test]
fn defaults_must_fit_their_type() {
    let fits = [
        ("boolean", json!(true)),
        ("int", json!(-5)),
        ("long", json!(i64::MAX)),
        ("float", json!(1.5)),
        ("double", json!(0.0)),
        ("decimal(4, 2)", json!("-14.20")),
        ("decimal(3, 0)", json!("100")),
        ("date", json!("2024-02-29")),
        ("time", json!("22:31:08.123456")),
        ("timestamp", json!("2017-11-16T22:31:08")),
        ("timestamptz", json!("2017-11-16T22:31:08.000001+00:00")),
        ("timestamp_ns", json!("2017-11-16T22:31:08.123456789")),
        ("timestamptz_ns", json!("2017-11-16T22:31:08.123456789+00:00")),
        ("string", json!("")),
        ("uuid", json!("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
        ("fixed[2]", json!("00fF")),
        ("binary", json!("")),
    ];
    let unfit = [
        ("boolean", json!("true")),
        ("int", json!(2_147_483_648_i64)),
        ("long", json!(1.0)),
        ("float", json!(1)),
        ("decimal(4, 2)", json!("14.2")),
        ("decimal(4, 2)", json!("114.20")),
        ("decimal(4, 2)", json!("1e2")),
        ("date", json!("2023-02-29")),
        ("date", json!("2023-2-2")),
        ("time", json!("24:00:00")),
        ("time", json!("22:31:08.1234567")),
        ("timestamp", json!("2017-11-16T22:31:08+00:00")),
        ("timestamptz", json!("2017-11-16T22:31:08+01:00")),
        ("uuid", json!("f79c3e09677c4bbda4793f349cb785e7")),
        ("fixed[2]", json!("00")),
        ("binary", json!("0")),
        ("unknown", json!(1)),
        ("variant", json!({"a": 1})),
        ("geometry", json!("POINT (1 1)")),
    ];
    let field = |name: &str, value: &Value| {
        parse(json!({"type": "struct", "fields": [{"id": 1, "name": "c", "required": false,
            "type": name, "initial-default": value, "write-default": value}]}))
    };
    for (name, value) in fits {
        let parsed = field(name, &value).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        let written = serde_json::to_value(&parsed).expect("JSON");
        assert_eq!(written["fields"][0]["write-default"], value);
    }
    for (name, value) in unfit {
        assert!(field(name, &value).is_err(), "{name} {value}");
    }
}

//! Tests of expressions in both JSON forms: parsing, and binding to a schema.

use serde_json::{Value, json};

use super::super::testing::schema;
use super::Expression;
use crate::schema::Schema;

fn parse(json: &Value) -> Expression {
    Expression::parse(&json.to_string()).expect("it is an expression")
}

fn refusal(text: &str) -> String {
    Expression::parse(text).expect_err("it is not an expression").to_string()
}

/// Returns a schema with a column of every type. The id of a column is its position in the list.
fn types() -> Schema {
    let types = [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "decimal(9,2)",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "string",
        "uuid",
        "fixed[2]",
        "binary",
        "variant",
        "geometry",
        "unknown",
    ];
    let field = |(id, name): (usize, &&str)| json!({ "id": id, "name": format!("c{id}"), "required": false, "type": name });
    let mut fields: Vec<_> = types.iter().enumerate().map(field).collect();
    fields.push(json!({ "id": 100, "name": "s", "required": false, "type": { "type": "struct",
        "fields": [{ "id": 101, "name": "in", "required": false, "type": "int" }] } }));
    fields.push(json!({ "id": 110, "name": "l", "required": false, "type": { "type": "list",
        "element-id": 111, "element-required": true, "element": { "type": "struct",
        "fields": [{ "id": 112, "name": "x", "required": false, "type": "int" }] } } }));
    schema(&json!({ "type": "struct", "fields": fields }))
}

fn bind(expression: &Value) -> Result<Value, String> {
    let schema = types();
    parse(expression).bind(&schema.index().expect("an index"))
}

#[test]
fn both_forms_of_an_expression_parse_alike() {
    let name = json!({ "type": "reference", "name": "c" });
    let term = json!({ "type": "reference", "term": "c" });
    let literal = json!({ "type": "literal", "value": 7, "data-type": "int" });
    let set = json!({ "type": "literals", "values": [7, 8], "data-type": "int" });
    for (short, others) in [
        (
            json!({ "type": "is-null", "term": "c" }),
            vec![
                json!({ "type": "is-null", "child": name }),
                json!({ "type": "is-null", "term": term }),
            ],
        ),
        (
            json!({ "type": "lt", "term": "c", "value": 7 }),
            vec![
                json!({ "type": "lt", "left": name, "right": literal }),
                json!({ "type": "lt", "left": name, "right": 7 }),
                json!({ "type": "lt", "term": term, "value": literal }),
            ],
        ),
        (
            json!({ "type": "not-in", "term": "c", "values": [7, 8] }),
            vec![
                json!({ "type": "not-in", "child": name, "values": set }),
                json!({ "type": "not-in", "child": name, "values": [literal, 8] }),
            ],
        ),
        (json!(true), vec![json!({ "type": "true" })]),
        (json!(false), vec![json!({ "type": "false" })]),
    ] {
        let expression = parse(&short);
        assert_eq!(expression.to_json(), short);
        for other in others {
            assert_eq!(parse(&other), expression, "{other}");
        }
    }
}

#[test]
fn constant_expressions_are_simplified() {
    let some = json!({ "type": "is-null", "term": "c" });
    let not = |child: &Value| json!({ "type": "not", "child": child });
    let two = |word: &str, left: &Value, right: &Value| json!({ "type": word, "left": left, "right": right });
    for (whole, reduced) in [
        (two("and", &some, &json!(true)), some.clone()),
        (two("and", &json!(false), &some), json!(false)),
        (two("or", &json!(false), &some), some.clone()),
        (two("or", &some, &json!(true)), json!(true)),
        (not(&not(&some)), some.clone()),
        (not(&json!(true)), json!(false)),
        (two("or", &some, &not(&some)), two("or", &some, &not(&some))),
    ] {
        assert_eq!(parse(&whole).to_json(), reduced, "{whole}");
    }
}

#[test]
fn invalid_expressions_are_refused() {
    for (text, why) in [
        ("", "EOF"),
        ("region = 'EU'", "expected value"),
        ("7", "from a non-object: 7"),
        ("{}", "expected a type"),
        (r#"{"type":"like","term":"c","value":"x"}"#, "there is no expression of type like"),
        (r#"{"type":"eq","term":"c"}"#, "missing value"),
        (r#"{"type":"eq","term":"c","value":null}"#, "use is-null or not-null"),
        (r#"{"type":"eq","term":"c","value":[1]}"#, "expected a literal"),
        (r#"{"type":"eq","term":"c","value":1,"values":[2]}"#, "unexpected values"),
        (r#"{"type":"eq","term":"","value":1}"#, "is empty"),
        (
            r#"{"type":"eq","left":{"type":"reference","id":1},"right":1}"#,
            "by name here, not by id",
        ),
        (
            r#"{"type":"eq","term":{"type":"transform","transform":"day","term":"c"},"value":1}"#,
            "transforms",
        ),
        (r#"{"type":"in","term":"c","values":[]}"#, "1 to 1000 literals, not 0"),
        (r#"{"type":"in","term":"c","values":7}"#, "expected a list"),
        (r#"{"type":"starts-with","term":"c","value":1}"#, "expected a string"),
        (r#"{"type":"not","child":{"type":"is-null","term":"c"},"else":1}"#, "unexpected else"),
        (r#"{"type":"and","left":true}"#, "missing right"),
    ] {
        let refusal = refusal(text);
        assert!(refusal.contains(why), "{text}: {refusal}");
    }
}

#[test]
fn length_and_depth_are_bounded() {
    let mut deep = r#"{"type":"is-null","term":"c"}"#.to_owned();
    for _ in 0..31 {
        deep = format!(r#"{{"type":"and","left":{deep},"right":{{"type":"is-nan","term":"d"}}}}"#);
    }
    Expression::parse(&deep).expect("it has the maximum depth");
    assert!(refusal(&format!(r#"{{"type":"not","child":{deep}}}"#)).contains("at most 32 deep"));
    assert!(refusal(&" ".repeat(1 << 17)).contains("bytes"));
}

#[test]
fn literals_become_values_of_the_type_of_their_column() {
    for (column, literal, value) in [
        (0, json!(true), json!(true)),
        (1, json!(-7), json!(-7)),
        (2, json!(i64::MAX), json!(i64::MAX)),
        (3, json!(1), json!(1.0)),
        (4, json!(0.1), json!(0.1)),
        (5, json!("12.5"), json!("12.50")),
        (5, json!("12"), json!("12.00")),
        (6, json!("2024-02-29"), json!("2024-02-29")),
        (7, json!("10:15:30"), json!("10:15:30")),
        (8, json!("2024-02-29T10:15:30.5"), json!("2024-02-29T10:15:30.5")),
        (9, json!("2024-02-29T10:15:30Z"), json!("2024-02-29T10:15:30+00:00")),
        (10, json!("2024-02-29T10:15:30.123456789"), json!("2024-02-29T10:15:30.123456789")),
        (11, json!("2024-02-29T10:15:30+00:00"), json!("2024-02-29T10:15:30+00:00")),
        (12, json!("x"), json!("x")),
        (
            13,
            json!("F79C3E09-677C-4BBD-A479-3F349CB785E7"),
            json!("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ),
        (14, json!("00ff"), json!("00ff")),
        (15, json!("00ff01"), json!("00ff01")),
    ] {
        let bound = bind(&json!({ "type": "eq", "term": format!("c{column}"), "value": literal }));
        let expected = json!({
            "type": "eq",
            "left": { "type": "reference", "id": column },
            "right": { "type": "literal", "value": value },
        });
        assert_eq!(bound, Ok(expected));
    }
}

#[test]
fn a_literal_of_another_type_cannot_be_bound() {
    for (column, literal) in [
        ("c0", json!("true")),
        ("c1", json!(1_i64 << 40)),
        ("c1", json!(1.5)),
        ("c2", json!("1")),
        ("c3", json!(1e300)),
        ("c4", json!((1_i64 << 53) + 1)),
        ("c4", json!("1.0")),
        ("c5", json!("1.234")),
        ("c5", json!("12345678.00")),
        ("c5", json!(1.5)),
        ("c6", json!("2023-02-29")),
        ("c8", json!("2024-02-29T10:15:30Z")),
        ("c9", json!("2024-02-29T10:15:30+01:00")),
        ("c12", json!(7)),
        ("c13", json!("f79c3e09")),
        ("c14", json!("00ff01")),
        ("c15", json!("0")),
        ("c16", json!("x")),
        ("c17", json!("x")),
        ("c18", json!("x")),
        ("s", json!("x")),
        ("l.x", json!(1)),
        ("l.element.x", json!(1)),
        ("C1", json!(1)),
        ("nothing", json!(1)),
    ] {
        let one = json!({ "type": "eq", "term": column, "value": literal });
        bind(&one).expect_err("it is of another type");
        let set = json!({ "type": "in", "term": column, "values": [literal] });
        bind(&set).expect_err("it is of another type");
        // If one operand cannot be bound, the whole expression cannot be bound.
        let known = json!({ "type": "not-null", "term": "c1" });
        bind(&json!({ "type": "or", "left": known, "right": one })).expect_err("one operand fails");
    }
}

#[test]
fn tests_bind_only_to_columns_they_apply_to() {
    for (column, id) in [("c12", 12), ("s", 100), ("s.in", 101), ("l", 110), ("c16", 16)] {
        let bound = bind(&json!({ "type": "not-null", "term": column }));
        let child = json!({ "type": "reference", "id": id });
        assert_eq!(bound, Ok(json!({ "type": "not-null", "child": child })));
    }
    bind(&json!({ "type": "is-nan", "term": "c3" })).expect("a float may be NaN");
    bind(&json!({ "type": "not-nan", "term": "c4" })).expect("a double may be NaN");
    bind(&json!({ "type": "is-nan", "term": "c1" })).expect_err("an int cannot be NaN");
    bind(&json!({ "type": "starts-with", "term": "c12", "value": "x" })).expect("a text");
    bind(&json!({ "type": "not-starts-with", "term": "c15", "value": "00" })).expect_err("no text");
    let set = bind(&json!({ "type": "in", "term": "c3", "values": [1, 2.5] }));
    let child = json!({ "type": "reference", "id": 3 });
    assert_eq!(set, Ok(json!({ "type": "in", "child": child, "values": [1.0, 2.5] })));
}

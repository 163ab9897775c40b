//! Filters of requests: both grammars, binding, limits and the JSON of residuals.

use serde_json::{Value, json};

use super::{columns, compare, filter, parse};
use crate::expression::{Expression, FilterLimits};
use crate::scan::{ScanError, ScanFilter};

fn validation_error(json: &Value) -> String {
    match parse(json) {
        Err(ScanError::Validation(message)) => message,
        other => panic!("{json} is no validation error: {other:?}"),
    }
}

fn argument_error(text: &str) -> String {
    match ScanFilter::parse(text, &FilterLimits::default(), columns(), true) {
        Err(ScanError::IllegalArgument(message)) => message,
        other => panic!("{text} is no argument error: {other:?}"),
    }
}

#[test]
fn both_grammars_bind_to_the_same_filter() {
    let name = json!({"type": "reference", "name": "i"});
    let bucket = |term: Value| {
        json!({"type": "apply", "function": {"catalog": "iceberg_functions", "identifier": ["bucket"]},
            "arguments": [16, term]})
    };
    let old_bucket = json!({"type": "transform", "transform": "bucket[16]", "term": "i"});
    for (old, others) in [
        (json!(true), vec![json!({"type": "true"}), json!({"type": "literal", "value": true})]),
        (json!(false), vec![json!({"type": "false"}), json!({"type": "literal", "value": false})]),
        (
            compare("lt", "i", json!(7)),
            vec![
                json!({"type": "lt", "left": name, "right": 7}),
                json!({"type": "lt", "left": name, "right": {"type": "literal", "value": 7, "data-type": "int"}}),
                json!({"type": "lt", "left": {"type": "reference", "id": 1}, "right": 7}),
                json!({"type": "gt", "left": 7, "right": name}),
                json!({"type": "lt", "term": {"type": "reference", "term": "i"}, "value": 7, "other": 1}),
            ],
        ),
        (
            json!({"type": "not-in", "term": "i", "values": [7, 8]}),
            vec![
                json!({"type": "not-in", "child": name, "values": {"type": "literals", "values": [7, 8]}}),
                json!({"type": "not", "child": {"type": "in", "child": name, "values": [7, 8]}}),
            ],
        ),
        (
            json!({"type": "eq", "term": old_bucket, "value": 3}),
            vec![
                json!({"type": "eq", "left": bucket(name.clone()), "right": 3}),
                json!({"type": "eq", "term": {"type": "transform", "transform": "bucket[16]",
                    "term": {"type": "reference", "term": "i"}}, "value": 3}),
            ],
        ),
        (
            json!({"type": "is-null", "term": "i"}),
            vec![
                json!({"type": "is-null", "child": name}),
                json!({"type": "not", "child": {"type": "not-null", "child": name}}),
            ],
        ),
    ] {
        assert_eq!(filter(&old).to_json(), old);
        for other in others {
            assert_eq!(filter(&other).to_json(), old, "{other}");
        }
    }
}

#[test]
fn residual_has_the_literals_of_the_client() {
    for json in [
        compare("eq", "day", json!(19_000)),
        compare("eq", "day", json!("2022-01-08")),
        compare("gt-eq", "ts", json!(1_700_000_000_000_000_i64)),
        compare("eq", "b", json!("0aFF")),
        compare("lt", "i", json!(3_000_000_000_i64)),
        compare("starts-with", "s", json!("a")),
        json!({"type": "and", "left": compare("eq", "place.x", json!(1)),
            "right": {"type": "or", "left": {"type": "is-nan", "term": "d"}, "right": compare("eq", "l", json!(2))}}),
        json!({"type": "in", "term": "i", "values": [3, 1, 2, 1]}),
    ] {
        assert_eq!(filter(&json).to_json(), json);
    }
}

#[test]
fn negations_become_part_of_the_predicates() {
    let not = |child: Value| json!({"type": "not", "child": child});
    let two =
        |kind: &str, left: Value, right: Value| json!({"type": kind, "left": left, "right": right});
    let (a, b) = (compare("lt", "i", json!(1)), compare("starts-with", "s", json!("x")));
    let (not_a, not_b) =
        (compare("gt-eq", "i", json!(1)), compare("not-starts-with", "s", json!("x")));
    for (whole, expected) in [
        (not(two("and", a.clone(), b.clone())), two("or", not_a.clone(), not_b.clone())),
        (not(two("or", a.clone(), not(b.clone()))), two("and", not_a, b)),
        (not(not(a.clone())), a),
        (not(json!({"type": "is-nan", "term": "d"})), json!({"type": "not-nan", "term": "d"})),
    ] {
        assert_eq!(filter(&whole).to_json(), expected);
    }
}

#[test]
fn predicates_that_are_constant_are_simplified() {
    for (json, expected) in [
        (json!({"type": "in", "term": "i", "values": []}), json!(false)),
        (json!({"type": "not-in", "term": "i", "values": []}), json!(true)),
        (compare("eq", "i", json!(3_000_000_000_i64)), json!(false)),
        (compare("gt", "i", json!(3_000_000_000_i64)), json!(false)),
        (compare("lt-eq", "i", json!(-3_000_000_000_i64)), json!(false)),
        (compare("not-eq", "i", json!(3_000_000_000_i64)), json!(true)),
        (compare("eq", "i", json!(1.5)), json!(false)),
        (compare("lt", "id", json!(u64::MAX)), json!(true)),
        (json!({"type": "in", "term": "i", "values": [3_000_000_000_i64]}), json!(false)),
        (json!({"type": "is-null", "term": "id"}), json!(false)),
        (json!({"type": "not-null", "term": "id"}), json!(true)),
    ] {
        let bound = filter(&json);
        assert_eq!(bound.to_json(), expected, "{json}");
        assert_eq!(bound.is_always_true(), expected == json!(true));
        assert_eq!(bound.is_always_false(), expected == json!(false));
    }
    // A required field is null if its optional struct is null.
    let nested = json!({"type": "is-null", "term": "place.x"});
    assert_eq!(filter(&nested).to_json(), nested);
}

#[test]
fn filters_that_do_not_fit_the_schema_are_validation_errors() {
    let transform = |transform: &str, term: &str| json!({"type": "eq", "term": {"type": "transform", "transform": transform, "term": term}, "value": 1});
    for (json, message) in [
        (
            compare("eq", "x", json!(1)),
            "Cannot find field 'x' in struct: struct<1: i: optional int, ",
        ),
        (compare("eq", "I", json!(1)), "Cannot find field 'I' in struct"),
        (
            json!({"type": "eq", "left": {"type": "reference", "id": 99}, "right": 1}),
            "Cannot find field '99'",
        ),
        (compare("eq", "l", json!("x")), "Invalid value for conversion to type long: \"x\""),
        (compare("eq", "place", json!(1)), "Invalid value for conversion to type (not primitive)"),
        (json!({"type": "in", "term": "s", "values": ["x", 1]}), "conversion to type string: 1"),
        (
            json!({"type": "is-nan", "term": "i"}),
            "IsNaN cannot be used with a non-floating-point column",
        ),
        (json!({"type": "not-nan", "term": "s"}), "NotNaN cannot be used"),
        (compare("starts-with", "i", json!("1")), "must produce a string"),
        (compare("not-starts-with", "b", json!("01")), "must produce a string"),
        (transform("day", "i"), "day cannot transform values of column i"),
        (transform("bucket[4]", "d"), "bucket[4] cannot transform"),
    ] {
        let error = validation_error(&json);
        assert!(error.contains(message), "{json}: {error}");
    }
}

#[test]
fn malformed_filters_are_argument_errors() {
    for (text, message) in [
        ("null", "non-object: null"),
        ("", "EOF"),
        ("7", "non-object"),
        ("{}", "expected a type"),
        (r#"{"type":"like","term":"i","value":1}"#, "no expression of type like"),
        (r#"{"type":"eq","term":"i"}"#, "missing value"),
        (r#"{"type":"eq","term":"i","value":null}"#, "cannot be compared with null"),
        (r#"{"type":"in","term":"i","values":[null]}"#, "cannot be compared with null"),
        (r#"{"type":"in","term":"i","values":1}"#, "expected a list"),
        (r#"{"type":"eq","term":5,"value":1}"#, "expected a column, got 5"),
        (r#"{"type":"eq","term":{"type":"reference"},"value":1}"#, "expected a column"),
        (
            r#"{"type":"eq","term":{"type":"transform","transform":"bucket[0]","term":"i"},"value":1}"#,
            "expected a column",
        ),
        (r#"{"type":"literal","value":1}"#, "expected true or false"),
        (r#"{"type":"and","left":true}"#, "missing right"),
    ] {
        let error = argument_error(text);
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn limits_of_length_depth_and_literals_are_enforced() {
    let limits = FilterLimits { bytes_max: 5000, depth_max: 4, literals_max: 10 };
    let parse = |json: &Value| ScanFilter::parse(&json.to_string(), &limits, columns(), true);
    let nested = |depth: usize| {
        let leaf = json!({"type": "is-null", "term": "i"});
        (1..depth).fold(leaf, |inner, _| json!({"type": "not", "child": inner}))
    };
    parse(&nested(4)).expect("it has the maximum depth");
    let error = parse(&nested(5)).expect_err("it is too deep").to_string();
    assert!(error.contains("nested at most 4 deep"), "{error}");

    let set = |count: usize| json!({"type": "in", "term": "i", "values": vec![1; count]});
    let both = |one, other| json!({"type": "or", "left": set(one), "right": set(other)});
    parse(&both(5, 5)).expect("it has the maximum number of literals");
    let error = parse(&both(5, 6)).expect_err("it has too many").to_string();
    assert!(error.contains("at most 10 literals"), "{error}");

    let long = compare("eq", "s", json!("x".repeat(5000)));
    let error = parse(&long).expect_err("it is too long").to_string();
    assert!(error.contains("at most 5000 bytes"), "{error}");

    let deep = format!("{}true{}", r#"{"type":"not","child":"#.repeat(64), "}".repeat(64));
    assert!(argument_error(&deep).contains("nested at most 64 deep"));
}

#[test]
fn case_of_names_is_ignored_on_request() {
    let parse = |term: &str| {
        let json = compare("eq", term, json!("x")).to_string();
        ScanFilter::parse(&json, &FilterLimits::default(), columns(), false)
    };
    for (term, id) in [("S", 6), ("PLACE.y", 22), ("s", 6)] {
        let bound = parse(term).expect("it is found");
        assert_eq!(bound.field_ids().into_iter().collect::<Vec<_>>(), [id]);
        assert_eq!(bound.to_json()["term"], json!(term), "clients find it again");
    }
    let error = parse("Id2").expect_err("two columns have this name").to_string();
    assert!(error.contains("Cannot find field 'Id2': several fields"), "{error}");
    parse("nothing").expect_err("there is no such column");
}

#[test]
fn predicates_that_only_the_client_evaluates_are_kept_and_prune_nothing() {
    let unknown = json!({"type": "apply", "function": "soundex", "arguments": [{"type": "reference", "name": "s"}]});
    for json in [
        unknown.clone(),
        json!({"type": "eq", "left": unknown, "right": "x"}),
        json!({"type": "eq", "left": {"type": "reference", "name": "i"}, "right": {"type": "reference", "name": "l"}}),
        json!({"type": "is-null", "child": unknown}),
        json!({"type": "in", "child": unknown, "values": [1]}),
        compare("eq", "tags.element", json!("x")),
        json!({"type": "eq", "term": {"type": "transform", "transform": "zorder", "term": "i"}, "value": "x"}),
    ] {
        let bound = filter(&json);
        assert_eq!(bound.to_json(), json);
        assert!(bound.field_ids().is_empty(), "{json}");
        let file = super::TestFile { records: 1, ..super::TestFile::default() };
        assert!(bound.may_match(&file), "{json}");
        assert!(!bound.all_match(&file), "{json}");
        let negated = json!({"type": "not", "child": json});
        assert!(filter(&negated).may_match(&file), "{negated}");
    }
    let negated = json!({"type": "not", "child": unknown});
    assert_eq!(filter(&negated).to_json(), negated);
}

#[test]
fn row_filter_of_a_policy_binds_like_a_filter() {
    let json = json!({"type": "and", "left": compare("eq", "s", json!("EU")), "right": compare("lt", "i", json!(3))});
    let policy = Expression::parse(&json.to_string()).expect("a row filter");
    let bound = ScanFilter::bind(&policy, columns(), true).expect("it fits");
    assert_eq!(bound, filter(&json));
    let both = bound.and(filter(&json!({"type": "is-null", "term": "l"})));
    assert_eq!(both.to_json()["type"], "and");
    assert_eq!(ScanFilter::all_rows().and(filter(&json!(false))), filter(&json!(false)));
}

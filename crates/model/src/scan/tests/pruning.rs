//! Examples of pruned files, and of files that are proven to match. These examples are necessary,
//! because the property tests of the module `soundness` would also pass if nothing were pruned.

use serde_json::{Value, json};

use super::{TestFile, columns, compare, filter};
use crate::value::Datum;
use crate::value::literal::Literal;

fn datum(column: i32, json: &Value) -> Datum {
    let primitive = columns().primitive_type(column).expect("a primitive column");
    match Literal::parse(&primitive, json) {
        Some(Literal::Value(datum)) => datum,
        other => panic!("{json} is no value of column {column}: {other:?}"),
    }
}

/// A file whose column has these bounds and no null.
fn file(column: i32, lower: Value, upper: Value) -> TestFile {
    TestFile::of_column(column, 0, Some((datum(column, &lower), datum(column, &upper))))
}

fn set(kind: &str, term: &str, values: Value) -> Value {
    json!({"type": kind, "term": term, "values": values})
}

/// Asserts the results of the inclusive and the strict evaluation of a filter on a file.
#[track_caller]
fn assert_pruning(json: &Value, file: &TestFile, may_match: bool, all_match: bool) {
    let bound = filter(json);
    assert_eq!(bound.may_match(file), may_match, "may match: {json}");
    assert_eq!(bound.all_match(file), all_match, "all match: {json}");
}

#[test]
fn bounds_prune_and_prove_comparisons() {
    let file = file(1, json!(10), json!(20));
    for (kind, value, may_match, all_match) in [
        ("lt", 10, false, false),
        ("lt", 11, true, false),
        ("lt", 20, true, false),
        ("lt", 21, true, true),
        ("lt-eq", 9, false, false),
        ("lt-eq", 10, true, false),
        ("lt-eq", 20, true, true),
        ("gt", 20, false, false),
        ("gt", 19, true, false),
        ("gt", 9, true, true),
        ("gt-eq", 21, false, false),
        ("gt-eq", 20, true, false),
        ("gt-eq", 10, true, true),
        ("eq", 9, false, false),
        ("eq", 15, true, false),
        ("eq", 21, false, false),
        ("not-eq", 9, true, true),
        ("not-eq", 15, true, false),
    ] {
        assert_pruning(&compare(kind, "i", json!(value)), &file, may_match, all_match);
    }
    for (kind, values, may_match, all_match) in [
        ("in", json!([1, 9, 21]), false, false),
        ("in", json!([1, 12, 21]), true, false),
        ("not-in", json!([1, 9, 21]), true, true),
        ("not-in", json!([1, 12, 21]), true, false),
    ] {
        assert_pruning(&set(kind, "i", values), &file, may_match, all_match);
    }
}

#[test]
fn equal_bounds_prune_and_prove_equality() {
    let file = file(1, json!(10), json!(10));
    assert_pruning(&compare("eq", "i", json!(10)), &file, true, true);
    assert_pruning(&compare("not-eq", "i", json!(10)), &file, false, false);
    assert_pruning(&set("in", "i", json!([9, 10])), &file, true, true);
    assert_pruning(&set("not-in", "i", json!([9, 10])), &file, false, false);
    let with_null = TestFile { nulls: [(1, 1)].into(), ..file };
    assert_pruning(&compare("eq", "i", json!(10)), &with_null, true, false);
    assert_pruning(&compare("not-eq", "i", json!(10)), &with_null, true, false);
}

#[test]
fn bounds_of_strings_prune_and_prove_prefixes() {
    let file = file(6, json!("abc"), json!("abf"));
    for (prefix, may_match, all_match) in [
        ("ab", true, true),
        ("abc", true, false),
        ("abd", true, false),
        ("abcd", true, false),
        ("abff", false, false),
        ("aa", false, false),
        ("b", false, false),
    ] {
        assert_pruning(&compare("starts-with", "s", json!(prefix)), &file, may_match, all_match);
        let negated = compare("not-starts-with", "s", json!(prefix));
        assert_pruning(&negated, &file, !all_match, !may_match);
    }
    // Null starts with no prefix.
    let with_null = TestFile { nulls: [(6, 1)].into(), ..file.clone() };
    assert_pruning(&compare("starts-with", "s", json!("ab")), &with_null, true, false);
    assert_pruning(&compare("not-starts-with", "s", json!("ab")), &with_null, true, false);
    let unbounded = TestFile { upper: [].into(), ..file };
    assert_pruning(&compare("starts-with", "s", json!("b")), &unbounded, true, false);
    assert_pruning(&compare("starts-with", "s", json!("aa")), &unbounded, false, false);
}

#[test]
fn counts_prune_and_prove_tests_of_null_and_nan() {
    let is = |kind: &str, term: &str| json!({"type": kind, "term": term});
    for (nulls, is_null, not_null) in [
        (0, (false, false), (true, true)),
        (4, (true, false), (true, false)),
        (10, (true, true), (false, false)),
    ] {
        let file = TestFile::of_column(1, nulls, None);
        assert_pruning(&is("is-null", "i"), &file, is_null.0, is_null.1);
        assert_pruning(&is("not-null", "i"), &file, not_null.0, not_null.1);
    }
    for (nans, is_nan, not_nan) in [
        (0, (false, false), (true, true)),
        (4, (true, false), (true, false)),
        (10, (true, true), (false, false)),
    ] {
        let file = TestFile::of_column(4, 0, None).with_nans(4, nans);
        assert_pruning(&is("is-nan", "d"), &file, is_nan.0, is_nan.1);
        assert_pruning(&is("not-nan", "d"), &file, not_nan.0, not_nan.1);
    }
    let nulls_and_nans = TestFile::of_column(4, 4, None).with_nans(4, 6);
    // Engines that order NaN after all numbers find rows with `gt`.
    for comparison in ["lt", "gt", "not-eq"] {
        assert_pruning(&compare(comparison, "d", json!(1.0)), &nulls_and_nans, true, false);
    }
}

#[test]
fn missing_statistics_prune_and_prove_nothing() {
    let unknown = TestFile { records: 10, ..TestFile::default() };
    for json in [
        compare("lt", "i", json!(1)),
        compare("not-eq", "i", json!(1)),
        set("in", "i", json!([1])),
        json!({"type": "is-null", "term": "i"}),
        json!({"type": "not-null", "term": "i"}),
        compare("starts-with", "s", json!("a")),
    ] {
        assert_pruning(&json, &unknown, true, false);
    }
    let empty = TestFile::default();
    assert_pruning(&json!({"type": "is-null", "term": "i"}), &empty, false, true);
    let uncounted = TestFile { records: -1, ..file(1, json!(1), json!(1)) };
    assert_pruning(&compare("eq", "i", json!(1)), &uncounted, true, false);
    assert_pruning(&json!(true), &uncounted, true, true);
}

#[test]
fn nulls_of_nested_columns_count_only_if_all_rows_are_counted() {
    let null = json!({"type": "is-null", "term": "place.x"});
    let counted = file(21, json!(1), json!(2));
    assert_pruning(&null, &counted, false, false);
    // The writer did not count the rows whose struct is null.
    let uncounted = TestFile { values: [(21, 7)].into(), ..counted };
    assert_pruning(&null, &uncounted, true, false);
    assert_pruning(&compare("gt", "place.x", json!(0)), &uncounted, true, false);
}

#[test]
fn bounds_of_columns_prune_transforms_that_preserve_order() {
    let file = file(9, json!("2024-03-01T10:00:00"), json!("2024-03-02T09:00:00"));
    let day = |kind: &str, value: &str| json!({"type": kind, "term": {"type": "transform", "transform": "day", "term": "ts"}, "value": value});
    assert_pruning(&day("eq", "2024-03-01"), &file, true, false);
    assert_pruning(&day("eq", "2024-02-29"), &file, false, false);
    assert_pruning(&day("gt-eq", "2024-03-01"), &file, true, true);
    let bucket = json!({"type": "eq", "value": 1,
        "term": {"type": "transform", "transform": "bucket[4]", "term": "ts"}});
    assert_pruning(&bucket, &file, true, false);
}

#[test]
fn simplified_filter_has_no_predicate_that_statistics_decide() {
    let file = file(1, json!(10), json!(20));
    let open = compare("lt", "i", json!(15));
    let both = |left: Value, right: &Value| json!({"type": "and", "left": left, "right": right});
    let simplify = |json: &Value| filter(json).simplify(&file).to_json();
    assert_eq!(simplify(&both(compare("gt", "i", json!(9)), &open)), open);
    assert_eq!(simplify(&both(compare("gt", "i", json!(20)), &open)), json!(false));
    assert_eq!(simplify(&compare("gt", "i", json!(9))), json!(true));
}

//! Examples of pruned files, and of files that are proven to match. These examples are necessary,
//! because the property tests of the module `soundness` would also pass if nothing were pruned.

use serde_json::{Value, json};

use super::{TestFile, columns, compare, filter};
use crate::scan::FileResidual;
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

/// Returns the part of a filter that a client has to evaluate. `None` if no row matches.
fn residual(json: &Value, file: &TestFile) -> Option<Value> {
    let residual = FileResidual::new(filter(json));
    residual.unproven(file).map(|unproven| residual.filter(unproven).to_json())
}

#[test]
fn residual_has_no_conjunct_that_statistics_prove() {
    let file = file(1, json!(10), json!(20));
    let two = |kind: &str, left: &Value, right: &Value| json!({"type": kind, "left": left, "right": right});
    let (proven, open) = (compare("gt", "i", json!(9)), compare("lt", "i", json!(15)));
    let never = compare("gt", "i", json!(20));
    let both = two("and", &proven, &open);
    assert_eq!(residual(&proven, &file), Some(json!(true)));
    assert_eq!(residual(&open, &file), Some(open.clone()));
    assert_eq!(residual(&both, &file), Some(open.clone()));
    assert_eq!(residual(&two("and", &never, &open), &file), None);
    // A disjunction is proven as a whole, or not at all.
    assert_eq!(residual(&two("or", &open, &proven), &file), Some(json!(true)));
    let either = two("or", &open, &never);
    assert_eq!(residual(&either, &file), Some(either.clone()));
    assert_eq!(residual(&two("and", &either, &both), &file), Some(two("and", &either, &open)));
    let whole = two("and", &either, &two("and", &open, &open));
    assert_eq!(residual(&whole, &file), Some(whole));
}

#[test]
fn residual_is_complete_without_statistics_of_all_rows() {
    let range = file(1, json!(10), json!(20));
    let comparison = compare("gt", "i", json!(9));
    let nulls = TestFile { nulls: [(1, 1)].into(), ..range.clone() };
    let uncounted_nulls = TestFile { nulls: [].into(), ..range.clone() };
    let unbounded = TestFile { lower: [].into(), ..range.clone() };
    // A column that was added after the file was written has no statistics.
    let missing = TestFile::of_column(2, 0, None);
    let uncounted = TestFile { records: -1, ..range };
    for file in [nulls, uncounted_nulls, unbounded, missing, uncounted] {
        assert_eq!(residual(&comparison, &file), Some(comparison.clone()), "{file:?}");
    }
    let floats = file(4, json!(10.0), json!(20.0));
    let comparison = compare("gt", "d", json!(9.0));
    let not_nan = TestFile { nans: [(4, 0)].into(), ..floats.clone() };
    let nan = TestFile { nans: [(4, 1)].into(), ..floats.clone() };
    assert_eq!(residual(&comparison, &not_nan), Some(json!(true)));
    for file in [nan, TestFile { nans: [].into(), ..floats }] {
        assert_eq!(residual(&comparison, &file), Some(comparison.clone()), "{file:?}");
    }
    // The bounds of a string are shorter than its values.
    let names = file(6, json!("ab"), json!("ac"));
    assert_eq!(residual(&compare("gt-eq", "s", json!("ab")), &names), Some(json!(true)));
    let equal = compare("eq", "s", json!("ab"));
    assert_eq!(residual(&equal, &names), Some(equal));
}

#[test]
fn residual_has_the_values_of_a_set_that_the_file_may_contain() {
    let file = file(1, json!(10), json!(20));
    let narrowed = |json: &Value| {
        let residual = FileResidual::new(filter(json));
        let unproven = residual.unproven(&file).expect("rows match");
        residual.narrowed(unproven, &file).map(|narrowed| narrowed.to_json())
    };
    let values = json!([40, 20, 30, 10, 9, 10, 21]);
    assert_eq!(narrowed(&set("in", "i", values.clone())), Some(set("in", "i", json!([10, 20]))));
    let open = compare("lt", "i", json!(15));
    let both = |set: Value| json!({"type": "and", "left": open, "right": set});
    let shorter = both(set("in", "i", json!([10, 20])));
    assert_eq!(narrowed(&both(set("in", "i", values.clone()))), Some(shorter));
    // The server renders a residual of its own only if the set becomes much shorter.
    assert_eq!(narrowed(&set("in", "i", json!([10, 20, 30]))), None);
    assert_eq!(narrowed(&set("not-in", "i", values)), None);
    assert_eq!(narrowed(&open), None);
}

/// Returns the conjunction of `i < value` for these values. It is nested as little as possible.
fn conjunction(values: &[i32]) -> Value {
    match values {
        [value] => compare("lt", "i", json!(value)),
        _ => {
            let (left, right) = values.split_at(values.len() / 2);
            json!({"type": "and", "left": conjunction(left), "right": conjunction(right)})
        }
    }
}

#[test]
fn conjuncts_above_the_maximum_are_proven_in_groups() {
    let file = file(1, json!(10), json!(20));
    let mut values = [30; 1024];
    assert_eq!(residual(&conjunction(&values), &file), Some(json!(true)));
    (values[2], values[1000]) = (15, 16);
    let kept = residual(&conjunction(&values), &file).expect("rows match").to_string();
    assert_eq!((kept.matches("15").count(), kept.matches("16").count()), (1, 1));
    assert!(kept.matches("30").count() < 1022, "{kept}");
    let open = conjunction(&[15; 100]);
    assert_eq!(residual(&open, &file), Some(open), "all conjuncts stay as they are");
    let mut few = [15; 40];
    few[7] = 30;
    let kept = residual(&conjunction(&few), &file).expect("rows match").to_string();
    assert_eq!((kept.matches("15").count(), kept.matches("30").count()), (39, 0));
}

//! Examples of pruned partitions and manifests, and of residuals.

use serde_json::{Value, json};

use super::{columns, compare, filter, manifest, spec};
use crate::manifest_file::{FieldSummary, ManifestFile};
use crate::scan::BoundSpec;
use crate::transform::Transform;
use crate::value::Datum;

/// Returns the results of the inclusive and strict evaluation of a partition, and the residual.
fn evaluate(json: &Value, spec: &BoundSpec, partition: &[Option<Datum>]) -> (bool, bool, Value) {
    let projected = filter(json).for_spec(spec);
    let (may, all) =
        (projected.may_match_partition(partition), projected.all_match_partition(partition));
    (may, all, projected.residual(partition).to_json())
}

#[test]
fn partition_values_decide_or_leave_a_residual() {
    let number = |value| Some(Datum::Integer(value));
    let text = |value| Some(Datum::string(value));
    let bucket_of_7 = Transform::Bucket(16)
        .apply(&columns().primitive_type(1).expect("a type"), &Datum::Integer(7));
    for (column, transform, value, json, expected) in [
        (
            6,
            Transform::Identity,
            text("a"),
            compare("starts-with", "s", json!("ab")),
            (false, false),
        ),
        (
            6,
            Transform::Identity,
            text("a"),
            compare("not-starts-with", "s", json!("ab")),
            (true, true),
        ),
        (
            6,
            Transform::Truncate(2),
            text("a"),
            compare("starts-with", "s", json!("ab")),
            (false, false),
        ),
        (6, Transform::Identity, text("a"), compare("eq", "s", json!("a")), (true, true)),
        (6, Transform::Identity, text("a"), compare("eq", "s", json!("b")), (false, false)),
        (6, Transform::Identity, None, compare("eq", "s", json!("b")), (false, false)),
        (6, Transform::Identity, None, compare("not-eq", "s", json!("b")), (true, true)),
        (
            1,
            Transform::Bucket(16),
            bucket_of_7.clone(),
            compare("eq", "i", json!(7)),
            (true, false),
        ),
        (1, Transform::Bucket(16), number(99), compare("eq", "i", json!(7)), (false, false)),
        (1, Transform::Bucket(16), number(99), compare("not-eq", "i", json!(7)), (true, true)),
        (1, Transform::Bucket(16), bucket_of_7, compare("lt", "i", json!(7)), (true, false)),
        (1, Transform::Truncate(10), number(10), compare("lt", "i", json!(10)), (false, false)),
        (1, Transform::Truncate(10), number(10), compare("lt", "i", json!(11)), (true, false)),
        (1, Transform::Truncate(10), number(10), compare("lt", "i", json!(20)), (true, true)),
        (1, Transform::Truncate(10), number(10), compare("lt-eq", "i", json!(19)), (true, true)),
        (1, Transform::Truncate(10), number(10), compare("gt-eq", "i", json!(10)), (true, true)),
        (1, Transform::Truncate(10), number(10), compare("gt", "i", json!(19)), (false, false)),
        (
            6,
            Transform::Truncate(2),
            text("ab"),
            compare("starts-with", "s", json!("a")),
            (true, true),
        ),
        (
            6,
            Transform::Truncate(2),
            text("ab"),
            compare("starts-with", "s", json!("abc")),
            (true, false),
        ),
        (
            6,
            Transform::Truncate(2),
            text("ab"),
            compare("starts-with", "s", json!("acc")),
            (false, false),
        ),
        (
            6,
            Transform::Truncate(2),
            text("ab"),
            compare("not-starts-with", "s", json!("acc")),
            (true, true),
        ),
        (
            6,
            Transform::Truncate(2),
            text("ab"),
            compare("not-starts-with", "s", json!("abc")),
            (true, false),
        ),
        (
            9,
            Transform::Day,
            number(1),
            compare("lt", "ts", json!("1970-01-02T00:00:00")),
            (false, false),
        ),
        (
            9,
            Transform::Day,
            number(1),
            compare("lt", "ts", json!("1970-01-03T00:00:00")),
            (true, true),
        ),
        (
            9,
            Transform::Day,
            number(1),
            compare("gt-eq", "ts", json!("1970-01-02T00:00:00")),
            (true, true),
        ),
        (
            9,
            Transform::Day,
            number(1),
            compare("gt", "ts", json!("1970-01-02T12:00:00")),
            (true, false),
        ),
        (8, Transform::Month, number(1), compare("eq", "day", json!("1970-03-01")), (false, false)),
        // Old writers also write this partition value for the last day of 1969.
        (
            9,
            Transform::Day,
            number(0),
            compare("gt-eq", "ts", json!("1970-01-01T00:00:00")),
            (true, false),
        ),
        (
            9,
            Transform::Day,
            number(0),
            compare("lt", "ts", json!("1969-12-31T12:00:00")),
            (true, false),
        ),
        (8, Transform::Day, number(0), compare("gt-eq", "day", json!("1970-01-01")), (true, true)),
        (1, Transform::Void, None, compare("eq", "i", json!(7)), (true, false)),
        (
            1,
            Transform::Unknown("z".to_owned()),
            number(1),
            compare("eq", "i", json!(7)),
            (true, false),
        ),
        (2, Transform::Identity, number(1), compare("eq", "i", json!(7)), (true, false)),
    ] {
        let spec = spec(1, &[(column, transform.clone())]);
        let (may, all, residual) = evaluate(&json, &spec, &[value]);
        assert_eq!((may, all), expected, "{json} with {transform}");
        let left = match expected {
            (true, true) => json!(true),
            (false, _) => json!(false),
            (true, false) => json.clone(),
        };
        assert_eq!(residual, left, "residual of {json} with {transform}");
    }
}

#[test]
fn residual_keeps_only_undecided_predicates() {
    let spec = spec(1, &[(6, Transform::Identity), (9, Transform::Day)]);
    let time = compare("gt-eq", "ts", json!("1970-01-02T12:00:00"));
    let json = json!({"type": "and", "left": compare("eq", "s", json!("a")), "right": time});
    let partition = [Some(Datum::string("a")), Some(Datum::Integer(1))];
    assert_eq!(evaluate(&json, &spec, &partition), (true, false, time));
    let partition = [Some(Datum::string("a")), Some(Datum::Integer(2))];
    assert_eq!(evaluate(&json, &spec, &partition), (true, true, json!(true)));
    let partition = [Some(Datum::string("b")), Some(Datum::Integer(1))];
    assert_eq!(evaluate(&json, &spec, &partition), (false, false, json!(false)));
}

#[test]
fn transform_in_a_filter_is_decided_by_the_same_partition_field() {
    let spec = spec(1, &[(1, Transform::Bucket(16))]);
    let bucket = |number: u32, value: i32| {
        let transform = format!("bucket[{number}]");
        json!({"type": "eq", "term": {"type": "transform", "transform": transform, "term": "i"}, "value": value})
    };
    let partition = [Some(Datum::Integer(3))];
    assert_eq!(evaluate(&bucket(16, 3), &spec, &partition), (true, true, json!(true)));
    assert_eq!(evaluate(&bucket(16, 4), &spec, &partition), (false, false, json!(false)));
    assert_eq!(evaluate(&bucket(8, 4), &spec, &partition), (true, false, bucket(8, 4)));
}

#[test]
fn summaries_prune_manifests() {
    let spec = spec(1, &[(1, Transform::Truncate(10))]);
    let bytes = |value: i32| Some(value.to_le_bytes().to_vec().into());
    let summary = |contains_null, bounds: Option<(i32, i32)>| FieldSummary {
        contains_null,
        contains_nan: None,
        lower_bound: bounds.and_then(|(lower, _)| bytes(lower)),
        upper_bound: bounds.and_then(|(_, upper)| bytes(upper)),
    };
    let is_null = json!({"type": "is-null", "term": "i"});
    let not_null = json!({"type": "not-null", "term": "i"});
    for (partitions, json, expected) in [
        (None, compare("lt", "i", json!(5)), true),
        (Some(vec![summary(false, Some((10, 20)))]), compare("lt", "i", json!(10)), false),
        (Some(vec![summary(false, Some((10, 20)))]), compare("lt", "i", json!(11)), true),
        (Some(vec![summary(false, Some((10, 20)))]), compare("gt", "i", json!(29)), false),
        (Some(vec![summary(false, Some((10, 20)))]), is_null.clone(), false),
        (Some(vec![summary(true, Some((10, 20)))]), is_null.clone(), true),
        (Some(vec![summary(true, None)]), is_null, true),
        (Some(vec![summary(true, None)]), not_null, false),
        (Some(vec![summary(true, None)]), compare("lt", "i", json!(5)), false),
        // Some writers write no bounds, even if there are values that are not null.
        (Some(vec![summary(false, None)]), compare("lt", "i", json!(5)), true),
        (Some(vec![]), compare("lt", "i", json!(5)), true),
    ] {
        let may_match = filter(&json).for_spec(&spec).may_match_manifest(&manifest(0, partitions));
        assert_eq!(may_match, expected, "{json}");
    }
}

#[test]
fn manifest_without_live_files_does_not_match() {
    let all = filter(&json!(true)).for_spec(&spec(1, &[]));
    let empty = ManifestFile { added_files_count: Some(0), ..manifest(0, None) };
    assert!(!all.may_match_manifest(&empty));
    let unknown = ManifestFile { existing_files_count: None, ..empty };
    assert!(all.may_match_manifest(&unknown));
    assert!(all.may_match_manifest(&manifest(0, None)));
}

//! The hashes of "Appendix B" of the table specification, and examples of the other transforms.

use serde_json::{Value, json};

use super::super::Transform;
use super::hash;
use crate::types::{PrimitiveType, Type};
use crate::value::Datum;
use crate::value::literal::Literal;

fn datum(type_name: &str, json: &Value) -> (PrimitiveType, Datum) {
    let Ok(Type::Primitive(primitive)) = Type::parse(&json!(type_name)) else {
        panic!("{type_name} is no primitive type")
    };
    match Literal::parse(&primitive, json) {
        Some(Literal::Value(datum)) => (primitive, datum),
        other => panic!("{json} is no {type_name}: {other:?}"),
    }
}

#[test]
fn hashes_equal_the_vectors_of_the_specification() {
    for (type_name, value, expected) in [
        ("int", json!(34), 2_017_239_379),
        ("long", json!(34), 2_017_239_379),
        ("decimal(9,2)", json!("14.20"), -500_754_589),
        ("date", json!("2017-11-16"), -653_330_422),
        ("time", json!("22:31:08"), -662_762_989),
        ("timestamp", json!("2017-11-16T22:31:08"), -2_047_944_441),
        ("timestamp", json!("2017-11-16T22:31:08.000001"), -1_207_196_810),
        ("timestamptz", json!("2017-11-16T14:31:08-08:00"), -2_047_944_441),
        ("timestamptz", json!("2017-11-16T14:31:08.000001-08:00"), -1_207_196_810),
        ("timestamp_ns", json!("2017-11-16T22:31:08"), -2_047_944_441),
        ("timestamp_ns", json!("2017-11-16T22:31:08.000001001"), -1_207_196_810),
        ("timestamptz_ns", json!("2017-11-16T14:31:08.000001001-08:00"), -1_207_196_810),
        ("string", json!("iceberg"), 1_210_000_089),
        ("uuid", json!("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1_488_055_340),
        ("fixed[4]", json!("00010203"), -188_683_207),
        ("binary", json!("00010203"), -188_683_207),
    ] {
        let (primitive, datum) = datum(type_name, &value);
        assert_eq!(hash(&primitive, &datum), Some(expected), "{type_name} {value}");
    }
}

#[test]
fn bucket_of_a_negative_hash_is_not_negative() {
    let (primitive, value) = datum("decimal(9,2)", &json!("14.20"));
    let bucket = Transform::Bucket(16).apply(&primitive, &value);
    assert_eq!(bucket, Some(Datum::Integer(i64::from(-500_754_589 & i32::MAX) % 16)));
}

#[test]
fn truncation_rounds_down_and_counts_characters() {
    let integer = |value| Some(Datum::Integer(value));
    for (type_name, width, value, expected) in [
        ("int", 10, json!(1), integer(0)),
        ("int", 10, json!(-1), integer(-10)),
        ("long", 50, json!(149), integer(100)),
        ("int", 10, json!(i32::MIN), None),
        ("long", 10, json!(i64::MIN), None),
        ("decimal(9,2)", 50, json!("10.65"), Some(Datum::Decimal(1050))),
        ("decimal(9,2)", 50, json!("-0.01"), Some(Datum::Decimal(-50))),
        ("string", 3, json!("iceberg"), Some(Datum::string("ice"))),
        ("string", 2, json!("äöü"), Some(Datum::string("äö"))),
        ("string", 9, json!("ice"), Some(Datum::string("ice"))),
        ("binary", 1, json!("0102"), Some(Datum::bytes(&[1]))),
    ] {
        let (primitive, datum) = datum(type_name, &value);
        let result = Transform::Truncate(width).apply(&primitive, &datum);
        assert_eq!(result, expected, "truncate[{width}] of {type_name} {value}");
    }
}

#[test]
fn time_transforms_round_down_before_1970() {
    for (type_name, value, year, month, day, hour) in [
        ("date", json!("2017-12-01"), 47, 575, 17_501, None),
        ("date", json!("1969-12-31"), -1, -1, -1, None),
        ("date", json!("1969-01-01"), -1, -12, -365, None),
        ("timestamp", json!("2017-12-01T10:12:55.038194"), 47, 575, 17_501, Some(420_034)),
        ("timestamptz", json!("1969-12-31T23:59:59.999999Z"), -1, -1, -1, Some(-1)),
        ("timestamp_ns", json!("1969-12-31T22:59:59.999999999"), -1, -1, -1, Some(-2)),
        ("timestamp", json!(-86_400_000_000_i64), -1, -1, -1, Some(-24)),
    ] {
        let (primitive, datum) = datum(type_name, &value);
        let apply = |transform: Transform| match transform.apply(&primitive, &datum) {
            Some(Datum::Integer(result)) => result,
            other => panic!("{transform} of {value}: {other:?}"),
        };
        assert_eq!(apply(Transform::Year), year, "{value}");
        assert_eq!(apply(Transform::Month), month, "{value}");
        assert_eq!(apply(Transform::Day), day, "{value}");
        if let Some(hour) = hour {
            assert_eq!(apply(Transform::Hour), hour, "{value}");
        }
    }
}

#[test]
fn void_and_unknown_transforms_have_no_values() {
    let (primitive, datum) = datum("int", &json!(1));
    for transform in [Transform::Void, Transform::Unknown("zorder".to_owned())] {
        assert_eq!(transform.apply(&primitive, &datum), None);
        assert_eq!(transform.result_type(&primitive), None);
    }
}

//! Literals in all forms that clients write, the binary form, and the order of values.

use std::cmp::Ordering;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Datum;
use super::calendar;
use super::literal::Literal;
use crate::types::{PrimitiveType, Type};

fn primitive(name: &str) -> PrimitiveType {
    match Type::parse(&json!(name)) {
        Ok(Type::Primitive(primitive)) => primitive,
        other => panic!("{name} is no primitive type: {other:?}"),
    }
}

fn parse(type_name: &str, value: &Value) -> Option<Literal> {
    Literal::parse(&primitive(type_name), value)
}

/// Parses a literal that is a value of the type.
fn datum(type_name: &str, value: &Value) -> Datum {
    match parse(type_name, value) {
        Some(Literal::Value(datum)) => datum,
        other => panic!("{value} is no value of {type_name}: {other:?}"),
    }
}

#[test]
fn literal_is_written_as_the_single_value_json_of_its_type() {
    for (type_name, literals, written) in [
        ("boolean", vec![json!(true)], json!(true)),
        ("int", vec![json!(7), json!(7.0)], json!(7)),
        ("long", vec![json!(i64::MIN)], json!(i64::MIN)),
        ("float", vec![json!(1), json!(1.0)], json!(1.0)),
        ("float", vec![json!(0.1)], json!(0.1)),
        ("double", vec![json!(1), json!(1.0)], json!(1.0)),
        ("double", vec![json!("Infinity")], json!("Infinity")),
        (
            "decimal(9,2)",
            vec![json!("14.20"), json!("14.2"), json!(14.2), json!("1.42E+1"), json!("014.2000")],
            json!("14.20"),
        ),
        ("decimal(9,2)", vec![json!("-0.05"), json!("-5e-2")], json!("-0.05")),
        ("decimal(9,0)", vec![json!("100"), json!("1E+2"), json!(100)], json!("100")),
        ("date", vec![json!("2026-11-22"), json!(20_779)], json!("2026-11-22")),
        ("date", vec![json!("1969-12-31"), json!(-1)], json!("1969-12-31")),
        (
            "time",
            vec![json!("22:31:08.123456"), json!(81_068_123_456_i64)],
            json!("22:31:08.123456"),
        ),
        ("time", vec![json!("22:31")], json!("22:31:00.000000")),
        (
            "timestamp",
            vec![json!("2017-11-16T22:31:08.000001"), json!(1_510_871_468_000_001_i64)],
            json!("2017-11-16T22:31:08.000001"),
        ),
        (
            "timestamptz",
            vec![
                json!("2017-11-16T22:31:08Z"),
                json!("2017-11-16T22:31:08.0+00:00"),
                json!("2017-11-17T04:01:08+05:30"),
                json!("2017-11-16T14:31:08.000000-08:00"),
                json!(1_510_871_468_000_000_i64),
            ],
            json!("2017-11-16T22:31:08.000000+00:00"),
        ),
        // Numbers are microseconds, even for timestamps in nanoseconds.
        (
            "timestamp_ns",
            vec![json!("2017-11-16T22:31:08"), json!(1_510_871_468_000_000_i64)],
            json!("2017-11-16T22:31:08.000000000"),
        ),
        (
            "timestamptz_ns",
            vec![json!("2017-11-16T22:31:08.000000001Z")],
            json!("2017-11-16T22:31:08.000000001+00:00"),
        ),
        ("string", vec![json!("ä")], json!("ä")),
        (
            "uuid",
            vec![
                json!("F79C3E09-677C-4BBD-A479-3F349CB785E7"),
                json!("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
            ],
            json!("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ),
        ("fixed[2]", vec![json!("00ff"), json!("00FF")], json!("00FF")),
        ("binary", vec![json!("00fF01")], json!("00FF01")),
        ("binary", vec![json!("")], json!("")),
    ] {
        for literal in literals {
            let datum = datum(type_name, &literal);
            assert_eq!(datum.to_json(&primitive(type_name)), written, "{type_name} {literal}");
            let mut out = Vec::new();
            datum.write_json(&primitive(type_name), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), written.to_string());
        }
    }
}

#[test]
fn float_is_written_with_its_shortest_digits() {
    let datum = Datum::Float(f64::from(0.1_f32));
    assert_eq!(datum.to_json(&PrimitiveType::Float).to_string(), "0.1");
    assert_eq!(datum.to_json(&PrimitiveType::Double).to_string(), "0.10000000149011612");
    assert_eq!(Datum::Float(1.0).to_json(&PrimitiveType::Double).to_string(), "1.0");
}

#[test]
fn literal_of_another_kind_is_no_value() {
    for (type_name, literal) in [
        ("boolean", json!("true")),
        ("boolean", json!(1)),
        ("int", json!("1")),
        ("int", json!(true)),
        ("long", json!(null)),
        ("double", json!("1.0")),
        ("double", json!("NaN")),
        ("decimal(9,2)", json!("")),
        ("decimal(9,2)", json!(".")),
        ("decimal(9,2)", json!("1.0.0")),
        ("decimal(9,2)", json!("1e")),
        ("date", json!("2023-02-29")),
        ("date", json!("2023-2-9")),
        ("date", json!("12023-02-09")),
        ("date", json!(1.5)),
        ("time", json!("24:00:00")),
        ("timestamp", json!("2024-02-29T10:15:30Z")),
        ("timestamp", json!("2024-02-29")),
        ("timestamptz", json!("2024-02-29T10:15:30")),
        ("timestamptz", json!("2024-02-29T10:15:30+25:00")),
        ("string", json!(7)),
        ("uuid", json!("f79c3e09")),
        ("fixed[2]", json!("00ff01")),
        ("binary", json!("0")),
        ("binary", json!("zz")),
        ("unknown", json!("x")),
        ("geometry", json!("x")),
    ] {
        assert_eq!(parse(type_name, &literal), None, "{type_name} {literal}");
    }
}

#[test]
fn literal_that_no_value_equals_keeps_its_place_in_the_order() {
    use Literal::{AboveMax, After, BelowMin};
    for (type_name, literal, expected) in [
        ("int", json!(3_000_000_000_i64), AboveMax),
        ("int", json!(-3_000_000_000_i64), BelowMin),
        ("long", json!(u64::MAX), AboveMax),
        ("long", json!(-1e30), BelowMin),
        ("int", json!(5.5), After(Datum::Integer(5))),
        ("int", json!(-5.5), After(Datum::Integer(-6))),
        ("float", json!(1e300), After(Datum::Float(f32::MAX.into()))),
        ("float", json!(-1e300), After(Datum::Float(f64::NEG_INFINITY))),
        ("decimal(9,2)", json!("1.234"), After(Datum::Decimal(123))),
        ("decimal(9,2)", json!("-1.234"), After(Datum::Decimal(-124))),
        ("decimal(9,2)", json!("0.001"), After(Datum::Decimal(0))),
        ("decimal(9,2)", json!("-1e-40"), After(Datum::Decimal(-1))),
        ("decimal(9,2)", json!("1e50"), AboveMax),
        ("decimal(9,2)", json!("-1e999999999999"), BelowMin),
        ("date", json!(3_000_000_000_i64), AboveMax),
        (
            "timestamp",
            json!("2024-01-01T00:00:00.0000015"),
            After(Datum::Integer(1_704_067_200_000_001)),
        ),
        ("timestamp", json!("-900000-01-01T00:00:00"), BelowMin),
        ("timestamp_ns", json!("3000-01-01T00:00:00"), AboveMax),
        ("timestamp_ns", json!(i64::MAX), AboveMax),
    ] {
        assert_eq!(parse(type_name, &literal), Some(expected), "{type_name} {literal}");
    }
}

#[test]
fn binary_form_of_the_specification_is_read_and_written() {
    for (type_name, value, bytes) in [
        ("boolean", json!(true), vec![1]),
        ("int", json!(-2), vec![0xfe, 0xff, 0xff, 0xff]),
        ("long", json!(1), vec![1, 0, 0, 0, 0, 0, 0, 0]),
        ("float", json!(1.0), vec![0, 0, 0x80, 0x3f]),
        ("double", json!(1.0), vec![0, 0, 0, 0, 0, 0, 0xf0, 0x3f]),
        ("decimal(9,2)", json!("14.20"), vec![0x05, 0x8c]),
        ("decimal(9,2)", json!("1.28"), vec![0, 0x80]),
        ("decimal(9,2)", json!("-1.28"), vec![0x80]),
        ("decimal(9,2)", json!("0"), vec![0]),
        ("date", json!(1), vec![1, 0, 0, 0]),
        ("time", json!(1), vec![1, 0, 0, 0, 0, 0, 0, 0]),
        ("timestamptz", json!(-1), vec![0xff; 8]),
        ("string", json!("ä"), vec![0xc3, 0xa4]),
        ("fixed[2]", json!("00FF"), vec![0, 0xff]),
        ("binary", json!(""), vec![]),
    ] {
        let primitive = primitive(type_name);
        let datum = datum(type_name, &value);
        assert_eq!(datum.to_bytes(&primitive), bytes, "{type_name} {value}");
        assert_eq!(Datum::from_bytes(&primitive, &bytes), Some(datum), "{type_name} {value}");
    }
}

#[test]
fn bound_from_before_a_promotion_is_read_by_its_length() {
    for (type_name, bytes, expected) in [
        ("long", 7_i32.to_le_bytes().to_vec(), json!(7)),
        ("double", 0.5_f32.to_le_bytes().to_vec(), json!(0.5)),
        ("timestamp", 1_i32.to_le_bytes().to_vec(), json!("1970-01-02T00:00:00.000000")),
        ("timestamp_ns", (-1_i32).to_le_bytes().to_vec(), json!("1969-12-31T00:00:00.000000000")),
    ] {
        let primitive = primitive(type_name);
        let datum = Datum::from_bytes(&primitive, &bytes).expect("a promoted value");
        assert_eq!(datum.to_json(&primitive), expected);
    }
    let (date, timestamp) = (primitive("date"), primitive("timestamp"));
    let promoted = Datum::Integer(1).promote(&date, &timestamp);
    assert_eq!(promoted, Some(Datum::Integer(86_400_000_000)));
    assert_eq!(Datum::Integer(1).promote(&date, &primitive("long")), None);
}

#[test]
fn bytes_of_a_wrong_length_are_no_value() {
    for (type_name, length) in [
        ("boolean", 0),
        ("int", 8),
        ("long", 7),
        ("float", 8),
        ("double", 9),
        ("decimal(9,2)", 0),
        ("decimal(9,2)", 17),
        ("timestamptz", 4),
        ("uuid", 15),
        ("geometry", 16),
    ] {
        let bytes = vec![1; length];
        assert_eq!(Datum::from_bytes(&primitive(type_name), &bytes), None, "{type_name}");
    }
    assert_eq!(Datum::from_bytes(&PrimitiveType::String, &[0xff]), None);
}

#[test]
fn comparisons_that_depend_on_the_engine_have_no_result() {
    let nan = Datum::Float(f64::NAN);
    assert_eq!(nan.compare(&nan), None);
    assert_eq!(nan.compare(&Datum::Float(1.0)), None);
    assert_eq!(Datum::Float(0.0).compare(&Datum::Float(-0.0)), None);
    assert_eq!(Datum::Float(0.0).compare(&Datum::Float(0.0)), Some(Ordering::Equal));
    assert_eq!(Datum::string("1").compare(&Datum::Integer(1)), None);
    assert_eq!(nan, Datum::Float(-f64::NAN), "as keys of partitions, they are the same");
    assert_ne!(Datum::Float(0.0), Datum::Float(-0.0));
}

proptest! {
    #[test]
    fn dates_survive_a_round_trip(days in -4_000_000_i64..4_000_000) {
        prop_assert_eq!(calendar::parse_date(&calendar::format_date(days)), Some(days));
    }

    #[test]
    fn timestamps_survive_a_round_trip(micros in any::<i64>()) {
        let timestamp = primitive("timestamptz");
        let written = Datum::Integer(micros).to_json(&timestamp);
        prop_assert_eq!(datum("timestamptz", &written), Datum::Integer(micros));
    }

    #[test]
    fn decimals_survive_both_round_trips(unscaled in any::<i64>(), scale in 0_u32..20) {
        let decimal = PrimitiveType::Decimal { precision: 38, scale };
        let datum = Datum::Decimal(unscaled.into());
        let parsed = Literal::parse(&decimal, &datum.to_json(&decimal));
        prop_assert_eq!(parsed, Some(Literal::Value(datum.clone())));
        let bytes = datum.to_bytes(&decimal);
        prop_assert_eq!(Datum::from_bytes(&decimal, &bytes), Some(datum));
    }

    #[test]
    fn no_literal_text_causes_a_panic(text in "\\PC{0,12}|[-+0-9:.TZeE]{0,30}", at in 0_usize..9) {
        let types = ["decimal(9,2)", "date", "time", "timestamp", "timestamptz", "timestamp_ns",
            "timestamptz_ns", "uuid", "binary"];
        let _ = parse(types[at], &json!(text));
    }
}

//! Literals of filters, in all forms in which clients write them.

use serde_json::{Number, Value};

use super::calendar::{self, DayTime, SECONDS_PER_DAY};
use super::{Datum, NANOS_PER_MICRO, binary::to_float};
use crate::types::PrimitiveType;

/// Maximum number of digits that a decimal may have, including the zeros of an exponent.
const DECIMAL_DIGITS_MAX: i64 = 80;

/// The range in which every floating point number without a fraction is a 64-bit integer.
const LONG_RANGE: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;

/// A literal, converted to the type of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    /// A value of the type.
    Value(Datum),
    /// A number between this value and the next greater value of the type.
    After(Datum),
    /// Greater than all values of the type.
    AboveMax,
    /// Less than all values of the type.
    BelowMin,
}

impl Literal {
    /// Converts a client's literal. `None` if it is no value of the type.
    pub(crate) fn parse(primitive: &PrimitiveType, value: &Value) -> Option<Self> {
        use PrimitiveType as P;
        match (primitive, value) {
            (P::Boolean, Value::Bool(value)) => Some(Self::Value(Datum::Boolean(*value))),
            (P::Int | P::Long, Value::Number(number)) => parse_integer(primitive, number),
            (P::Float | P::Double, Value::Number(number)) => parse_float(primitive, number),
            (P::Float | P::Double, Value::String(text)) => match text.as_str() {
                "Infinity" => Some(Self::Value(Datum::Float(f64::INFINITY))),
                "-Infinity" => Some(Self::Value(Datum::Float(f64::NEG_INFINITY))),
                _ => None,
            },
            (P::Decimal { scale, .. }, Value::Number(number)) => {
                parse_decimal(&number.to_string(), *scale)
            }
            (P::Decimal { scale, .. }, Value::String(text)) => parse_decimal(text, *scale),
            (
                P::Date
                | P::Time
                | P::Timestamp
                | P::Timestamptz
                | P::TimestampNs
                | P::TimestamptzNs,
                value,
            ) => parse_time(primitive, value),
            (P::String, Value::String(text)) => Some(Self::Value(Datum::string(text))),
            (P::Uuid, Value::String(text)) if text.len() == 36 => {
                let uuid = uuid::Uuid::try_parse(text).ok()?;
                Some(Self::Value(Datum::Uuid(uuid.into_bytes())))
            }
            (P::Fixed(length), Value::String(text)) => {
                let bytes = from_hex(text)?;
                let fits = u32::try_from(bytes.len()).is_ok_and(|len| len == *length);
                fits.then(|| Self::Value(Datum::bytes(&bytes)))
            }
            (P::Binary, Value::String(text)) => Some(Self::Value(Datum::bytes(&from_hex(text)?))),
            _ => None,
        }
    }

    fn out_of_range(is_negative: bool) -> Self {
        if is_negative { Self::BelowMin } else { Self::AboveMax }
    }

    fn integer(value: i64, rest: bool) -> Self {
        if rest { Self::After(Datum::Integer(value)) } else { Self::Value(Datum::Integer(value)) }
    }
}

fn parse_integer(primitive: &PrimitiveType, number: &Number) -> Option<Literal> {
    let (value, rest) = match number.as_i64() {
        Some(value) => (value, false),
        None => {
            let number = number.as_f64()?;
            let floor = number.floor();
            // Neither `int` nor `long` contains a number outside of this range.
            if !LONG_RANGE.contains(&floor) {
                return Some(Literal::out_of_range(number < 0.0));
            }
            let value = floor as i64;
            (value, floor < number)
        }
    };
    if *primitive == PrimitiveType::Int && i32::try_from(value).is_err() {
        return Some(Literal::out_of_range(value < 0));
    }
    Some(Literal::integer(value, rest))
}

fn parse_float(primitive: &PrimitiveType, number: &Number) -> Option<Literal> {
    let number = number.as_f64()?;
    if *primitive == PrimitiveType::Double {
        return Some(Literal::Value(Datum::Float(number)));
    }
    let max = f64::from(f32::MAX);
    // The literal is between `max` and infinity, which is the next greater value of the type.
    if number > max {
        return Some(Literal::After(Datum::Float(max)));
    }
    if number < -max {
        return Some(Literal::After(Datum::Float(f64::NEG_INFINITY)));
    }
    Some(Literal::Value(Datum::Float(to_float(number).into())))
}

/// Parses a decimal, with or without an exponent, to an unscaled value.
fn parse_decimal(text: &str, scale: u32) -> Option<Literal> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_negative = text.starts_with('-');
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction_digits = i64::try_from(fraction.len()).ok()?;
    // The number is digits * 10^shift units of the scale.
    let shift = exponent.saturating_sub(fraction_digits).saturating_add(scale.into());
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Some(Literal::Value(Datum::Decimal(0)));
    }
    let length = i64::try_from(significant.len()).ok()?.saturating_add(shift);
    if length > DECIMAL_DIGITS_MAX {
        return Some(Literal::out_of_range(is_negative));
    }
    let (kept, cut) =
        significant.split_at(usize::try_from(length.max(0)).ok()?.min(significant.len()));
    let zeros = usize::try_from(shift.max(0)).ok()?;
    let Ok(units) = format!("0{kept}{}", "0".repeat(zeros)).parse::<i128>() else {
        return Some(Literal::out_of_range(is_negative));
    };
    let rest = cut.bytes().any(|digit| digit != b'0');
    // If digits were cut off a negative number, the next smaller value has a greater absolute
    // value.
    let units = if is_negative { -units - i128::from(rest) } else { units };
    let value = Datum::Decimal(units);
    Some(if rest { Literal::After(value) } else { Literal::Value(value) })
}

fn parse_time(primitive: &PrimitiveType, value: &Value) -> Option<Literal> {
    match value {
        Value::Number(number) => parse_time_number(primitive, number.as_i64()?),
        Value::String(text) => parse_time_text(primitive, text),
        _ => None,
    }
}

/// Converts a number of days or microseconds. For timestamps in nanoseconds, clients write
/// microseconds, too, because the reference implementation reads such a number as microseconds.
fn parse_time_number(primitive: &PrimitiveType, number: i64) -> Option<Literal> {
    use PrimitiveType as P;
    let value = match primitive {
        P::Date if i32::try_from(number).is_err() => None,
        P::TimestampNs | P::TimestamptzNs => number.checked_mul(NANOS_PER_MICRO),
        _ => Some(number),
    };
    Some(match value {
        Some(value) => Literal::integer(value, false),
        None => Literal::out_of_range(number < 0),
    })
}

fn parse_time_text(primitive: &PrimitiveType, text: &str) -> Option<Literal> {
    use PrimitiveType as P;
    let time = match primitive {
        P::Date => return Some(Literal::integer(calendar::parse_date(text)?, false)),
        P::Time => DayTime { days: 0, nanos: calendar::parse_time(text)? },
        P::Timestamp | P::TimestampNs => calendar::parse_local(text)?,
        _ => calendar::parse_with_offset(text)?,
    };
    let nanos_per_unit = match primitive {
        P::TimestampNs | P::TimestamptzNs => 1,
        _ => NANOS_PER_MICRO,
    };
    let units_per_day = SECONDS_PER_DAY * (1_000_000_000 / nanos_per_unit);
    let units = time.days.checked_mul(units_per_day);
    let units = units.and_then(|units| units.checked_add(time.nanos / nanos_per_unit));
    Some(match units {
        Some(units) => Literal::integer(units, time.nanos % nanos_per_unit != 0),
        None => Literal::out_of_range(time.days < 0),
    })
}

/// Reads hexadecimal digits of either case.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = text.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

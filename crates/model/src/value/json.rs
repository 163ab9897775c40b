//! The JSON single-value serialization ("Appendix D" of the table specification).

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Datum, binary::to_float, calendar};
use crate::types::PrimitiveType;

impl Datum {
    /// Returns the value as JSON.
    pub fn to_json(&self, primitive: &PrimitiveType) -> Value {
        match self {
            Self::Boolean(value) => json!(value),
            Self::Integer(value) => integer_json(*value, primitive),
            Self::Float(number) if *primitive == PrimitiveType::Float => float_json(*number),
            Self::Float(number) => finite_json(*number),
            Self::Decimal(unscaled) => match primitive {
                PrimitiveType::Decimal { scale, .. } => json!(format_decimal(*unscaled, *scale)),
                _ => json!(unscaled.to_string()),
            },
            Self::String(text) => json!(text),
            Self::Uuid(bytes) => json!(uuid::Uuid::from_bytes(*bytes).to_string()),
            Self::Bytes(bytes) => json!(to_hex(bytes)),
        }
    }

    /// Appends the value as JSON.
    pub fn write_json(&self, primitive: &PrimitiveType, out: &mut Vec<u8>) {
        if let (Self::Integer(value), PrimitiveType::Int | PrimitiveType::Long) = (self, primitive)
        {
            return out.extend_from_slice(value.to_string().as_bytes());
        }
        serde_json::to_writer(out, &self.to_json(primitive)).expect("writes to memory succeed");
    }
}

fn integer_json(value: i64, primitive: &PrimitiveType) -> Value {
    use PrimitiveType as P;
    match primitive {
        P::Date => json!(calendar::format_date(value)),
        P::Time => json!(calendar::format_time(value, 6)),
        P::Timestamp => json!(calendar::format_timestamp(value, 6)),
        P::Timestamptz => json!(calendar::format_timestamp(value, 6) + "+00:00"),
        P::TimestampNs => json!(calendar::format_timestamp(value, 9)),
        P::TimestamptzNs => json!(calendar::format_timestamp(value, 9) + "+00:00"),
        _ => json!(value),
    }
}

/// Returns the shortest decimal number that is parsed to the same `float`.
fn float_json(number: f64) -> Value {
    let shortest = to_float(number).to_string().parse::<f64>();
    finite_json(shortest.unwrap_or(number))
}

/// Returns a finite number as a JSON number with a point or an exponent, which the reference
/// implementation requires. Returns NaN and infinities as strings, as the reference implementation
/// does, because JSON has no numbers for them.
fn finite_json(number: f64) -> Value {
    if number.is_nan() {
        return json!("NaN");
    }
    match number {
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        finite => json!(finite),
    }
}

fn format_decimal(unscaled: i128, scale: u32) -> String {
    let scale = usize::try_from(scale).unwrap_or(usize::MAX);
    if scale == 0 {
        return unscaled.to_string();
    }
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale.saturating_add(1));
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// Returns upper-case hexadecimal digits, as the reference implementation writes them.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02X}");
    }
    text
}

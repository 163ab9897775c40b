//! Default values of columns: checks that their JSON is valid for the type of the column.
//!
//! The rules are those of "JSON single-value serialization" in the table specification. The stored
//! value is the client's JSON, unchanged. The validation ensures that every reader can parse it.

use serde_json::Value;

use super::types::primitive::PrimitiveType;

/// Whether a JSON value is a valid single-value serialization of this type.
pub(super) fn fits(primitive: &PrimitiveType, value: &Value) -> bool {
    let text = value.as_str();
    match primitive {
        PrimitiveType::Boolean => value.is_boolean(),
        PrimitiveType::Int => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        PrimitiveType::Long => value.as_i64().is_some(),
        PrimitiveType::Float | PrimitiveType::Double => value.is_f64(),
        PrimitiveType::Decimal { precision, scale } => {
            text.is_some_and(|text| is_decimal(text, *precision, *scale))
        }
        PrimitiveType::Date => text.is_some_and(is_date),
        PrimitiveType::Time => text.is_some_and(|text| is_time(text, 6)),
        PrimitiveType::Timestamp => text.is_some_and(|text| is_timestamp(text, 6)),
        PrimitiveType::Timestamptz => text.is_some_and(|text| is_utc_timestamp(text, 6)),
        PrimitiveType::TimestampNs => text.is_some_and(|text| is_timestamp(text, 9)),
        PrimitiveType::TimestamptzNs => text.is_some_and(|text| is_utc_timestamp(text, 9)),
        PrimitiveType::String => text.is_some(),
        PrimitiveType::Uuid => {
            text.is_some_and(|text| text.len() == 36 && uuid::Uuid::try_parse(text).is_ok())
        }
        PrimitiveType::Fixed(length) => text.is_some_and(|text| {
            is_hex(text) && u64::try_from(text.len()).is_ok_and(|len| len == u64::from(*length) * 2)
        }),
        PrimitiveType::Binary => text.is_some_and(is_hex),
        // The specification requires null as the default of these types.
        PrimitiveType::Unknown
        | PrimitiveType::Geometry { .. }
        | PrimitiveType::Geography { .. } => false,
    }
}

fn is_hex(text: &str) -> bool {
    text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text is a decimal with exactly `scale` digits after the point and at most `precision`
/// in total.
fn is_decimal(text: &str, precision: u32, scale: u32) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let fits = |len: usize, max: u32| u32::try_from(len).is_ok_and(|len| len <= max);
    is_digits(whole)
        && (fraction.is_empty() || is_digits(fraction))
        && u32::try_from(fraction.len()).is_ok_and(|len| len == scale)
        && fits(whole.trim_start_matches('0').len() + fraction.len(), precision)
}

fn number(text: &str, digits: usize, range: std::ops::RangeInclusive<u32>) -> bool {
    text.len() == digits
        && is_digits(text)
        && text.parse::<u32>().is_ok_and(|number| range.contains(&number))
}

/// Whether a text is `YYYY-MM-DD`, with a day that exists in the month.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(day)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    if !number(year, 4, 0..=9999) || !number(month, 2, 1..=12) || !number(day, 2, 1..=31) {
        return false;
    }
    let year = year.parse::<u32>().unwrap_or_default();
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        "02" if leap => 29,
        "02" => 28,
        "04" | "06" | "09" | "11" => 30,
        _ => 31,
    };
    number(day, 2, 1..=days)
}

/// Whether a text is `HH:MM[:SS[.fraction]]`, with at most `digits` digits in the fraction.
fn is_time(text: &str, digits: usize) -> bool {
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (text, None),
    };
    let mut parts = clock.split(':');
    let hour = parts.next().is_some_and(|hour| number(hour, 2, 0..=23));
    let minute = parts.next().is_some_and(|minute| number(minute, 2, 0..=59));
    let seconds = parts.next();
    let second = seconds.is_none_or(|second| number(second, 2, 0..=59));
    let fraction_fits = fraction.is_none_or(|fraction| {
        seconds.is_some() && is_digits(fraction) && fraction.len() <= digits
    });
    hour && minute && second && parts.next().is_none() && fraction_fits
}

fn is_timestamp(text: &str, digits: usize) -> bool {
    text.split_once('T').is_some_and(|(date, time)| is_date(date) && is_time(time, digits))
}

fn is_utc_timestamp(text: &str, digits: usize) -> bool {
    let local = text.strip_suffix("+00:00").or_else(|| text.strip_suffix('Z'));
    local.is_some_and(|local| is_timestamp(local, digits))
}

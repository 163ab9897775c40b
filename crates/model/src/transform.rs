//! Transforms from a column's value to a partition or sort value.
//!
//! The `iceberg` crate's `Transform` drops the name of an unknown transform. This type preserves
//! it, so that a table does not lose what a newer client has written.

mod apply;

use std::fmt;

use super::members::brief;
use super::refusal::Refusal;
use super::types::{PrimitiveType, Type};

/// A transform ("Partition Transforms" in the table specification).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Transform {
    /// The value itself.
    Identity,
    /// A hash of the value, modulo this number of buckets.
    Bucket(u32),
    /// The value truncated to this width.
    Truncate(u32),
    /// Years since 1970.
    Year,
    /// Months since 1970.
    Month,
    /// Days since 1970.
    Day,
    /// Hours since 1970.
    Hour,
    /// Always null; marks a dropped partition field.
    Void,
    /// The name of a transform from a later specification.
    Unknown(String),
}

impl Transform {
    /// Parses a transform. Ignores case, like the reference implementation.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        if let Some((name, width)) = split_width(text) {
            if name.eq_ignore_ascii_case("bucket") {
                let number = parse_width(width, "number of buckets")?;
                return Ok(Self::Bucket(number));
            }
            if name.eq_ignore_ascii_case("truncate") {
                return Ok(Self::Truncate(parse_width(width, "truncate width")?));
            }
        }
        Ok(match text.to_ascii_lowercase().as_str() {
            "identity" => Self::Identity,
            "year" => Self::Year,
            "month" => Self::Month,
            "day" => Self::Day,
            "hour" => Self::Hour,
            "void" => Self::Void,
            _ => Self::Unknown(text.to_owned()),
        })
    }

    /// Whether the transform supports values of type `source`.
    pub(super) fn can_transform(&self, source: &Type) -> bool {
        use PrimitiveType as P;
        let Some(primitive) = source.as_primitive() else {
            return matches!(self, Self::Void | Self::Unknown(_));
        };
        match self {
            Self::Void | Self::Unknown(_) => true,
            Self::Identity => !matches!(primitive, P::Geometry { .. } | P::Geography { .. }),
            Self::Bucket(_) => !matches!(
                primitive,
                P::Boolean
                    | P::Float
                    | P::Double
                    | P::Unknown
                    | P::Geometry { .. }
                    | P::Geography { .. }
            ),
            Self::Truncate(_) => {
                matches!(primitive, P::Int | P::Long | P::String | P::Binary | P::Decimal { .. })
            }
            Self::Year | Self::Month | Self::Day => {
                matches!(primitive, P::Date) || is_timestamp(primitive)
            }
            Self::Hour => is_timestamp(primitive),
        }
    }
}

fn is_timestamp(primitive: &PrimitiveType) -> bool {
    matches!(
        primitive,
        PrimitiveType::Timestamp
            | PrimitiveType::Timestamptz
            | PrimitiveType::TimestampNs
            | PrimitiveType::TimestamptzNs
    )
}

/// Splits `name[123]` into name and digits.
fn split_width(text: &str) -> Option<(&str, &str)> {
    let (name, width) = text.strip_suffix(']')?.split_once('[')?;
    let digits = !width.is_empty() && width.bytes().all(|byte| byte.is_ascii_digit());
    digits.then_some((name, width))
}

fn parse_width(digits: &str, what: &str) -> Result<u32, Refusal> {
    match digits.parse::<i32>().ok().and_then(|width| u32::try_from(width).ok()) {
        Some(width) if width > 0 => Ok(width),
        _ => Err(Refusal::invalid(format!("Invalid {what}: {} (must be > 0)", brief(digits)))),
    }
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity => f.write_str("identity"),
            Self::Bucket(number) => write!(f, "bucket[{number}]"),
            Self::Truncate(width) => write!(f, "truncate[{width}]"),
            Self::Year => f.write_str("year"),
            Self::Month => f.write_str("month"),
            Self::Day => f.write_str("day"),
            Self::Hour => f.write_str("hour"),
            Self::Void => f.write_str("void"),
            Self::Unknown(text) => f.write_str(text),
        }
    }
}

//! [`Datum`]: a value of a primitive type, such as a partition value, a bound or a literal.
//!
//! A datum does not contain its type, so that a value rarely has to be converted when the type of
//! its column was promoted. For example, `int` and `long` values have the same representation.
//! Functions that need the type have an argument for it.

pub(crate) mod binary;
pub(crate) mod calendar;
mod json;
pub(crate) mod literal;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::types::PrimitiveType;

const MICROS_PER_DAY: i64 = 86_400_000_000;
const NANOS_PER_MICRO: i64 = 1000;

/// A value of a primitive type. Never null.
#[derive(Debug, Clone)]
pub enum Datum {
    /// `boolean`.
    Boolean(bool),
    /// `int`, `long`, `date` (days), `time` (microseconds) and the timestamps (microseconds or
    /// nanoseconds).
    Integer(i64),
    /// `float` and `double`.
    Float(f64),
    /// `decimal`, unscaled.
    Decimal(i128),
    /// `string`.
    String(Box<str>),
    /// `uuid`.
    Uuid([u8; 16]),
    /// `fixed` and `binary`.
    Bytes(Box<[u8]>),
}

impl Datum {
    /// Creates a `string`.
    pub fn string(text: &str) -> Self {
        Self::String(text.into())
    }

    /// Creates a `fixed` or `binary`.
    pub fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.into())
    }

    /// Converts a value of type `from` to the type `to`, to which the column was promoted. `None`
    /// if the specification does not allow the promotion, or if the value is out of range.
    pub fn promote(self, from: &PrimitiveType, to: &PrimitiveType) -> Option<Self> {
        use PrimitiveType as P;
        match (from, to) {
            (P::Int, P::Long) | (P::Float, P::Double) => Some(self),
            (P::Decimal { scale, .. }, P::Decimal { scale: other, .. }) if scale == other => {
                Some(self)
            }
            (P::Date, P::Timestamp | P::TimestampNs) => self.days_to_timestamp(to),
            _ => (from == to).then_some(self),
        }
    }

    fn days_to_timestamp(self, to: &PrimitiveType) -> Option<Self> {
        let Self::Integer(days) = self else { return None };
        let micros = days.checked_mul(MICROS_PER_DAY)?;
        let factor = if *to == PrimitiveType::TimestampNs { NANOS_PER_MICRO } else { 1 };
        micros.checked_mul(factor).map(Self::Integer)
    }

    /// Whether this is the floating point NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self, Self::Float(number) if number.is_nan())
    }

    /// Compares two values of one type. `None` if the result depends on the engine (NaN, and zeros
    /// with different signs), or if the types differ.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Float(one), Self::Float(other)) => {
                let order = one.partial_cmp(other)?;
                let differs = one.is_sign_negative() != other.is_sign_negative();
                (!(order.is_eq() && differs)).then_some(order)
            }
            (Self::Boolean(one), Self::Boolean(other)) => Some(one.cmp(other)),
            (Self::Integer(one), Self::Integer(other)) => Some(one.cmp(other)),
            (Self::Decimal(one), Self::Decimal(other)) => Some(one.cmp(other)),
            (Self::String(one), Self::String(other)) => Some(one.cmp(other)),
            (Self::Uuid(one), Self::Uuid(other)) => Some(one.cmp(other)),
            (Self::Bytes(one), Self::Bytes(other)) => Some(one.cmp(other)),
            _ => None,
        }
    }

    /// Compares in a total order, in which `-0.0 < 0.0` and NaN is the greatest number.
    pub(crate) fn total_cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Float(one), Self::Float(other)) => canonical(*one).total_cmp(&canonical(*other)),
            _ => self.compare(other).unwrap_or_else(|| self.rank().cmp(&other.rank())),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Boolean(_) => 0,
            Self::Integer(_) => 1,
            Self::Float(_) => 2,
            Self::Decimal(_) => 3,
            Self::String(_) => 4,
            Self::Uuid(_) => 5,
            Self::Bytes(_) => 6,
        }
    }

    /// Returns the bytes of a `string`, `fixed` or `binary`.
    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::String(text) => Some(text.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Returns the number. Replaces every NaN by the same NaN.
fn canonical(number: f64) -> f64 {
    if number.is_nan() { f64::NAN.abs() } else { number }
}

/// Identity of values, as for the keys of partitions: NaN equals NaN, and `-0.0` is not `0.0`.
impl PartialEq for Datum {
    fn eq(&self, other: &Self) -> bool {
        self.total_cmp(other).is_eq()
    }
}

impl Eq for Datum {}

impl Hash for Datum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Self::Boolean(value) => value.hash(state),
            Self::Integer(value) => value.hash(state),
            Self::Float(value) => canonical(*value).to_bits().hash(state),
            Self::Decimal(value) => value.hash(state),
            Self::String(value) => value.hash(state),
            Self::Uuid(value) => value.hash(state),
            Self::Bytes(value) => value.hash(state),
        }
    }
}

#[cfg(test)]
mod tests;

//! The binary single-value serialization ("Appendix D" of the table specification), in which
//! manifests store bounds.

use super::Datum;
use crate::types::PrimitiveType;

impl Datum {
    /// Reads a value of a column whose type is `primitive` now. A shorter value was written before
    /// the column's type was promoted. `None` if the bytes are no value of the type.
    pub fn from_bytes(primitive: &PrimitiveType, bytes: &[u8]) -> Option<Self> {
        use PrimitiveType as P;
        Some(match primitive {
            P::Boolean => Self::Boolean(*exactly::<1>(bytes)?.first()? != 0),
            P::Int | P::Date => Self::Integer(read_i32(bytes)?),
            P::Long => Self::Integer(read_i32(bytes).or_else(|| read_i64(bytes))?),
            P::Time | P::Timestamptz | P::TimestamptzNs => Self::Integer(read_i64(bytes)?),
            P::Timestamp | P::TimestampNs => match read_i32(bytes) {
                Some(days) => Self::Integer(days).days_to_timestamp(primitive)?,
                None => Self::Integer(read_i64(bytes)?),
            },
            P::Float => Self::Float(f32::from_le_bytes(exactly(bytes)?).into()),
            P::Double => Self::Float(match exactly(bytes) {
                Some(float) => f32::from_le_bytes(float).into(),
                None => f64::from_le_bytes(exactly(bytes)?),
            }),
            P::Decimal { .. } => Self::Decimal(read_unscaled(bytes)?),
            P::String => Self::string(std::str::from_utf8(bytes).ok()?),
            P::Uuid => Self::Uuid(exactly(bytes)?),
            P::Fixed(_) | P::Binary => Self::bytes(bytes),
            P::Unknown | P::Geometry { .. } | P::Geography { .. } => return None,
        })
    }

    /// Returns the bytes with which a manifest stores the value for a column of this type.
    pub fn to_bytes(&self, primitive: &PrimitiveType) -> Vec<u8> {
        match self {
            Self::Boolean(value) => vec![u8::from(*value)],
            Self::Integer(value) => match (primitive, i32::try_from(*value)) {
                (PrimitiveType::Int | PrimitiveType::Date, Ok(value)) => {
                    value.to_le_bytes().to_vec()
                }
                _ => value.to_le_bytes().to_vec(),
            },
            Self::Float(value) if *primitive == PrimitiveType::Float => {
                to_float(*value).to_le_bytes().to_vec()
            }
            Self::Float(value) => value.to_le_bytes().to_vec(),
            Self::Decimal(unscaled) => minimal_bytes(*unscaled),
            Self::String(text) => text.as_bytes().to_vec(),
            Self::Uuid(bytes) => bytes.to_vec(),
            Self::Bytes(bytes) => bytes.to_vec(),
        }
    }
}

/// Rounds a number to the nearest `float`.
pub(crate) fn to_float(number: f64) -> f32 {
    number as f32
}

fn exactly<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

fn read_i32(bytes: &[u8]) -> Option<i64> {
    exactly(bytes).map(|bytes| i32::from_le_bytes(bytes).into())
}

fn read_i64(bytes: &[u8]) -> Option<i64> {
    exactly(bytes).map(i64::from_le_bytes)
}

/// Reads a big-endian integer in two's complement, of at most 16 bytes.
fn read_unscaled(bytes: &[u8]) -> Option<i128> {
    let negative = *bytes.first()? >= 0x80;
    let mut whole = [if negative { 0xff } else { 0 }; 16];
    let start = whole.len().checked_sub(bytes.len())?;
    whole.get_mut(start..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(whole))
}

/// Writes an integer in two's complement, big-endian, with the smallest number of bytes.
pub(crate) fn minimal_bytes(unscaled: i128) -> Vec<u8> {
    let bytes = unscaled.to_be_bytes();
    let sign = if unscaled < 0 { 0xff } else { 0 };
    let is_needless = |pair: &[u8]| pair[0] == sign && (pair[1] ^ sign) < 0x80;
    let needless = bytes.windows(2).take_while(|pair| is_needless(pair)).count();
    bytes[needless..].to_vec()
}

//! The values of transforms ("Partition Transforms" and "Appendix B" of the table specification).

use super::Transform;
use crate::types::{PrimitiveType, Type};
use crate::value::Datum;
use crate::value::binary::minimal_bytes;
use crate::value::calendar::{SECONDS_PER_DAY, civil_from_days};

const SECONDS_PER_HOUR: i64 = 3600;

impl Transform {
    /// Returns the type of the transform's values. `None` if they are always null or unknown, or if
    /// the transform does not support the type `source`.
    pub(crate) fn result_type(&self, source: &PrimitiveType) -> Option<PrimitiveType> {
        if !self.can_transform(&Type::Primitive(source.clone())) {
            return None;
        }
        match self {
            Self::Identity | Self::Truncate(_) => Some(source.clone()),
            Self::Bucket(_) | Self::Year | Self::Month | Self::Hour => Some(PrimitiveType::Int),
            Self::Day => Some(PrimitiveType::Date),
            Self::Void | Self::Unknown(_) => None,
        }
    }

    /// Applies the transform to a value of the type `source`. `None` if the result is null or
    /// unknown, or does not fit the type.
    pub fn apply(&self, source: &PrimitiveType, value: &Datum) -> Option<Datum> {
        match self {
            Self::Identity => Some(value.clone()),
            Self::Bucket(buckets) => {
                let hash = i64::from(hash(source, value)? & i32::MAX);
                Some(Datum::Integer(hash % i64::from(*buckets)))
            }
            Self::Truncate(width) => truncate(*width, source, value),
            Self::Year => Some(Datum::Integer(date(source, value)?.0 - 1970)),
            Self::Month => {
                let (year, month, _) = date(source, value)?;
                Some(Datum::Integer((year - 1970) * 12 + month - 1))
            }
            Self::Day => {
                seconds(source, value).map(|it| it.div_euclid(SECONDS_PER_DAY)).map(Datum::Integer)
            }
            Self::Hour => {
                seconds(source, value).map(|it| it.div_euclid(SECONDS_PER_HOUR)).map(Datum::Integer)
            }
            Self::Void | Self::Unknown(_) => None,
        }
    }

    /// Whether the transform preserves the order of values: a greater value never has a smaller
    /// result.
    pub(crate) fn preserves_order(&self) -> bool {
        match self {
            Self::Identity
            | Self::Truncate(_)
            | Self::Year
            | Self::Month
            | Self::Day
            | Self::Hour => true,
            Self::Bucket(_) | Self::Void | Self::Unknown(_) => false,
        }
    }
}

/// Returns the seconds from 1970 to a date or timestamp, rounded down.
fn seconds(source: &PrimitiveType, value: &Datum) -> Option<i64> {
    use PrimitiveType as P;
    let Datum::Integer(value) = value else { return None };
    match source {
        P::Date => value.checked_mul(SECONDS_PER_DAY),
        P::Timestamp | P::Timestamptz => Some(value.div_euclid(1_000_000)),
        P::TimestampNs | P::TimestamptzNs => Some(value.div_euclid(1_000_000_000)),
        _ => None,
    }
}

fn date(source: &PrimitiveType, value: &Datum) -> Option<(i64, i64, i64)> {
    Some(civil_from_days(seconds(source, value)?.div_euclid(SECONDS_PER_DAY)))
}

fn truncate(width: u32, source: &PrimitiveType, value: &Datum) -> Option<Datum> {
    match value {
        Datum::Integer(number) => {
            let width = i64::from(width);
            let result = number.checked_sub(number.rem_euclid(width))?;
            let fits = *source != PrimitiveType::Int || i32::try_from(result).is_ok();
            fits.then_some(Datum::Integer(result))
        }
        Datum::Decimal(unscaled) => {
            let width = i128::from(width);
            unscaled.checked_sub(unscaled.rem_euclid(width)).map(Datum::Decimal)
        }
        Datum::String(text) => {
            let end = text.char_indices().nth(usize::try_from(width).ok()?).map(|(end, _)| end);
            Some(Datum::string(text.get(..end.unwrap_or(text.len()))?))
        }
        Datum::Bytes(bytes) => {
            let length = usize::try_from(width).ok()?.min(bytes.len());
            Some(Datum::bytes(bytes.get(..length)?))
        }
        Datum::Boolean(_) | Datum::Float(_) | Datum::Uuid(_) => None,
    }
}

/// Returns the 32-bit hash of a value.
fn hash(source: &PrimitiveType, value: &Datum) -> Option<i32> {
    use PrimitiveType as P;
    Some(match (source, value) {
        // Nanoseconds are hashed as microseconds, so that a time has the same bucket in both types.
        (P::TimestampNs | P::TimestamptzNs, Datum::Integer(nanos)) => {
            murmur3(&nanos.div_euclid(1000).to_le_bytes())
        }
        (_, Datum::Integer(value)) => murmur3(&value.to_le_bytes()),
        (_, Datum::Decimal(unscaled)) => murmur3(&minimal_bytes(*unscaled)),
        (_, Datum::String(text)) => murmur3(text.as_bytes()),
        (_, Datum::Uuid(bytes)) => murmur3(bytes),
        (_, Datum::Bytes(bytes)) => murmur3(bytes),
        (_, Datum::Boolean(_) | Datum::Float(_)) => return None,
    })
}

/// Murmur3, x86 variant, 32 bits, seed 0.
fn murmur3(bytes: &[u8]) -> i32 {
    let mut hash: u32 = 0;
    let (blocks, tail) = bytes.as_chunks::<4>();
    for block in blocks {
        hash ^= mix(u32::from_le_bytes(*block));
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let mut block = [0; 4];
        block[..tail.len()].copy_from_slice(tail);
        hash ^= mix(u32::from_le_bytes(block));
    }
    // The algorithm takes the length modulo 2^32.
    hash ^= bytes.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    (hash ^ (hash >> 16)).cast_signed()
}

fn mix(block: u32) -> u32 {
    block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

#[cfg(test)]
mod tests;

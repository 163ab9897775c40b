//! Keys of the indexes of locations and UUIDs.

use uuid::Uuid;

use super::encoding::{ID_BYTES, Key, rest_of, split_tuple, tuple, utf8};
use crate::key_space::KeySpace;
use crate::records::IndexEntry;

/// A location with files of a table or view. A zero byte ends each part of the location, and no
/// part contains a zero byte. So the keys of all locations inside a location begin with the encoded
/// parts of the outer location. The byte 0x01 follows the last part. No part can begin with this
/// byte, so it shows where the location ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocationKey {
    /// The store, the bucket, and the segments of the path.
    pub parts: Vec<String>,
    /// Id of the table or view.
    pub id: Uuid,
}

/// Byte after each part of a location.
const PART_END: u8 = 0x00;
/// Byte between the last part and the id.
const LOCATION_END: u8 = 0x01;

impl LocationKey {
    /// Returns the prefix of all keys at this location or below it.
    pub fn below(parts: &[String]) -> Vec<u8> {
        let mut key = vec![KeySpace::Locations.byte()];
        for part in parts {
            key.extend_from_slice(part.as_bytes());
            key.push(PART_END);
        }
        key
    }

    /// Returns the prefix of all keys at exactly this location.
    pub fn at(parts: &[String]) -> Vec<u8> {
        let mut key = Self::below(parts);
        key.push(LOCATION_END);
        key
    }
}

impl Key for LocationKey {
    type Value = IndexEntry;

    fn encode(&self) -> Vec<u8> {
        let mut key = Self::at(&self.parts);
        key.extend_from_slice(self.id.as_bytes());
        key
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (location, id) = bytes.split_at_checked(bytes.len().checked_sub(ID_BYTES)?)?;
        let rest = rest_of(location, KeySpace::Locations)?.strip_suffix(&[LOCATION_END])?;
        let parts = match rest.strip_suffix(&[PART_END]) {
            Some(parts) => parts.split(|byte| *byte == PART_END).map(utf8).collect(),
            None => rest.is_empty().then(Vec::new),
        };
        Some(Self { parts: parts?, id: Uuid::from_slice(id).ok()? })
    }
}

/// A UUID in the metadata of a table or view. Several tables may have the same UUID, if one
/// metadata file was registered several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UuidKey {
    /// The `table-uuid` or `view-uuid`.
    pub uuid: Uuid,
    /// Id of the table or view.
    pub id: Uuid,
}

impl Key for UuidKey {
    type Value = IndexEntry;

    fn encode(&self) -> Vec<u8> {
        tuple(KeySpace::Uuids, self.uuid, self.id.as_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (uuid, id) = split_tuple(bytes, KeySpace::Uuids)?;
        Some(Self { uuid, id: Uuid::from_slice(id).ok()? })
    }
}

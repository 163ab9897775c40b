//! [`Key`], and the order-preserving encoding of keys.

use uuid::Uuid;

use crate::codec::Value;
use crate::key_space::{CacheRule, KeySpace};

/// A key of a record.
pub trait Key: Sized + Send + Sync {
    /// Type of the record.
    type Value: Value;
    /// Encodes the key.
    fn encode(&self) -> Vec<u8>;
    /// Decodes a key. `None` if the bytes are not a key of this space.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

pub(super) const ID_BYTES: usize = 16;

/// Length of the part of a key before the name: the byte of the space, and the parent's id.
pub(crate) const NAME_PARENT_BYTES: usize = 1 + ID_BYTES;

/// Returns the part of a key before the name. `None` if the key does not begin with the id of a
/// parent that has names.
pub(crate) fn parent_of_name(key: &[u8]) -> Option<&[u8]> {
    match KeySpace::of(key)?.rules().cache {
        CacheRule::RecordsAndPages => key.get(..NAME_PARENT_BYTES),
        CacheRule::None | CacheRule::Records => None,
    }
}

pub(super) fn tuple(space: KeySpace, id: Uuid, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + ID_BYTES + rest.len());
    key.push(space.byte());
    key.extend_from_slice(id.as_bytes());
    key.extend_from_slice(rest);
    key
}

/// Returns the part of a key after the byte of its space. `None` if the key is of another space.
pub(super) fn rest_of(bytes: &[u8], space: KeySpace) -> Option<&[u8]> {
    let (&first, rest) = bytes.split_first()?;
    (first == space.byte()).then_some(rest)
}

pub(super) fn split_tuple(bytes: &[u8], space: KeySpace) -> Option<(Uuid, &[u8])> {
    let (id, rest) = rest_of(bytes, space)?.split_at_checked(ID_BYTES)?;
    Some((Uuid::from_slice(id).ok()?, rest))
}

pub(super) fn utf8(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

//! Every key of the store: one leading byte for its space, then the parts of an order-preserving tuple.
//!
//! | byte | space | rest of the key | value |
//! |---|---|---|---|
//! | 0x01 | store | – | [`StoreFormat`] |
//! | 0x10 | warehouse names | name | [`WarehouseRecord`] |
//! | 0x20 | namespace names | parent id, name | [`NameEntry`] |
//! | 0x21 | namespaces | id | [`NamespaceRecord`] |
//! | 0x30 | table names | namespace id, name | [`NameEntry`] |
//! | 0x31 | view names | namespace id, name | [`NameEntry`] |
//! | 0x32 | tables and views | id | [`TabularRecord`] |
//! | 0x33 | metadata | id | [`Head`] |
//! | 0x34 | pieces of metadata | id, hash | [`PieceText`] |
//! | 0x35 | places | parts of a location, id of a table or view | [`NameEntry`] |
//! | 0x36 | UUIDs | `table-uuid` or `view-uuid`, id of a table or view | [`NameEntry`] |
//! | 0x40 | publications | id, version | [`Publication`] |
//! | 0x41 | jobs | id | [`Job`] |
//! | 0x42 | jobs that have ended | id | [`Job`] |
//! | 0x50 | idempotency | key, principal | [`IdempotencyRecord`] |
//! | 0x60 | change log | sequence number | [`Change`] |
//! | 0x70 | head of the policy log | – | [`PolicyHead`] |
//! | 0x71 | policy log | revision's number | [`PolicyRevision`] |
//! | 0x72 | policies | id | [`PolicyRecord`] |
//! | 0x73 | grants | id | [`GrantRecord`] |
//! | 0x80 | API keys | id | [`ApiKeyRecord`] |
//! | 0x81 | signing keys | id | [`SigningKeyRecord`] |
//! | 0x82 | revoked API keys | id | [`RevokedKeyRecord`] |
//!
//! An id is 16 bytes and a name always stands last, so that no two tuples share a key whatever the
//! names hold, and the names below one parent lie side by side in their own order. The parent of a
//! top-level namespace is its warehouse.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::codec::{Head, PieceText, Value};
use super::jobs::Job;
use super::records::{
    ApiKeyRecord, Change, GrantRecord, IdempotencyRecord, NameEntry, NamespaceRecord, PolicyHead,
    PolicyRecord, PolicyRevision, Publication, RevokedKeyRecord, SigningKeyRecord, StoreFormat,
    TabularRecord, WarehouseRecord,
};
use slateberg_model::ident::TabularKind;
use slateberg_model::text::PieceHash;

/// A key, and the record that it holds.
pub trait Key: Sized + Send + Sync {
    /// What the key holds.
    type Value: Value;
    /// The key's bytes.
    fn encode(&self) -> Vec<u8>;
    /// The key with these bytes, if they are one of this space.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// Leading bytes of the spaces.
pub mod space {
    #![allow(missing_docs, reason = "the table at the head of the file says what each holds")]
    pub const STORE: u8 = 0x01;
    pub const WAREHOUSE_NAMES: u8 = 0x10;
    pub const NAMESPACE_NAMES: u8 = 0x20;
    pub const NAMESPACES: u8 = 0x21;
    pub const TABLE_NAMES: u8 = 0x30;
    pub const VIEW_NAMES: u8 = 0x31;
    pub const TABULARS: u8 = 0x32;
    pub const METADATA: u8 = 0x33;
    pub const METADATA_PIECES: u8 = 0x34;
    pub const PLACES: u8 = 0x35;
    pub const UUIDS: u8 = 0x36;
    pub const PUBLICATIONS: u8 = 0x40;
    pub const JOBS: u8 = 0x41;
    pub const ENDED_JOBS: u8 = 0x42;
    pub const IDEMPOTENCY: u8 = 0x50;
    pub const CHANGES: u8 = 0x60;
    pub const POLICY_HEAD: u8 = 0x70;
    pub const POLICY_LOG: u8 = 0x71;
    pub const POLICIES: u8 = 0x72;
    pub const GRANTS: u8 = 0x73;
    pub const API_KEYS: u8 = 0x80;
    pub const SIGNING_KEYS: u8 = 0x81;
    pub const REVOKED_KEYS: u8 = 0x82;

    /// Spaces of small records that every request asks for: those that are kept in process.
    pub const KEPT: [u8; 5] = [NAMESPACE_NAMES, NAMESPACES, TABLE_NAMES, VIEW_NAMES, TABULARS];
}

const ID_BYTES: usize = 16;

/// How many bytes of the key of a name stand before it: its space and its parent's id.
pub(super) const NAME_PARENT_BYTES: usize = 1 + ID_BYTES;

/// Whether what stands at a key is kept in process.
pub(super) fn is_kept(key: &[u8]) -> bool {
    key.first().is_some_and(|space| space::KEPT.contains(space))
}

fn tuple(space: u8, id: Uuid, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + ID_BYTES + rest.len());
    key.push(space);
    key.extend_from_slice(id.as_bytes());
    key.extend_from_slice(rest);
    key
}

fn split_tuple(bytes: &[u8], space: u8) -> Option<(Uuid, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (id, rest) = rest.split_at_checked(ID_BYTES)?;
    (first == space).then_some((Uuid::from_slice(id).ok()?, rest))
}

/// The one key of the store's own record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreKey;

impl Key for StoreKey {
    type Value = StoreFormat;

    fn encode(&self) -> Vec<u8> {
        vec![space::STORE]
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        (bytes == [space::STORE]).then_some(Self)
    }
}

/// The one key of the head of the policy log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyHeadKey;

impl Key for PolicyHeadKey {
    type Value = PolicyHead;

    fn encode(&self) -> Vec<u8> {
        vec![space::POLICY_HEAD]
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        (bytes == [space::POLICY_HEAD]).then_some(Self)
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// A warehouse, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarehouseKey(pub String);

/// A policy that was made at run time, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyKey(pub String);

macro_rules! text_key {
    ($key:ident, $space:expr, $value:ty) => {
        impl Key for $key {
            type Value = $value;

            fn encode(&self) -> Vec<u8> {
                let mut key = vec![$space];
                key.extend_from_slice(self.0.as_bytes());
                key
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                let (&first, name) = bytes.split_first()?;
                (first == $space).then_some(Self(text(name)?))
            }
        }
    };
}

text_key!(WarehouseKey, space::WAREHOUSE_NAMES, WarehouseRecord);
text_key!(PolicyKey, space::POLICIES, PolicyRecord);

/// A namespace's name below its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceNameKey {
    /// The parent namespace's id, or the warehouse's.
    pub parent: Uuid,
    /// The namespace's own level.
    pub name: String,
}

impl Key for NamespaceNameKey {
    type Value = NameEntry;

    fn encode(&self) -> Vec<u8> {
        tuple(space::NAMESPACE_NAMES, self.parent, self.name.as_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (parent, name) = split_tuple(bytes, space::NAMESPACE_NAMES)?;
        Some(Self { parent, name: text(name)? })
    }
}

/// A namespace, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceKey(pub Uuid);

/// A table or view, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TabularKey(pub Uuid);

/// The metadata of a table or view, by its id. Read it with [`Read::document`](super::read::Read), which
/// puts its pieces together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataKey(pub Uuid);

/// A background job, by its (time-ordered) id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobKey(pub Uuid);

/// A background job that has ended, by its (time-ordered) id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedJobKey(pub Uuid);

/// A grant, by its (time-ordered) id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantKey(pub Uuid);

/// An API key, by its (time-ordered) id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiKeyKey(pub Uuid);

/// A revoked API key, by its (time-ordered) id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevokedKeyKey(pub Uuid);

/// A key that slateberg signs its own tokens with, by its (time-ordered) id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SigningKeyKey(pub Uuid);

macro_rules! id_key {
    ($key:ident, $space:expr, $value:ty) => {
        impl Key for $key {
            type Value = $value;

            fn encode(&self) -> Vec<u8> {
                tuple($space, self.0, &[])
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                let (id, rest) = split_tuple(bytes, $space)?;
                rest.is_empty().then_some(Self(id))
            }
        }
    };
}

id_key!(NamespaceKey, space::NAMESPACES, NamespaceRecord);
id_key!(TabularKey, space::TABULARS, TabularRecord);
id_key!(MetadataKey, space::METADATA, Head);
id_key!(JobKey, space::JOBS, Job);
id_key!(EndedJobKey, space::ENDED_JOBS, Job);
id_key!(GrantKey, space::GRANTS, GrantRecord);
id_key!(ApiKeyKey, space::API_KEYS, ApiKeyRecord);
id_key!(SigningKeyKey, space::SIGNING_KEYS, SigningKeyRecord);
id_key!(RevokedKeyKey, space::REVOKED_KEYS, RevokedKeyRecord);

/// A piece of the metadata of a table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceKey {
    /// The table's or view's id.
    pub id: Uuid,
    /// What the piece is known by.
    pub hash: PieceHash,
}

impl Key for PieceKey {
    type Value = PieceText;

    fn encode(&self) -> Vec<u8> {
        tuple(space::METADATA_PIECES, self.id, &self.hash.0)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, hash) = split_tuple(bytes, space::METADATA_PIECES)?;
        Some(Self { id, hash: PieceHash(hash.try_into().ok()?) })
    }
}

/// The name of a table or view in its namespace. Each kind has a space of its own, so that a page of
/// tables costs no view; that no table and no view share a name is an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TabularNameKey {
    /// Which of the two spaces.
    pub kind: TabularKind,
    /// The namespace's id.
    pub namespace: Uuid,
    /// The name.
    pub name: String,
}

/// The space of the names of one kind.
pub fn tabular_names(kind: TabularKind) -> u8 {
    match kind {
        TabularKind::Table => space::TABLE_NAMES,
        TabularKind::View => space::VIEW_NAMES,
    }
}

impl Key for TabularNameKey {
    type Value = NameEntry;

    fn encode(&self) -> Vec<u8> {
        tuple(tabular_names(self.kind), self.namespace, self.name.as_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let kind = match *bytes.first()? {
            space::TABLE_NAMES => TabularKind::Table,
            space::VIEW_NAMES => TabularKind::View,
            _ => return None,
        };
        let (namespace, name) = split_tuple(bytes, tabular_names(kind))?;
        Some(Self { kind, namespace, name: text(name)? })
    }
}

/// A place where a table or view has files. The parts of a location follow each other, each with a zero byte
/// behind it, which none of them holds: so that whatever lies below a place has keys that begin with its
/// parts, and whatever is at the place itself has a mark behind them that begins no part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceKey {
    /// The store, the bucket in it, and the segments of the path.
    pub parts: Vec<String>,
    /// The table's or view's id.
    pub id: Uuid,
}

/// Ends each part of a place.
const PART_END: u8 = 0x00;
/// Stands behind the last part, before the id.
const PLACE_END: u8 = 0x01;

impl PlaceKey {
    /// What the keys of all begin with that are at this place or below it.
    pub fn below(parts: &[String]) -> Vec<u8> {
        let mut key = vec![space::PLACES];
        for part in parts {
            key.extend_from_slice(part.as_bytes());
            key.push(PART_END);
        }
        key
    }

    /// What the keys of all begin with that are at just this place.
    pub fn at(parts: &[String]) -> Vec<u8> {
        let mut key = Self::below(parts);
        key.push(PLACE_END);
        key
    }
}

impl Key for PlaceKey {
    type Value = NameEntry;

    fn encode(&self) -> Vec<u8> {
        let mut key = Self::at(&self.parts);
        key.extend_from_slice(self.id.as_bytes());
        key
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (place, id) = bytes.split_at_checked(bytes.len().checked_sub(ID_BYTES)?)?;
        let (&first, rest) = place.split_first()?;
        let rest = rest.strip_suffix(&[PLACE_END]).filter(|_| first == space::PLACES)?;
        let parts = match rest.strip_suffix(&[PART_END]) {
            Some(parts) => parts.split(|byte| *byte == PART_END).map(text).collect(),
            None => rest.is_empty().then(Vec::new),
        };
        Some(Self { parts: parts?, id: Uuid::from_slice(id).ok()? })
    }
}

/// A UUID that a table or view has in its metadata: those that are registered twice share theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UuidKey {
    /// The `table-uuid` or `view-uuid`.
    pub uuid: Uuid,
    /// The table's or view's id.
    pub id: Uuid,
}

impl Key for UuidKey {
    type Value = NameEntry;

    fn encode(&self) -> Vec<u8> {
        tuple(space::UUIDS, self.uuid, self.id.as_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (uuid, id) = split_tuple(bytes, space::UUIDS)?;
        Some(Self { uuid, id: Uuid::from_slice(id).ok()? })
    }
}

/// A publication: of which table or view, and which version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PublicationKey {
    /// The table's or view's id.
    pub id: Uuid,
    /// The record's version.
    pub version: u64,
}

impl Key for PublicationKey {
    type Value = Publication;

    fn encode(&self) -> Vec<u8> {
        tuple(space::PUBLICATIONS, self.id, &self.version.to_be_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, version) = split_tuple(bytes, space::PUBLICATIONS)?;
        Some(Self { id, version: u64::from_be_bytes(version.try_into().ok()?) })
    }
}

/// An `Idempotency-Key`, and whose it is: nobody is answered with another's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The header's value.
    pub key: Uuid,
    /// The principal's id.
    pub principal: String,
}

impl Key for IdempotencyKey {
    type Value = IdempotencyRecord;

    fn encode(&self) -> Vec<u8> {
        tuple(space::IDEMPOTENCY, self.key, self.principal.as_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (key, principal) = split_tuple(bytes, space::IDEMPOTENCY)?;
        Some(Self { key, principal: text(principal)? })
    }
}

/// An entry of the change log, by its sequence number: growing, with gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeKey(pub u64);

/// A revision of the policy log, by its number: from 1, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyRevisionKey(pub u64);

macro_rules! number_key {
    ($key:ident, $space:expr, $value:ty) => {
        impl Key for $key {
            type Value = $value;

            fn encode(&self) -> Vec<u8> {
                let mut key = vec![$space];
                key.extend_from_slice(&self.0.to_be_bytes());
                key
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                let (&first, rest) = bytes.split_first()?;
                let number = u64::from_be_bytes(rest.try_into().ok()?);
                (first == $space).then_some(Self(number))
            }
        }
    };
}

number_key!(ChangeKey, space::CHANGES, Change);
number_key!(PolicyRevisionKey, space::POLICY_LOG, PolicyRevision);

#[cfg(test)]
mod tests;

//! Keys of the store. A key is one byte for the key space, followed by the order-preserving
//! encoding of a tuple. [`KeySpace`] lists the key spaces, and `docs/storage-layout.md` has a table
//! of them.
//!
//! An id has 16 bytes, and a name is always the last part. Therefore different tuples always have
//! different keys, regardless of the characters in names. The names below one parent are adjacent
//! and in order. The parent of a top-level namespace is its warehouse.

use uuid::Uuid;

use super::codec::{ChunkBytes, DocumentHead, Value};
use super::dropped::{DroppedNamespace, DroppedTabular};
use super::functions::FunctionRecord;
use super::jobs::{AbandonedFiles, Job};
use super::key_space::KeySpace;
pub use super::records::PublicationKey;
use super::records::{
    ApiKeyRecord, Change, GrantRecord, IdempotencyRecord, IndexEntry, NameEntry, NamespaceRecord,
    PolicyHead, PolicyRecord, PolicyRevision, ProtectionRecord, Publication, RevokedKeyRecord,
    SigningKeyRecord, StoreFormat, TabularRecord, WarehouseRecord,
};
use super::usage::UsageRecord;
use super::webhooks::{WebhookCursor, WebhookRecord};
use slateberg_model::ident::TabularKind;
use slateberg_model::segmented_json::ChunkHash;

/// A key of a record.
pub trait Key: Sized + Send + Sync {
    /// Type of the record.
    type Value: Value;
    /// Encodes the key.
    fn encode(&self) -> Vec<u8>;
    /// Decodes a key. `None` if the bytes are not a key of this space.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

const ID_BYTES: usize = 16;

/// Length of the part of a key before the name: the byte of the space, and the parent's id.
pub(super) const NAME_PARENT_BYTES: usize = 1 + ID_BYTES;

fn tuple(space: KeySpace, id: Uuid, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + ID_BYTES + rest.len());
    key.push(space.byte());
    key.extend_from_slice(id.as_bytes());
    key.extend_from_slice(rest);
    key
}

/// Returns the part of a key after the byte of its space. `None` if the key is of another space.
fn rest_of(bytes: &[u8], space: KeySpace) -> Option<&[u8]> {
    let (&first, rest) = bytes.split_first()?;
    (first == space.byte()).then_some(rest)
}

fn split_tuple(bytes: &[u8], space: KeySpace) -> Option<(Uuid, &[u8])> {
    let (id, rest) = rest_of(bytes, space)?.split_at_checked(ID_BYTES)?;
    Some((Uuid::from_slice(id).ok()?, rest))
}

/// Key of the store's own record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreKey;

/// Key of the head of the policy log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyHeadKey;

macro_rules! single_key {
    ($key:ident, $space:expr, $value:ty) => {
        impl Key for $key {
            type Value = $value;

            fn encode(&self) -> Vec<u8> {
                vec![$space.byte()]
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                (bytes == [$space.byte()]).then_some(Self)
            }
        }
    };
}

single_key!(StoreKey, KeySpace::Store, StoreFormat);
single_key!(PolicyHeadKey, KeySpace::PolicyHead, PolicyHead);

fn utf8(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// A warehouse, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarehouseKey(pub String);

/// A policy that was created at run time, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyKey(pub String);

macro_rules! string_key {
    ($key:ident, $space:expr, $value:ty) => {
        impl Key for $key {
            type Value = $value;

            fn encode(&self) -> Vec<u8> {
                let mut key = vec![$space.byte()];
                key.extend_from_slice(self.0.as_bytes());
                key
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                Some(Self(utf8(rest_of(bytes, $space)?)?))
            }
        }
    };
}

string_key!(WarehouseKey, KeySpace::WarehouseNames, WarehouseRecord);
string_key!(PolicyKey, KeySpace::Policies, PolicyRecord);

/// A namespace's name below its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceNameKey {
    /// Id of the parent namespace, or of the warehouse.
    pub parent: Uuid,
    /// Last level of the namespace.
    pub name: String,
}

impl Key for NamespaceNameKey {
    type Value = NameEntry;

    fn encode(&self) -> Vec<u8> {
        tuple(KeySpace::NamespaceNames, self.parent, self.name.as_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (parent, name) = split_tuple(bytes, KeySpace::NamespaceNames)?;
        Some(Self { parent, name: utf8(name)? })
    }
}

/// A namespace, by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceKey(pub Uuid);

/// A table or view, by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TabularKey(pub Uuid);

/// A dropped table or view, by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedKey(pub Uuid);

/// A dropped namespace, by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedNamespaceKey(pub Uuid);

/// Protection of a warehouse or of something in it, by the id of that resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtectionKey(pub Uuid);

/// Head of the metadata of a table or view, by id. `StoreRead::document` adds the chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataKey(pub Uuid);

/// A background job, by its time-ordered id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobKey(pub Uuid);

/// A completed background job, by its time-ordered id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedJobKey(pub Uuid);

/// The use of a table or view, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageKey(pub Uuid);

/// Files that a rebase has left behind, by a time-ordered id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbandonedKey(pub Uuid);

/// A grant, by its time-ordered id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantKey(pub Uuid);

/// An API key, by its time-ordered id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiKeyKey(pub Uuid);

/// A revoked API key, by its time-ordered id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevokedKeyKey(pub Uuid);

/// A key that signs slateberg's own tokens, by its time-ordered id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SigningKeyKey(pub Uuid);

/// A webhook, by its time-ordered id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookKey(pub Uuid);

/// The position of a webhook in the change feed, by the id of the webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookCursorKey(pub Uuid);

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

id_key!(NamespaceKey, KeySpace::Namespaces, NamespaceRecord);
id_key!(TabularKey, KeySpace::Tabulars, TabularRecord);
id_key!(DroppedKey, KeySpace::Dropped, DroppedTabular);
id_key!(DroppedNamespaceKey, KeySpace::DroppedNamespaces, DroppedNamespace);
id_key!(ProtectionKey, KeySpace::Protections, ProtectionRecord);
id_key!(MetadataKey, KeySpace::Metadata, DocumentHead);
id_key!(JobKey, KeySpace::Jobs, Job);
id_key!(EndedJobKey, KeySpace::EndedJobs, Job);
id_key!(AbandonedKey, KeySpace::Abandoned, AbandonedFiles);
id_key!(UsageKey, KeySpace::Usage, UsageRecord);
id_key!(GrantKey, KeySpace::Grants, GrantRecord);
id_key!(ApiKeyKey, KeySpace::ApiKeys, ApiKeyRecord);
id_key!(SigningKeyKey, KeySpace::SigningKeys, SigningKeyRecord);
id_key!(RevokedKeyKey, KeySpace::RevokedKeys, RevokedKeyRecord);
id_key!(WebhookKey, KeySpace::Webhooks, WebhookRecord);
id_key!(WebhookCursorKey, KeySpace::WebhookCursors, WebhookCursor);

/// A chunk of the metadata of a table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkKey {
    /// Id of the table or view.
    pub id: Uuid,
    /// Hash of the chunk.
    pub hash: ChunkHash,
}

impl Key for ChunkKey {
    type Value = ChunkBytes;

    fn encode(&self) -> Vec<u8> {
        tuple(KeySpace::MetadataChunks, self.id, &self.hash.0)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, hash) = split_tuple(bytes, KeySpace::MetadataChunks)?;
        Some(Self { id, hash: ChunkHash(hash.try_into().ok()?) })
    }
}

/// The name of a table or view in its namespace. Each kind has its own space, so that a page of
/// tables reads no views. An invariant ensures that no table and view share a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TabularNameKey {
    /// Kind, which determines the space.
    pub kind: TabularKind,
    /// Id of the namespace.
    pub namespace: Uuid,
    /// Name in the namespace.
    pub name: String,
}

/// Returns the key space of the names of a kind.
pub fn tabular_names(kind: TabularKind) -> KeySpace {
    match kind {
        TabularKind::Table => KeySpace::TableNames,
        TabularKind::View => KeySpace::ViewNames,
    }
}

impl Key for TabularNameKey {
    type Value = NameEntry;

    fn encode(&self) -> Vec<u8> {
        tuple(tabular_names(self.kind), self.namespace, self.name.as_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let kind = match KeySpace::of(bytes)? {
            KeySpace::TableNames => TabularKind::Table,
            KeySpace::ViewNames => TabularKind::View,
            _ => return None,
        };
        let (namespace, name) = split_tuple(bytes, tabular_names(kind))?;
        Some(Self { kind, namespace, name: utf8(name)? })
    }
}

macro_rules! function_key {
    ($(#[$doc:meta])* $key:ident, $space:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $key {
            /// Id of the namespace.
            pub namespace: Uuid,
            /// Name in the namespace.
            pub name: String,
        }

        impl Key for $key {
            type Value = FunctionRecord;

            fn encode(&self) -> Vec<u8> {
                tuple($space, self.namespace, self.name.as_bytes())
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                let (namespace, name) = split_tuple(bytes, $space)?;
                Some(Self { namespace, name: utf8(name)? })
            }
        }
    };
}

function_key!(
    /// A function, by its name in its namespace.
    FunctionKey,
    KeySpace::Functions
);
function_key!(
    /// A function that was dropped with its namespace, by its name in this namespace.
    DroppedFunctionKey,
    KeySpace::DroppedFunctions
);

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

impl Key for PublicationKey {
    type Value = Publication;

    fn encode(&self) -> Vec<u8> {
        tuple(KeySpace::Publications, self.id, &self.version.to_be_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, version) = split_tuple(bytes, KeySpace::Publications)?;
        Some(Self { id, version: u64::from_be_bytes(version.try_into().ok()?) })
    }
}

/// An `Idempotency-Key` and its principal, so that a principal never gets the response of another
/// principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Value of the header.
    pub key: Uuid,
    /// Id of the principal.
    pub principal: String,
}

impl Key for IdempotencyKey {
    type Value = IdempotencyRecord;

    fn encode(&self) -> Vec<u8> {
        tuple(KeySpace::Idempotency, self.key, self.principal.as_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (key, principal) = split_tuple(bytes, KeySpace::Idempotency)?;
        Some(Self { key, principal: utf8(principal)? })
    }
}

/// An entry of the change log, by its sequence number. The numbers increase, but may have gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeKey(pub u64);

/// A revision of the policy log, by its number. The numbers begin with 1 and have no gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyRevisionKey(pub u64);

macro_rules! number_key {
    ($key:ident, $space:expr, $value:ty) => {
        impl Key for $key {
            type Value = $value;

            fn encode(&self) -> Vec<u8> {
                let mut key = vec![$space.byte()];
                key.extend_from_slice(&self.0.to_be_bytes());
                key
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                Some(Self(u64::from_be_bytes(rest_of(bytes, $space)?.try_into().ok()?)))
            }
        }
    };
}

number_key!(ChangeKey, KeySpace::Changes, Change);
number_key!(PolicyRevisionKey, KeySpace::PolicyLog, PolicyRevision);

#[cfg(test)]
mod tests;

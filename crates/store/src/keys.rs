//! Keys of the store. A key is one byte for the key space, followed by the order-preserving
//! encoding of a tuple. [`KeySpace`] lists the key spaces, and `docs/storage-layout.md` has a table
//! of them.
//!
//! An id has 16 bytes, and a name is always the last part. Therefore different tuples always have
//! different keys, regardless of the characters in names. The names below one parent are adjacent
//! and in order. The parent of a top-level namespace is its warehouse.

mod encoding;
mod index;

use uuid::Uuid;

pub use self::encoding::Key;
pub(super) use self::encoding::{NAME_PARENT_BYTES, parent_of_name};
use self::encoding::{rest_of, split_tuple, tuple, utf8};
pub use self::index::{LocationKey, UuidKey};
use super::codec::{ChunkBytes, DocumentHead};
use super::dropped::{DroppedNamespace, DroppedTabular};
use super::functions::FunctionRecord;
use super::jobs::{AbandonedFiles, Job, OrphanSearch};
use super::key_space::KeySpace;
use super::labels::LabelsRecord;
use super::metrics_reports::MetricsReportsRecord;
pub use super::records::PublicationKey;
use super::records::{
    ApiKeyRecord, Change, GrantRecord, IdempotencyRecord, NameEntry, NamespaceRecord, PolicyHead,
    PolicyRecord, PolicyRevision, ProtectionRecord, Publication, RevokedKeyRecord,
    SigningKeyRecord, StoreFormat, TabularRecord, WarehouseRecord,
};
use super::usage::UsageRecord;
use super::watch_cursors::WatchCursor;
use super::webhooks::{WebhookCursor, WebhookRecord};
use slateberg_model::ident::TabularKind;
use slateberg_model::segmented_json::ChunkHash;

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

/// A warehouse, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarehouseKey(pub String);

/// A policy that was created at run time, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyKey(pub String);

/// The position of a consumer of the change feed, by the name of the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchCursorKey(pub String);

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
string_key!(WatchCursorKey, KeySpace::WatchCursors, WatchCursor);

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

/// The last scheduled search for the orphans of a table, by the id of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrphanSearchKey(pub Uuid);

/// The labels of a table or view and of its columns, by the id of the table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelsKey(pub Uuid);

/// The newest metrics reports of a table, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsReportsKey(pub Uuid);

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
id_key!(OrphanSearchKey, KeySpace::OrphanSearches, OrphanSearch);
id_key!(LabelsKey, KeySpace::Labels, LabelsRecord);
id_key!(MetricsReportsKey, KeySpace::MetricsReports, MetricsReportsRecord);
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

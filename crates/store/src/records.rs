//! The records: what the catalog keeps of each thing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::codec::{DecodeError, Value, decode_json, encode_json};
use super::error::Error;
use super::jobs::Job;
use slateberg_authz::decide::Decision;
use slateberg_base::secret::Secret;
use slateberg_model::ident::TabularKind;
use slateberg_model::warehouse::FileAccess;

macro_rules! json_records {
    ($($record:ty),*) => {
        $(
            impl Value for $record {
                fn encode(&self) -> Vec<u8> {
                    encode_json(self)
                }

                fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
                    decode_json(bytes)
                }
            }
        )*
    };
}

json_records!(
    StoreFormat,
    WarehouseRecord,
    NameEntry,
    NamespaceRecord,
    TabularRecord,
    Publication,
    Job,
    IdempotencyRecord,
    Change,
    PolicyHead,
    PolicyRevision,
    PolicyRecord,
    GrantRecord,
    ApiKeyRecord,
    RevokedKeyRecord,
    SigningKeyRecord
);

/// The newest format of the store that this binary reads and writes. Since 2, metadata has pieces;
/// since 3, the log of a store in a local directory is a journal; since 4, the places of tables and views
/// have keys of their own; since 5, their UUIDs have, and jobs know how far they have come.
pub const FORMAT_VERSION: u32 = 5;
/// The format of clones: the same as [`FORMAT_VERSION`], and binaries that would delete the files of a
/// clone's tables, because they know of no clones, refuse it.
pub const FORMAT_OF_CLONES: u32 = 6;
/// Since this one, the places of tables and views have keys.
pub const FORMAT_WITH_PLACES: u32 = 4;
/// Since this one, their UUIDs have.
pub const FORMAT_WITH_UUIDS: u32 = 5;

/// The store's own record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreFormat {
    /// The format of the records and keys; an older binary refuses a newer one.
    pub format_version: u32,
    /// The identity of this catalog, minted when the store was made.
    pub catalog_id: Uuid,
    /// When that was.
    pub created_ms: i64,
    /// Of what this store is a clone; none if it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_of: Option<CloneOf>,
    /// What tells versions from those of the same tables that another run of time has counted; none if there
    /// was only one so far. Each restore, each import and each clone begins a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Uuid>,
}

impl StoreFormat {
    /// The newest format that this binary knows of such a store.
    pub fn newest(&self) -> u32 {
        if self.clone_of.is_some() { FORMAT_OF_CLONES } else { FORMAT_VERSION }
    }

    /// Refuses what a newer binary has written.
    pub fn check(&self) -> Result<(), Error> {
        let (found, known) = (self.format_version, self.newest());
        if found > known { Err(Error::NewerFormat { found, known }) } else { Ok(()) }
    }
}

/// Of what a store is a clone. As long as this stands in a store, no file of a table is deleted for it: the
/// parent, or the clone, may need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloneOf {
    /// The URL of the parent's state. There is no secret in it.
    pub parent_url: String,
    /// The identity of the parent's catalog.
    pub parent_catalog: Uuid,
    /// The checkpoint in the parent that keeps what the clone shares with it.
    pub pin: Uuid,
    /// What that is called there.
    pub pin_name: String,
    /// The checkpoint that was cloned, by its name or else its id; none if none was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// When the state was made that was cloned.
    pub as_of_ms: i64,
    /// When the clone was made.
    pub cloned_ms: i64,
}

/// A warehouse that the catalog has served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarehouseRecord {
    /// Its identity, minted when it was first configured or made.
    pub id: Uuid,
    /// The location that it was made with, or last configured with.
    pub location: String,
    /// When it was first configured or made.
    pub created_ms: i64,
    /// All the rest, if it was made at run time; none for one of the configuration, which says it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<WarehouseDefinition>,
}

/// What a warehouse is that was made at run time. There is no secret in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarehouseDefinition {
    /// Grows by one with each change.
    pub version: u64,
    /// By whom it was made.
    pub created_by: String,
    /// When it became what it is.
    pub changed_ms: i64,
    /// By whom.
    pub changed_by: String,
    /// Further URLs below which tables may lie.
    pub allowed_locations: Vec<String>,
    /// Options of its object store.
    pub options: BTreeMap<String, String>,
    /// The name of a set of further options in the configuration.
    pub credentials: Option<String>,
    /// What `GET /v1/config` hands to clients as defaults.
    pub client_defaults: BTreeMap<String, String>,
    /// What `GET /v1/config` hands to clients as overrides.
    pub client_overrides: BTreeMap<String, String>,
    /// How clients get at the files of tables.
    #[serde(default)]
    pub access: FileAccess,
}

/// What a name points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameEntry {
    /// The id of the namespace, table or view.
    pub id: Uuid,
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceRecord {
    /// Its identity.
    pub id: Uuid,
    /// The warehouse that it is in.
    pub warehouse: Uuid,
    /// The parent namespace, or the warehouse for a top-level one.
    pub parent: Uuid,
    /// Its own level.
    pub name: String,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
    /// Grows by one with each change.
    pub version: u64,
    /// When it was made.
    pub created_ms: i64,
    /// The principal who made it; none if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A table or view, without its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TabularRecord {
    /// Its identity in the catalog, which a rename keeps. Not the `table-uuid`, which a table shares
    /// with every other registration of the same metadata.
    pub id: Uuid,
    /// Table or view.
    pub kind: TabularKind,
    /// The warehouse that it is in.
    pub warehouse: Uuid,
    /// The namespace that it is in.
    pub namespace: Uuid,
    /// Its name there.
    pub name: String,
    /// The `table-uuid` or `view-uuid` of its metadata.
    pub uuid: Uuid,
    /// The `location` of its metadata.
    pub location: String,
    /// Where its properties put files that do not go below `location`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_paths: Vec<String>,
    /// Where the metadata file of this version is.
    pub metadata_location: String,
    /// Grows by one with each new metadata.
    pub version: u64,
    /// When it came into the catalog.
    pub created_ms: i64,
    /// When its metadata last changed.
    pub updated_ms: i64,
    /// The principal who made it; none if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A metadata file that may be missing in the warehouse. The transaction that writes its record writes
/// this; a later one removes it when the file is there. The next start writes the files of those that are
/// left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// Where the file belongs.
    pub metadata_location: String,
}

/// A publication of a version of a table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PublicationKey {
    /// The table's or view's id.
    pub id: Uuid,
    /// The record's version.
    pub version: u64,
}

/// How a request with an `Idempotency-Key` ended, to be told again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    /// SHA-256 over the request's method, path and body, in hexadecimal: the same key for another
    /// request is an error.
    pub fingerprint: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The versions whose metadata files have to be there before that is told, where the outcome itself does
    /// not say so: those of a transaction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publications: Vec<PublicationKey>,
    /// From when on the record counts for nothing.
    pub expires_ms: i64,
}

/// The end of a mutation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Done, and there is nothing to say.
    Done,
    /// Done; the answer's body, which is small.
    Body(serde_json::Value),
    /// Done; the answer is the state of a table or view.
    Tabular {
        /// Which.
        id: Uuid,
        /// Where the metadata was that the answer held, should the table be gone by now.
        metadata_location: String,
    },
    /// Refused for good.
    Refused {
        /// The specification's name of the exception.
        kind: String,
        /// What the client was told.
        message: String,
    },
}

/// An entry of the change log, written in the batch of the change itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// When.
    pub at_ms: i64,
    /// The transaction's name, such as `commit_table`.
    pub action: String,
    /// Who.
    pub principal: String,
    /// The warehouse's id.
    pub warehouse: Uuid,
    /// The id of the namespace, table or view.
    pub subject: Uuid,
    /// Its dotted name after the change.
    pub name: String,
    /// The record's version before, if it was there.
    pub version_before: Option<u64>,
    /// The record's version after, if it still is.
    pub version_after: Option<u64>,
    /// The decision that allowed it; none where no policy was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Allowed>,
    /// The request that it came with; none for what no request has asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Where a change came from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Origin {
    /// The name of the principal, which an API key's id does not contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal_name: Option<String>,
    /// How the principal has proven who they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The address that the request came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_address: Option<String>,
    /// The request's `X-Request-Id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// By which policies something was allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    /// The revision of the policies.
    pub revision: String,
    /// The ids of those that allowed it.
    pub policies: Vec<String>,
}

impl From<&Decision> for Allowed {
    fn from(decision: &Decision) -> Self {
        Self { revision: decision.revision.to_string(), policies: decision.policies.clone() }
    }
}

/// Where the policy log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyHead {
    /// The number of the newest revision.
    pub number: u64,
}

/// A revision of the policy log: a change of what was made at run time. It says what was before and what
/// is after, so that every earlier state can be told from the present one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRevision {
    /// Its number.
    pub number: u64,
    /// When.
    pub at_ms: i64,
    /// By whom.
    pub by: String,
    /// The transaction's name, such as `put_policy`.
    pub action: String,
    /// What whoever made it had to say.
    pub comment: Option<String>,
    /// Which set of policies came into force with it: files, policies and grants together.
    pub in_force: String,
    /// The revision that it goes back to, if it does.
    pub rolled_back_to: Option<u64>,
    /// What became of policies and grants.
    pub changes: PolicyChanges,
}

/// What became of policies and grants from one state to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChanges {
    /// The policies that are others now, by id.
    pub policies: BTreeMap<String, PolicyEdit>,
    /// The grants that were added.
    pub granted: Vec<GrantRecord>,
    /// The grants that were taken back.
    pub revoked: Vec<GrantRecord>,
}

/// What became of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyEdit {
    /// What it was, if it was there.
    pub before: Option<PolicyRecord>,
    /// What it is, if it still is there.
    pub after: Option<PolicyRecord>,
}

/// A policy that was made at run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRecord {
    /// Its id.
    pub id: String,
    /// Its text, in Cedar's language.
    pub text: String,
    /// When it got this text.
    pub changed_ms: i64,
    /// From whom.
    pub changed_by: String,
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRecord {
    /// Its identity.
    pub id: Uuid,
    /// The id of the template that it fills in.
    pub template: String,
    /// To whom, such as `role:analysts`.
    pub grantee: String,
    /// On what, such as `table:prod/sales/orders`.
    pub resource: String,
    /// When it was made.
    pub created_ms: i64,
    /// By whom.
    pub created_by: String,
}

/// An API key, without its text: nobody who reads the store can use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyRecord {
    /// Its identity.
    pub id: Uuid,
    /// Display name.
    pub name: String,
    /// SHA-256 of its text, in hexadecimal.
    pub hash: String,
    /// The roles that it has.
    pub roles: BTreeSet<String>,
    /// Warehouses that the key is limited to; `None` for all.
    pub warehouses: Option<BTreeSet<String>>,
    /// When it was made.
    pub created_ms: i64,
    /// By whom.
    pub created_by: String,
    /// From when on it is good no more, if ever.
    pub expires_ms: Option<i64>,
}

/// An API key that was revoked. It has a key space of its own, so that an older binary, which does not know
/// of revoked keys, does not accept it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokedKeyRecord {
    /// The key as it was.
    pub key: ApiKeyRecord,
    /// Time of the revocation.
    pub revoked_ms: i64,
    /// Id of the principal that revoked it.
    pub revoked_by: String,
}

/// A key that slateberg signs its own tokens with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKeyRecord {
    /// Its identity, which tokens name as `kid`.
    pub id: Uuid,
    /// The 32 bytes that an Ed25519 key grows from, in base 64.
    pub seed: Secret,
    /// When it was made.
    pub created_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_binary_remembers_of_a_request_is_read() {
        let body = br#"{"fingerprint":"f","outcome":"done","expires_ms":1}"#;
        let bytes = [&[1], &body[..]].concat();
        let record = IdempotencyRecord::decode(&bytes).expect("it is read");
        assert_eq!(record.publications, []);
        assert_eq!(record.encode(), bytes, "what promises no files is written as before");
    }
}

//! Records of the catalog: the types of the values that the store contains.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use super::change_action::{ChangeAction, LoggedAction};
pub use super::changes::{
    AllowedBy, Change, ChangedKind, ChangedResource, GroupPosition, Origin, PreviousName,
};
use super::codec::{DecodeError, EncodedHead, Value, decode_json, encode_json};
use super::error::Error;
use super::jobs::{AbandonedFiles, Job, OrphanSearch};
use super::labels::LabelsRecord;
use super::metrics_reports::MetricsReportsRecord;
use super::usage::UsageRecord;
use slateberg_base::secret::Secret;
use slateberg_model::ident::TabularKind;
use slateberg_model::manifest_file::ManifestFile;
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
    IndexEntry,
    NamespaceRecord,
    TabularRecord,
    Publication,
    Job,
    AbandonedFiles,
    OrphanSearch,
    UsageRecord,
    LabelsRecord,
    MetricsReportsRecord,
    IdempotencyRecord,
    Change,
    PolicyHead,
    PolicyRevision,
    PolicyRecord,
    GrantRecord,
    ProtectionRecord,
    ApiKeyRecord,
    RevokedKeyRecord,
    SigningKeyRecord
);

/// Newest supported format of the store. Format 2 added chunks of metadata. Format 3 added the
/// journal in a local directory. Format 4 added keys for the locations of tables and views. Format
/// 5 added keys for UUIDs, and the progress of jobs. Format 7 added manifest lists in publication
/// markers, and records of protections and of dropped tables and views. Format 9 added jobs that
/// delete the files of expired snapshots. Format 11 added functions, records of the files that
/// rebases leave behind, and jobs that delete these files. Format 13 added webhooks, records of
/// dropped namespaces and of their functions, and records of the use of tables and views. Format 15
/// added scheduled searches for orphans, the maintenance properties of warehouses, and the cursors
/// of consumers of the change feed. Format 17 added labels. Format 19 added metrics reports. Format
/// 21 added files of the log in a bucket that are put at the same time.
pub const FORMAT_VERSION: u32 = 21;
/// Format of clones. It has the same records as [`FORMAT_VERSION`]. The number is different, so
/// that older binaries reject the store. Those binaries do not know clones, and would delete files
/// that the parent or the clone needs.
pub const FORMAT_OF_CLONES: u32 = 22;
/// First format with keys for the locations of tables and views.
pub const FORMAT_WITH_LOCATIONS: u32 = 4;
/// First format with keys for UUIDs.
pub const FORMAT_WITH_UUIDS: u32 = 5;

/// The store's own record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreFormat {
    /// Format of the records and keys. A binary rejects a format that is newer than its own.
    pub format_version: u32,
    /// Id of the catalog, generated at the creation of the store.
    pub catalog_id: Uuid,
    /// Time of creation.
    pub created_ms: i64,
    /// Parent of the clone. `None` if the store is not a clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_of: Option<CloneOf>,
    /// The timeline, which distinguishes versions of the same tables in different copies of a
    /// store. `None` for the first timeline. Each restore, import and clone starts a new timeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Uuid>,
}

impl StoreFormat {
    /// Returns the newest supported format: [`FORMAT_OF_CLONES`] for a clone, otherwise
    /// [`FORMAT_VERSION`].
    pub fn newest(&self) -> u32 {
        if self.clone_of.is_some() { FORMAT_OF_CLONES } else { FORMAT_VERSION }
    }

    /// Rejects newer formats.
    pub fn check(&self) -> Result<(), Error> {
        let (found, supported) = (self.format_version, self.newest());
        if found > supported { Err(Error::NewerFormat { found, supported }) } else { Ok(()) }
    }
}

/// Parent of a clone. A catalog with this record deletes no file of a table, because the parent or
/// the clone may need the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloneOf {
    /// URL of the parent's state, without secrets.
    pub parent_url: String,
    /// Id of the parent's catalog.
    pub parent_catalog: Uuid,
    /// Checkpoint in the parent that keeps the shared files.
    pub pin: Uuid,
    /// Name of that checkpoint.
    pub pin_name: String,
    /// Name or id of the cloned checkpoint. `None` if the current state was cloned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Time of the cloned state.
    pub as_of_ms: i64,
    /// Time of the clone's creation.
    pub cloned_ms: i64,
}

/// A warehouse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarehouseRecord {
    /// Id, generated when the warehouse was first configured or created.
    pub id: Uuid,
    /// Location of the warehouse at its creation, or in the latest configuration.
    pub location: String,
    /// Time of its creation, or of its first configuration.
    pub created_ms: i64,
    /// Definition of a warehouse that was created at run time. `None` for a configured warehouse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<WarehouseDefinition>,
}

/// Definition of a warehouse that was created at run time. Contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarehouseDefinition {
    /// Version, which increases by one with each change.
    pub version: u64,
    /// Id of the creator.
    pub created_by: String,
    /// Time of the last change.
    pub changed_ms: i64,
    /// Id of the principal of the last change.
    pub changed_by: String,
    /// Further URLs below which tables may be located.
    pub allowed_locations: Vec<String>,
    /// Options of the warehouse's object store.
    pub options: BTreeMap<String, String>,
    /// Name of a set of further options in the configuration.
    pub credentials: Option<String>,
    /// Defaults for clients in `GET /v1/config`.
    pub client_defaults: BTreeMap<String, String>,
    /// Overrides for clients in `GET /v1/config`.
    pub client_overrides: BTreeMap<String, String>,
    /// Retention of dropped resources, in seconds. `None` for the retention of the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_kept_seconds: Option<u64>,
    /// Maintenance properties. Those of namespaces and tables override them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub maintenance: BTreeMap<String, String>,
    /// Access of clients to the files of tables.
    #[serde(default)]
    pub access: FileAccess,
}

/// The entry of a name, which refers to a namespace, table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameEntry {
    /// Id of the namespace, table or view.
    pub id: Uuid,
}

/// The table or view of an entry in the index of locations or of UUIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexEntry {
    /// Id of the table or view.
    pub id: Uuid,
    /// Whether the table or view is dropped. A dropped table does not occupy its locations, but
    /// jobs do not delete its files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
}

/// Protection of a warehouse, namespace, table, view or function against its removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectionRecord {
    /// Name of the protected resource, as `table:prod/sales/orders`. The name cannot change while
    /// the protection exists.
    pub resource: String,
    /// Time of the protection.
    pub protected_ms: i64,
    /// Id of the principal.
    pub protected_by: String,
    /// Comment of the principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceRecord {
    /// Id of the namespace.
    pub id: Uuid,
    /// Warehouse of the namespace.
    pub warehouse: Uuid,
    /// Id of the parent namespace, or of the warehouse for a top-level namespace.
    pub parent: Uuid,
    /// Last level of its name.
    pub name: String,
    /// Properties.
    pub properties: BTreeMap<String, String>,
    /// Version, which increases by one with each change.
    pub version: u64,
    /// Time of creation.
    pub created_ms: i64,
    /// Id of the creator. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A table or view, without its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TabularRecord {
    /// Id in the catalog, which stays the same when the table or view is renamed. The `table-uuid`
    /// is not suitable as an id, because several registrations of the same metadata have the same
    /// `table-uuid`.
    pub id: Uuid,
    /// Table or view.
    pub kind: TabularKind,
    /// Warehouse of the table or view.
    pub warehouse: Uuid,
    /// Namespace of the table or view.
    pub namespace: Uuid,
    /// Name in the namespace.
    pub name: String,
    /// The `table-uuid` or `view-uuid` of its metadata.
    pub uuid: Uuid,
    /// The `location` of its metadata.
    pub location: String,
    /// Further locations, outside of `location`, to which files are written because of the table's
    /// properties.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_paths: Vec<String>,
    /// Location of this version's metadata file.
    pub metadata_location: String,
    /// Version, which increases by one with each change of metadata.
    pub version: u64,
    /// Time of creation in the catalog.
    pub created_ms: i64,
    /// Time of the last change of metadata.
    pub updated_ms: i64,
    /// Id of the creator. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Publication marker: a metadata file that may be missing in the warehouse. The transaction that
/// writes the record of a table or view also writes the marker. After the file is written (on a
/// local file system: after it is synced), a later transaction removes the marker. The next start
/// of the server writes the files whose markers remain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// Location of the file.
    pub metadata_location: String,
    /// Manifest lists that may be missing as well, in the order of their snapshots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<PromisedList>,
    /// Head of the version's metadata. With it, the file can be written even if the table or view
    /// has a newer version. `None` if the file is in a bucket: then it is written before there is a
    /// newer version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<EncodedHead>,
}

/// A manifest list that the server has to write for a rebased commit. It contains the manifests of
/// the commit, followed by the manifests of another list that the commit does not replace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromisedList {
    /// Location of the file.
    pub location: String,
    /// Format version of the table.
    pub format_version: u8,
    /// The snapshot.
    pub snapshot_id: i64,
    /// Parent of the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_snapshot_id: Option<i64>,
    /// Sequence number of the snapshot.
    pub sequence_number: i64,
    /// First row id of the snapshot, in format version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_row_id: Option<i64>,
    /// The manifests of the commit.
    pub own: Vec<ManifestFile>,
    /// Location of the other list. Its manifests come after those of the commit. `None` if the
    /// branch was empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onto: Option<String>,
    /// Paths of the manifests of the other list that the commit replaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

/// Key of a publication marker: a version of a table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PublicationKey {
    /// Id of the table or view.
    pub id: Uuid,
    /// Version of the record.
    pub version: u64,
}

/// Outcome of a request with an `Idempotency-Key`. From this record, the server can repeat the
/// response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    /// SHA-256 of the request's method, path and body, in hexadecimal. A different request with the
    /// same key is an error.
    pub fingerprint: String,
    /// Outcome of the request.
    pub outcome: MutationOutcome,
    /// Versions of tables that the request wrote in a transaction. Their metadata files must exist
    /// before the server repeats the response. Empty for other requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publications: Vec<PublicationKey>,
    /// Time at which the record expires. An expired record is ignored.
    pub expires_ms: i64,
}

/// Outcome of a mutation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MutationOutcome {
    /// Success, with an empty response.
    Done,
    /// Success, with this small response body.
    Body(serde_json::Value),
    /// Success, with the state of a table or view as the response.
    Tabular {
        /// Id of the table or view.
        id: Uuid,
        /// Location of the metadata in the first response. If the table was dropped since then, the
        /// repeated response contains this metadata.
        metadata_location: String,
    },
    /// Permanent rejection.
    Refused {
        /// Code of the rejection.
        kind: String,
        /// Message of the rejection.
        message: String,
    },
}

/// Head of the policy log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyHead {
    /// Number of the newest revision.
    pub number: u64,
}

/// A revision of the policy log. It contains each changed policy and grant as it was before and
/// after the change. With the revisions, all earlier states can be computed from the current state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRevision {
    /// Number of the revision.
    pub number: u64,
    /// Time of the change.
    pub at_ms: i64,
    /// Id of the principal.
    pub by: String,
    /// Kind of the change, such as `put_policy`.
    pub action: LoggedAction,
    /// Comment of the principal.
    pub comment: Option<String>,
    /// Hash of the whole policy set: the policies in files, the policies in the store, and the
    /// grants.
    pub in_force: String,
    /// Target revision of a rollback.
    pub rolled_back_to: Option<u64>,
    /// Changes of policies and grants.
    pub changes: PolicyChanges,
}

/// Changes of policies and grants between two states.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChanges {
    /// Changed policies, by id.
    pub policies: BTreeMap<String, PolicyEdit>,
    /// Added grants.
    pub granted: Vec<GrantRecord>,
    /// Removed grants.
    pub revoked: Vec<GrantRecord>,
}

/// Change of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyEdit {
    /// The policy before the change, if it existed.
    pub before: Option<PolicyRecord>,
    /// The policy after the change, if it exists.
    pub after: Option<PolicyRecord>,
}

/// A policy that was created at run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRecord {
    /// Id of the policy.
    pub id: String,
    /// Source, in Cedar's language.
    pub text: String,
    /// Time of the last change.
    pub changed_ms: i64,
    /// Id of the principal of the last change.
    pub changed_by: String,
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRecord {
    /// Id of the grant.
    pub id: Uuid,
    /// Id of its template.
    pub template: String,
    /// Principal, such as `role:analysts`.
    pub grantee: String,
    /// Resource, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Time of creation.
    pub created_ms: i64,
    /// Id of the creator.
    pub created_by: String,
}

/// An API key. Contains only the hash of the secret, so that a reader of the store cannot use the
/// key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyRecord {
    /// Id of the key.
    pub id: Uuid,
    /// Display name.
    pub name: String,
    /// SHA-256 of the key, in hexadecimal.
    pub hash: String,
    /// Roles of the key.
    pub roles: BTreeSet<String>,
    /// Warehouses to which the key is limited. `None` for all.
    pub warehouses: Option<BTreeSet<String>>,
    /// Time of creation.
    pub created_ms: i64,
    /// Id of the creator.
    pub created_by: String,
    /// Time of expiry. `None` if the key does not expire.
    pub expires_ms: Option<i64>,
}

/// A revoked API key. The record is in its own key space. Older binaries do not know that space, so
/// they reject the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokedKeyRecord {
    /// The key before its revocation.
    pub key: ApiKeyRecord,
    /// Time of the revocation.
    pub revoked_ms: i64,
    /// Id of the principal that revoked it.
    pub revoked_by: String,
}

/// A key with which slateberg signs its own tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKeyRecord {
    /// Id, the `kid` of tokens.
    pub id: Uuid,
    /// The 32-byte seed of an Ed25519 key, in base 64.
    pub seed: Secret,
    /// Time of creation.
    pub created_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idempotency_record_of_an_earlier_version_is_readable() {
        let body = br#"{"fingerprint":"f","outcome":"done","expires_ms":1}"#;
        let bytes = [&[1], &body[..]].concat();
        let record = IdempotencyRecord::decode(&bytes).expect("it is read");
        assert_eq!(record.publications, []);
        assert_eq!(record.encode(), bytes, "without publications, the encoding is unchanged");
    }
}

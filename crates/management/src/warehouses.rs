//! Bodies of `/management/v1/warehouses`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::string_enum::string_enum;

/// Access-delegation mode: the way in which clients get access to the files of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DelegationMode {
    /// Short-lived credentials for the location of one table.
    VendedCredentials,
    /// A signature for each request.
    RemoteSigning,
}

impl DelegationMode {
    /// All modes.
    pub const ALL: [Self; 2] = [Self::VendedCredentials, Self::RemoteSigning];

    /// Returns the string that represents the mode in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::VendedCredentials => "vended-credentials",
            Self::RemoteSigning => "remote-signing",
        }
    }
}

/// Storage of a warehouse, as a request describes it.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StorageRequest {
    /// The URL below which tables get their locations, such as `s3://bucket/path`. Required for a
    /// new warehouse. The location of a warehouse never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub location: Option<String>,
    /// Further URLs below which tables may be located.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_locations: Option<Vec<String>>,
    /// Options of the object store that hold no secret, such as `aws_region`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<BTreeMap<String, String>>,
    /// Name of a section `[credentials.NAME]` in the server's settings. The options in this section,
    /// such as secrets, are used in addition to `options`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// Access of clients to the files of tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<FileAccessRequest>,
}

/// Access of clients to the files of tables, as a request describes it.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FileAccessRequest {
    /// Access-delegation modes, the preferred one first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation: Option<Vec<DelegationMode>>,
    /// Role that the server assumes to get credentials for a table. Only for S3; `MinIO` needs no
    /// role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role_arn: Option<String>,
    /// External ID that the role's trust policy requires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// URL of the STS service, such as the URL of `MinIO`. Defaults to the STS of AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sts_endpoint: Option<String>,
    /// Lifetime of credentials in seconds. Defaults to 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 900, maximum = 43200)]
    pub credentials_seconds: Option<u32>,
}

/// Body of `POST /management/v1/warehouses`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CreateWarehouseRequest {
    /// Name of the warehouse. It consists of letters, digits, '-', '_' and '.'.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Storage of the warehouse.
    pub storage: StorageRequest,
    /// Properties that GET /v1/config returns to clients as defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_defaults: Option<BTreeMap<String, String>>,
    /// Properties that GET /v1/config returns to clients as overrides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_overrides: Option<BTreeMap<String, String>>,
    /// Retention of dropped namespaces, tables and views, in seconds. 0 for no retention. Defaults
    /// to `catalog.dropped_kept_seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_kept_seconds: Option<u64>,
    /// Maintenance properties, such as `slateberg.maintenance.expire-snapshots`, that apply to tables
    /// unless the table or its namespace has the property. Defaults to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<BTreeMap<String, String>>,
}

/// Body of `PUT /management/v1/warehouses/{name}`. Absent members get their defaults.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UpdateWarehouseRequest {
    /// Storage of the warehouse.
    pub storage: StorageRequest,
    /// Properties that GET /v1/config returns to clients as defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_defaults: Option<BTreeMap<String, String>>,
    /// Properties that GET /v1/config returns to clients as overrides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_overrides: Option<BTreeMap<String, String>>,
    /// Retention of dropped namespaces, tables and views, in seconds. 0 for no retention. Defaults
    /// to `catalog.dropped_kept_seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_kept_seconds: Option<u64>,
    /// Maintenance properties, such as `slateberg.maintenance.expire-snapshots`, that apply to tables
    /// unless the table or its namespace has the property. Defaults to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<BTreeMap<String, String>>,
    /// Expected version. The request fails with 409 if the warehouse has another version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
}

/// Storage of a warehouse, without secrets.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WarehouseStorage {
    /// The URL below which tables get their locations, such as `s3://bucket/path`.
    pub location: String,
    /// Further URLs below which tables may be located.
    pub allowed_locations: Vec<String>,
    /// Options of the object store, without those that could be secrets.
    pub options: BTreeMap<String, String>,
    /// Name of a section `[credentials.NAME]` in the server's settings. The options in this section,
    /// such as secrets, are used in addition to `options`.
    #[schema(required)]
    pub credentials: Option<String>,
    /// Access of clients to the files of tables.
    pub access: FileAccess,
}

/// Access of clients to the files of tables. Contains no secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FileAccess {
    /// Access-delegation modes, the preferred one first; empty if clients have their own
    /// credentials.
    pub delegation: Vec<DelegationMode>,
    /// Role that the server assumes to get credentials for a table. Only for S3; `MinIO` needs no
    /// role.
    #[schema(required)]
    pub role_arn: Option<String>,
    /// External ID that the role's trust policy requires.
    #[schema(required)]
    pub external_id: Option<String>,
    /// URL of the STS service, such as the URL of `MinIO`. Defaults to the STS of AWS.
    #[schema(required)]
    pub sts_endpoint: Option<String>,
    /// Lifetime of credentials in seconds.
    pub credentials_seconds: u32,
}

impl From<WarehouseStorage> for StorageRequest {
    fn from(storage: WarehouseStorage) -> Self {
        let WarehouseStorage { location, allowed_locations, options, credentials, access } =
            storage;
        Self {
            location: Some(location),
            allowed_locations: Some(allowed_locations),
            options: Some(options),
            credentials,
            access: Some(access.into()),
        }
    }
}

impl From<FileAccess> for FileAccessRequest {
    fn from(access: FileAccess) -> Self {
        let FileAccess { delegation, role_arn, external_id, sts_endpoint, credentials_seconds } =
            access;
        Self {
            delegation: Some(delegation),
            role_arn,
            external_id,
            sts_endpoint,
            credentials_seconds: Some(credentials_seconds),
        }
    }
}

string_enum! {
    /// Origin of a warehouse's definition.
    WarehouseSource {
        /// The server's configuration.
        Configuration = "configuration",
        /// The management API.
        Api = "api",
    }
}

string_enum! {
    /// Whether a warehouse can be used.
    WarehouseStatus {
        /// The object store of the warehouse is open.
        Open = "open",
        /// The object store cannot be opened. Requests to the warehouse get 503.
        Unavailable = "unavailable",
    }
}

/// A warehouse. Members after `created-at-ms` are present only for callers that may manage the
/// warehouse.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Warehouse {
    /// Name of the warehouse.
    pub name: String,
    /// Id of the warehouse. A later warehouse of the same name has another id.
    #[schema(format = "uuid")]
    pub id: String,
    /// Origin of the warehouse's definition.
    pub source: WarehouseSource,
    /// True for the default warehouse, to which paths without a prefix refer.
    pub default: bool,
    /// Status of the warehouse. Requests to an unavailable warehouse get 503.
    pub status: WarehouseStatus,
    /// Properties that clients get as defaults.
    pub client_defaults: BTreeMap<String, String>,
    /// Properties that clients get as overrides.
    pub client_overrides: BTreeMap<String, String>,
    /// Retention of dropped namespaces, tables and views, in seconds; null if the retention is
    /// `catalog.dropped_kept_seconds`.
    #[schema(required)]
    pub dropped_kept_seconds: Option<u64>,
    /// Maintenance properties that apply to tables unless the table or its namespace has the property.
    #[serde(default)]
    #[schema(required)]
    pub maintenance: BTreeMap<String, String>,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Details for callers that may manage the warehouse.
    #[serde(flatten)]
    pub details: Option<WarehouseDetails>,
}

/// Details of a warehouse, for callers that may manage it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WarehouseDetails {
    /// Storage of the warehouse.
    pub storage: WarehouseStorage,
    /// Reason why the warehouse is unavailable; null if it is open.
    #[schema(required)]
    pub problem: Option<String>,
    /// Version of the warehouse. Each change increases it. For a warehouse from the configuration,
    /// this member and all later members are null.
    #[schema(required)]
    pub version: Option<u64>,
    /// Id of the principal that created the warehouse.
    #[schema(required)]
    pub created_by: Option<String>,
    /// Name of the creator if it is an API key; otherwise null.
    #[schema(required)]
    pub created_by_name: Option<String>,
    /// Time of the last change, in milliseconds since the Unix epoch.
    #[schema(required)]
    pub changed_at_ms: Option<i64>,
    /// Id of the principal that made the last change.
    #[schema(required)]
    pub changed_by: Option<String>,
    /// Name of the principal in `changed-by` if it is an API key; otherwise null.
    #[schema(required)]
    pub changed_by_name: Option<String>,
}

/// Response of `GET /management/v1/warehouses`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WarehouseList {
    /// The warehouses, ordered by name.
    pub warehouses: Vec<Warehouse>,
    /// Token of the next page; null on the last page.
    #[schema(required)]
    pub next_page_token: Option<String>,
}

//! The shapes of bodies of `/management/v1/warehouses`.

use serde::{Deserialize, Serialize};

use super::Properties;
use slateberg_authn::api_keys::ApiKeys;
use slateberg_catalog::warehouses::change::Wanted;
use slateberg_catalog::warehouses::listing::{Managed, Source, WarehouseInfo, WarehousePage};
use slateberg_model::warehouse::{CREDENTIALS_SECONDS, Delegation, FileAccess, StorageProfile};

/// Where a warehouse is stored, as a request says it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StorageRequest {
    /// The URL below which tables get their locations. It never changes: whoever changes a warehouse may
    /// leave it out.
    #[serde(default)]
    pub location: Option<String>,
    /// Further URLs below which tables may lie.
    #[serde(default)]
    pub allowed_locations: Option<Vec<String>>,
    /// Options of the object store that hold no secret.
    #[serde(default)]
    pub options: Option<Properties>,
    /// The name of a set of further options in the server's configuration.
    #[serde(default)]
    pub credentials: Option<String>,
    /// How clients get at the files of tables.
    #[serde(default)]
    pub access: Option<AccessRequest>,
}

/// How clients get at the files of tables, as a request says it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AccessRequest {
    /// The ways, the preferred one first.
    #[serde(default)]
    pub delegation: Option<Vec<Delegation>>,
    /// The role that is assumed for a table.
    #[serde(default)]
    pub role_arn: Option<String>,
    /// External ID that the role's trust policy requires.
    #[serde(default)]
    pub external_id: Option<String>,
    /// Where the role is assumed.
    #[serde(default)]
    pub sts_endpoint: Option<String>,
    /// Seconds that credentials are good for.
    #[serde(default)]
    pub credentials_seconds: Option<u32>,
}

impl From<AccessRequest> for FileAccess {
    fn from(request: AccessRequest) -> Self {
        let AccessRequest { delegation, role_arn, external_id, sts_endpoint, credentials_seconds } =
            request;
        Self {
            delegation: delegation.unwrap_or_default(),
            role_arn,
            external_id,
            sts_endpoint,
            credentials_seconds: credentials_seconds.unwrap_or(CREDENTIALS_SECONDS),
        }
    }
}

/// Body of `POST /management/v1/warehouses`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CreateWarehouseRequest {
    /// Its name.
    pub name: String,
    /// Where it is stored.
    pub storage: StorageRequest,
    /// What clients get as defaults.
    #[serde(default)]
    pub client_defaults: Option<Properties>,
    /// What clients get as overrides.
    #[serde(default)]
    pub client_overrides: Option<Properties>,
}

/// Body of `PUT /management/v1/warehouses/{name}`: all of it, since what is not said is not so any more.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UpdateWarehouseRequest {
    /// Where it is stored.
    pub storage: StorageRequest,
    /// What clients get as defaults.
    #[serde(default)]
    pub client_defaults: Option<Properties>,
    /// What clients get as overrides.
    #[serde(default)]
    pub client_overrides: Option<Properties>,
    /// The version of the warehouse, as whoever asks has seen it.
    #[serde(default)]
    pub expected_version: Option<u64>,
}

/// What a request says that a warehouse is to be.
pub fn wanted(
    storage: StorageRequest,
    client_defaults: Option<Properties>,
    client_overrides: Option<Properties>,
) -> Wanted {
    let StorageRequest { location, allowed_locations, options, credentials, access } = storage;
    Wanted {
        storage: StorageProfile {
            location: location.unwrap_or_default(),
            allowed_locations: allowed_locations.unwrap_or_default(),
            options: options.unwrap_or_default(),
            credentials,
            access: access.map(FileAccess::from).unwrap_or_default(),
        },
        client_defaults: client_defaults.unwrap_or_default(),
        client_overrides: client_overrides.unwrap_or_default(),
    }
}

/// Where a warehouse is stored.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Storage {
    /// The URL below which tables get their locations.
    pub location: String,
    /// Further URLs below which tables may lie.
    pub allowed_locations: Vec<String>,
    /// Options of the object store; those that could be secrets are left out.
    pub options: Properties,
    /// The name of a set of further options in the server's configuration.
    pub credentials: Option<String>,
    /// How clients get at the files of tables.
    pub access: Access,
}

/// How clients get at the files of tables.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Access {
    /// The ways, the preferred one first.
    pub delegation: Vec<Delegation>,
    /// The role that is assumed for a table.
    pub role_arn: Option<String>,
    /// External ID that the role's trust policy requires.
    pub external_id: Option<String>,
    /// Where the role is assumed.
    pub sts_endpoint: Option<String>,
    /// Seconds that credentials are good for.
    pub credentials_seconds: u32,
}

impl From<FileAccess> for Access {
    fn from(access: FileAccess) -> Self {
        let FileAccess { delegation, role_arn, external_id, sts_endpoint, credentials_seconds } =
            access;
        Self { delegation, role_arn, external_id, sts_endpoint, credentials_seconds }
    }
}

/// A warehouse.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Warehouse {
    /// Its name.
    pub name: String,
    /// Its identity: another one of the same name has another.
    pub id: String,
    /// `configuration` or `api`.
    pub source: &'static str,
    /// Whether paths without a prefix mean it.
    pub default: bool,
    /// `open`, or `unavailable` if its object store cannot be opened.
    pub status: &'static str,
    /// What clients get as defaults.
    pub client_defaults: Properties,
    /// What clients get as overrides.
    pub client_overrides: Properties,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// What those alone are told who may manage it.
    #[serde(flatten)]
    pub managed: Option<ManagedWarehouse>,
}

/// What those alone are told of a warehouse who may manage it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ManagedWarehouse {
    /// Where it is stored.
    pub storage: Storage,
    /// Why it is unavailable; null if it is not.
    pub problem: Option<String>,
    /// Grows by one with each change; null for one of the configuration, as the next ones are.
    pub version: Option<u64>,
    /// Who made it.
    pub created_by: Option<String>,
    /// Name of the API key that `created_by` is the id of; null for other principals.
    pub created_by_name: Option<String>,
    /// When it was changed last, or made.
    pub changed_at_ms: Option<i64>,
    /// By whom.
    pub changed_by: Option<String>,
    /// Name of the API key that `changed_by` is the id of; null for other principals.
    pub changed_by_name: Option<String>,
}

impl ManagedWarehouse {
    fn new(managed: Managed, keys: &ApiKeys) -> Self {
        let Managed { storage, problem, history } = managed;
        let StorageProfile { location, allowed_locations, options, credentials, access } = storage;
        let access = Access::from(access);
        let (version, created_by, changed_at_ms, changed_by) = match history {
            Some(it) => {
                (Some(it.version), Some(it.created_by), Some(it.changed_ms), Some(it.changed_by))
            }
            None => (None, None, None, None),
        };
        Self {
            storage: Storage { location, allowed_locations, options, credentials, access },
            problem,
            version,
            created_by_name: created_by.as_deref().and_then(|by| keys.name_of(by)),
            created_by,
            changed_at_ms,
            changed_by_name: changed_by.as_deref().and_then(|by| keys.name_of(by)),
            changed_by,
        }
    }
}

impl Warehouse {
    /// A warehouse, with the names of the API keys that created and changed it.
    pub fn new(info: WarehouseInfo, keys: &ApiKeys) -> Self {
        Self {
            name: info.name,
            id: info.id.to_string(),
            source: match info.source {
                Source::Configuration => "configuration",
                Source::Api => "api",
            },
            default: info.default,
            status: if info.open { "open" } else { "unavailable" },
            client_defaults: info.client_defaults,
            client_overrides: info.client_overrides,
            created_at_ms: info.created_ms,
            managed: info.managed.map(|managed| ManagedWarehouse::new(managed, keys)),
        }
    }
}

/// Answer of `GET /management/v1/warehouses`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListWarehouses {
    /// The warehouses, in the order of their names.
    pub warehouses: Vec<Warehouse>,
    /// The token of the next page; null if this is the last.
    pub next_page_token: Option<String>,
}

impl ListWarehouses {
    /// A page of warehouses.
    pub fn new(page: WarehousePage, keys: &ApiKeys) -> Self {
        let warehouses = page.warehouses.into_iter().map(|it| Warehouse::new(it, keys)).collect();
        Self { warehouses, next_page_token: page.next }
    }
}

//! All settings. The defaults are equal to those in `config/default.toml`. A test compares them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use slateberg_authn as authn;
use slateberg_authz as authz;
use slateberg_base::secret::Secret;
use slateberg_catalog as catalog;
use slateberg_kms as kms;
use slateberg_model::warehouse::{CREDENTIALS_SECONDS, Delegation, FileAccess};
use slateberg_store as store;
use slateberg_telemetry as telemetry;

use crate::cluster::ClusterSettings;
use crate::server;

/// The settings of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The directory of the state and of warehouses without a location, unless the state is in a
    /// bucket.
    pub data_dir: PathBuf,
    /// The warehouse for paths without a prefix, and for clients that name no warehouse.
    pub default_warehouse: String,
    /// Maximum memory of caches, buffers, request bodies and jobs together, in bytes. 0: a quarter
    /// of the memory of the machine or cgroup, and at most 1 GiB.
    pub memory_bytes_max: u64,
    /// The HTTP server.
    pub server: server::Settings,
    /// Authentication.
    pub authn: authn::settings::Settings,
    /// Authorization.
    pub authz: authz::settings::Settings,
    /// The location of the state.
    pub state: StateSettings,
    /// Several processes on one state.
    pub cluster: ClusterSettings,
    /// The store of the state.
    pub store: store::settings::Settings,
    /// Encryption of the state.
    pub encryption: kms::settings::Settings,
    /// Limits and intervals of the catalog.
    pub catalog: catalog::settings::Settings,
    /// Webhooks.
    pub webhooks: catalog::webhooks::settings::Settings,
    /// The log.
    pub log: telemetry::settings::Settings,
    /// The audit log.
    pub audit: telemetry::settings::AuditSettings,
    /// Telemetry exports.
    pub telemetry: telemetry::settings::TelemetrySettings,
    /// Object store options for warehouses created at run time, including secret ones. Warehouses
    /// refer to them by name.
    pub credentials: BTreeMap<String, BTreeMap<String, Secret>>,
    /// The warehouses, by name.
    pub warehouses: BTreeMap<String, WarehouseSettings>,
    /// Credentials and endpoints of object stores from the process's environment (`AWS_*`,
    /// `GOOGLE_*`, `AZURE_*`), as options in lower case. Settings files cannot set these options.
    #[serde(skip)]
    pub ambient_options: BTreeMap<String, String>,
}

/// The location of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StateSettings {
    /// The URL of the bucket and path. Empty: `state` below `data_dir`.
    pub url: String,
    /// The URL of a separate bucket for the write-ahead log. Empty: the log is stored with the rest
    /// of the state.
    pub wal_url: String,
    /// Maximum time that a start waits for an unresponsive object store, in seconds.
    pub start_seconds_max: u64,
    /// Options of the object store, such as `aws_endpoint`.
    pub options: BTreeMap<String, String>,
    /// Options of the object store of the write-ahead log.
    pub wal_options: BTreeMap<String, String>,
}

/// Default of `start_seconds_max`.
const START_SECONDS_MAX: u64 = 60;

impl Default for StateSettings {
    fn default() -> Self {
        Self {
            url: String::new(),
            wal_url: String::new(),
            start_seconds_max: START_SECONDS_MAX,
            options: BTreeMap::new(),
            wal_options: BTreeMap::new(),
        }
    }
}

impl StateSettings {
    /// Returns the maximum time that a start waits for an unresponsive object store.
    pub fn start_timeout(&self) -> Duration {
        Duration::from_secs(self.start_seconds_max.max(1))
    }
}

/// A warehouse.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WarehouseSettings {
    /// The URL below which tables get their locations. Empty: `warehouse/<name>` below `data_dir`
    /// or, if the state is in a bucket, `<state.url>-warehouse/<name>`.
    pub location: String,
    /// Further URLs below which tables may be located.
    pub allowed_locations: Vec<String>,
    /// Options of the object store, such as `aws_endpoint`.
    pub options: BTreeMap<String, String>,
    /// Defaults for clients, returned by `GET /v1/config`.
    pub client_defaults: BTreeMap<String, String>,
    /// Overrides for clients, returned by `GET /v1/config`.
    pub client_overrides: BTreeMap<String, String>,
    /// Retention of dropped namespaces, tables and views, in seconds. Unset: the value of
    /// `catalog.dropped_kept_seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_kept_seconds: Option<u64>,
    /// Maintenance properties. Those of namespaces and tables override them.
    pub maintenance: BTreeMap<String, String>,
    /// Access of clients to the tables' files.
    pub access: FileAccessSettings,
}

/// Access of clients to the files of a warehouse's tables through the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileAccessSettings {
    /// The access-delegation modes, preferred first.
    pub delegation: Vec<Delegation>,
    /// The role that the catalog assumes for a table. Empty: none.
    pub role_arn: String,
    /// External ID that the role's trust policy requires. Empty: none.
    pub external_id: String,
    /// The STS endpoint. Empty: the endpoint of AWS.
    pub sts_endpoint: String,
    /// Lifetime of credentials, in seconds.
    pub credentials_seconds: u32,
}

impl Default for FileAccessSettings {
    fn default() -> Self {
        Self {
            delegation: Vec::new(),
            role_arn: String::new(),
            external_id: String::new(),
            sts_endpoint: String::new(),
            credentials_seconds: CREDENTIALS_SECONDS,
        }
    }
}

impl From<FileAccessSettings> for FileAccess {
    fn from(settings: FileAccessSettings) -> Self {
        let set = |text: String| (!text.is_empty()).then_some(text);
        Self {
            delegation: settings.delegation,
            role_arn: set(settings.role_arn),
            external_id: set(settings.external_id),
            sts_endpoint: set(settings.sts_endpoint),
            credentials_seconds: settings.credentials_seconds,
        }
    }
}

/// The default data directory.
pub(crate) const DATA_DIR: &str = "slateberg-data";
/// The default name of the default warehouse.
pub(crate) const DEFAULT_WAREHOUSE: &str = "default";

impl Default for Settings {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from(DATA_DIR),
            default_warehouse: DEFAULT_WAREHOUSE.to_owned(),
            memory_bytes_max: 0,
            server: server::Settings::default(),
            authn: authn::settings::Settings::default(),
            authz: authz::settings::Settings::default(),
            state: StateSettings::default(),
            cluster: ClusterSettings::default(),
            store: store::settings::Settings::default(),
            encryption: kms::settings::Settings::default(),
            catalog: catalog::settings::Settings::default(),
            webhooks: catalog::webhooks::settings::Settings::default(),
            log: telemetry::settings::Settings::default(),
            audit: telemetry::settings::AuditSettings::default(),
            telemetry: telemetry::settings::TelemetrySettings::default(),
            credentials: BTreeMap::new(),
            warehouses: BTreeMap::from([(
                DEFAULT_WAREHOUSE.to_owned(),
                WarehouseSettings::default(),
            )]),
            ambient_options: BTreeMap::new(),
        }
    }
}

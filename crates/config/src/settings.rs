//! All settings. Each field's default stands in `config/default.toml`, which a test compares with this.

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

use crate::server;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where the state and the default warehouse are, unless their URLs say otherwise.
    pub data_dir: PathBuf,
    /// The warehouse that paths without a prefix mean, and clients that name none.
    pub default_warehouse: String,
    /// Bytes of memory that caches, buffers, request bodies and jobs may take together; 0 for a
    /// quarter of the machine's or cgroup's memory, and at most 1 GiB.
    pub memory_bytes_max: u64,
    /// The HTTP server.
    pub server: server::Settings,
    /// Who may come in.
    pub authn: authn::settings::Settings,
    /// Who may do what.
    pub authz: authz::settings::Settings,
    /// Where the state is.
    pub state: StateSettings,
    /// How the state's store is opened.
    pub store: store::settings::Settings,
    /// How what the store keeps is encrypted.
    pub encryption: kms::settings::Settings,
    /// Bounds and times of the catalog.
    pub catalog: catalog::settings::Settings,
    /// The log.
    pub log: telemetry::settings::Settings,
    /// The audit log.
    pub audit: telemetry::settings::AuditSettings,
    /// What is told to others.
    pub telemetry: telemetry::settings::TelemetrySettings,
    /// Options of object stores, secret ones among them, for warehouses that are made at run time: by the
    /// name that these say.
    pub credentials: BTreeMap<String, BTreeMap<String, Secret>>,
    /// The warehouses, by name.
    pub warehouses: BTreeMap<String, WarehouseSettings>,
    /// Credentials and endpoints of object stores that the process's environment holds (`AWS_*`,
    /// `GOOGLE_*`, `AZURE_*`), as options in lower case. Not to be set in a file.
    #[serde(skip)]
    pub ambient_options: BTreeMap<String, String>,
}

/// Where the state is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StateSettings {
    /// The URL of the bucket and path; empty for `state` below `data_dir`.
    pub url: String,
    /// The URL of another bucket for the log; empty if it is beside the rest.
    pub wal_url: String,
    /// Seconds for which a start waits for an object store that does not answer.
    pub start_seconds_max: u64,
    /// Options of the object store, such as `aws_endpoint`.
    pub options: BTreeMap<String, String>,
    /// Options of the log's object store.
    pub wal_options: BTreeMap<String, String>,
}

/// How long a start waits for an object store.
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
    /// For how long a start waits for an object store that does not answer.
    pub fn start_patience(&self) -> Duration {
        Duration::from_secs(self.start_seconds_max.max(1))
    }
}

/// A warehouse.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WarehouseSettings {
    /// The URL below which tables get their locations; empty for `warehouse/<name>` below `data_dir`.
    pub location: String,
    /// Further URLs below which tables may lie.
    pub allowed_locations: Vec<String>,
    /// Options of the object store, such as `aws_endpoint`.
    pub options: BTreeMap<String, String>,
    /// What `GET /v1/config` hands to clients as defaults.
    pub client_defaults: BTreeMap<String, String>,
    /// What `GET /v1/config` hands to clients as overrides.
    pub client_overrides: BTreeMap<String, String>,
    /// How clients get at the files of tables.
    pub access: FileAccessSettings,
}

/// How clients get at the files of a warehouse's tables through the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileAccessSettings {
    /// The ways, the preferred one first.
    pub delegation: Vec<Delegation>,
    /// The role that is assumed for a table; empty for none.
    pub role_arn: String,
    /// External ID that the role's trust policy requires; empty for none.
    pub external_id: String,
    /// Where the role is assumed; empty for AWS.
    pub sts_endpoint: String,
    /// Seconds that credentials are good for.
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

/// The directory that a server uses that was told none.
pub const DATA_DIR: &str = "slateberg-data";
/// The warehouse that a server has that was told none.
pub const DEFAULT_WAREHOUSE: &str = "default";

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
            store: store::settings::Settings::default(),
            encryption: kms::settings::Settings::default(),
            catalog: catalog::settings::Settings::default(),
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

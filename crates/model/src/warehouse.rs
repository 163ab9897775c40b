//! Warehouses: their names, and the locations of their tables' files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::refusal::Refusal;

/// Access-delegation modes, named as in the header `X-Iceberg-Access-Delegation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delegation {
    /// Short-lived credentials for the location of one table.
    VendedCredentials,
    /// A signature for each request.
    RemoteSigning,
}

impl Delegation {
    /// Returns the name in the header.
    pub fn name(self) -> &'static str {
        match self {
            Self::VendedCredentials => "vended-credentials",
            Self::RemoteSigning => "remote-signing",
        }
    }
}

/// Default lifetime of credentials for a table's files, in seconds.
pub const CREDENTIALS_SECONDS: u32 = 3600;

/// Settings of the access that clients get to the files of a table. They contain no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileAccess {
    /// The supported access-delegation modes. The preferred mode is first. Empty if clients use
    /// their own credentials.
    pub delegation: Vec<Delegation>,
    /// The role that the catalog assumes for a table (AWS). S3-compatible stores need none.
    pub role_arn: Option<String>,
    /// External ID that the role's trust policy requires.
    pub external_id: Option<String>,
    /// The STS endpoint, if it differs from that of AWS.
    pub sts_endpoint: Option<String>,
    /// Lifetime of the credentials, in seconds.
    pub credentials_seconds: u32,
}

impl Default for FileAccess {
    fn default() -> Self {
        Self {
            delegation: Vec::new(),
            role_arn: None,
            external_id: None,
            sts_endpoint: None,
            credentials_seconds: CREDENTIALS_SECONDS,
        }
    }
}

/// The location of a warehouse's files and the settings of its object store. They contain no
/// secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageProfile {
    /// The URL below which tables get their default locations, without a trailing slash.
    pub location: String,
    /// Other URLs below which tables may be located. They are for tables whose data was there
    /// before the catalog.
    pub allowed_locations: Vec<String>,
    /// Options of the object store without secrets, such as `aws_region`.
    pub options: BTreeMap<String, String>,
    /// The name of a set of further options in the configuration. These may be secret.
    pub credentials: Option<String>,
    /// The access of clients to table files.
    #[serde(default)]
    pub access: FileAccess,
}

impl StorageProfile {
    /// Returns the URLs below which tables may be located. The default location is first.
    pub fn locations(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.location).chain(&self.allowed_locations)
    }
}

/// A warehouse that the catalog serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warehouse {
    /// Stable id, which is part of record keys. It is generated when the warehouse is first
    /// configured or created.
    pub id: Uuid,
    /// The name that clients send as `warehouse` and receive as the `{prefix}` of paths.
    pub name: String,
    /// The location of its files.
    pub storage: StorageProfile,
    /// Defaults for clients, returned by `GET /v1/config`.
    pub client_defaults: BTreeMap<String, String>,
    /// Overrides for clients, returned by `GET /v1/config`.
    pub client_overrides: BTreeMap<String, String>,
    /// Retention of dropped resources, in seconds. `None` for the retention of the catalog.
    pub dropped_kept_seconds: Option<u64>,
    /// Maintenance properties. Those of namespaces and tables override them.
    pub maintenance: BTreeMap<String, String>,
    /// Version, which each change through the management API increases. 0 for a configured
    /// warehouse.
    pub version: u64,
}

/// First segments of REST paths that have no `{prefix}`. If a warehouse had one of these names,
/// paths would be ambiguous.
const RESERVED: [&str; 6] = ["config", "namespaces", "oauth", "tables", "transactions", "views"];

/// The longest name of a warehouse, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Refuses a warehouse name that would need encoding in a path.
pub fn validate_name(name: &str) -> Result<(), Refusal> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(plain) {
        return Err(Refusal::invalid(format!(
            "Invalid warehouse name '{name}': expected 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' or '.'"
        )));
    }
    if RESERVED.contains(&name) || name.chars().all(|c| c == '.') {
        return Err(Refusal::invalid(format!("Invalid warehouse name '{name}': reserved")));
    }
    Ok(())
}

//! Warehouses: a name, and the place where its tables' files live.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::refusal::Refusal;

/// How clients may get at the files of tables: the words of `X-Iceberg-Access-Delegation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delegation {
    /// With credentials for the place of one table that end soon.
    VendedCredentials,
    /// With a signature for each request.
    RemoteSigning,
}

impl Delegation {
    /// Its word in the header.
    pub fn word(self) -> &'static str {
        match self {
            Self::VendedCredentials => "vended-credentials",
            Self::RemoteSigning => "remote-signing",
        }
    }
}

/// Seconds that credentials for a table's files are good for, unless a warehouse says otherwise.
pub const CREDENTIALS_SECONDS: u32 = 3600;

/// How clients get at the files of a warehouse's tables through the catalog. There is no secret in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileAccess {
    /// The ways, the preferred one first; none if clients have their own.
    pub delegation: Vec<Delegation>,
    /// The role that is assumed for a table (AWS); stores that only speak like AWS need none.
    pub role_arn: Option<String>,
    /// External ID that the role's trust policy requires.
    pub external_id: Option<String>,
    /// Where the role is assumed, if not at AWS.
    pub sts_endpoint: Option<String>,
    /// Seconds that credentials are good for.
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

/// Where a warehouse's files are, and how its object store is reached. There is no secret in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageProfile {
    /// The URL below which tables get their default locations; no slash at its end.
    pub location: String,
    /// Further URLs below which tables may lie: for data that was there before the catalog.
    pub allowed_locations: Vec<String>,
    /// Options of the object store, such as `aws_region`: those that hold no secret.
    pub options: BTreeMap<String, String>,
    /// The name of a set of further options in the configuration, secret ones among them.
    pub credentials: Option<String>,
    /// How clients get at the files of tables.
    #[serde(default)]
    pub access: FileAccess,
}

impl StorageProfile {
    /// The URLs below which tables may lie, its own location first.
    pub fn locations(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.location).chain(&self.allowed_locations)
    }
}

/// A warehouse as the catalog serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warehouse {
    /// Stable identity, minted when the warehouse is first seen; keys hold it.
    pub id: Uuid,
    /// The name that clients send as `warehouse` and find as `{prefix}` in paths.
    pub name: String,
    /// Where its files are.
    pub storage: StorageProfile,
    /// Configuration that `GET /v1/config` hands to clients as defaults.
    pub client_defaults: BTreeMap<String, String>,
    /// Configuration that `GET /v1/config` hands to clients as overrides.
    pub client_overrides: BTreeMap<String, String>,
    /// Grows with each change while the server runs; 0 for one of the configuration.
    pub version: u64,
}

/// Words that stand in the first segment of a path without a prefix, where a warehouse's name would
/// be taken for them.
const RESERVED: [&str; 6] = ["config", "namespaces", "oauth", "tables", "transactions", "views"];

/// The longest name of a warehouse, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Refuses a warehouse name that could not stand in a path as it is.
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

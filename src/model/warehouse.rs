//! Warehouses: a name, and the place where its tables' files live.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::refusal::Refusal;

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

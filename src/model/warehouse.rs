//! Warehouses: a name, and the place where its tables' files live.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::refusal::Refusal;

/// A warehouse as the catalog serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warehouse {
    /// Stable identity, minted when the warehouse is first seen; keys hold it.
    pub id: Uuid,
    /// The name that clients send as `warehouse` and find as `{prefix}` in paths.
    pub name: String,
    /// The URL below which tables get their default locations; no slash at its end.
    pub location: String,
    /// Further URLs below which tables may lie: for data that was there before the catalog.
    pub allowed_locations: Vec<String>,
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

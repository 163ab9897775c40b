//! What a vendor is asked for, and what it returns.

use std::collections::BTreeMap;
use std::sync::Arc;

use slateberg_base::secret::Secret;

use crate::location::Location;

/// What may be done to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rights {
    /// Reading and listing them.
    pub read: bool,
    /// Writing them, and ending uploads that were begun.
    pub write: bool,
    /// Deleting them. It goes with writing, but in a clone.
    pub delete: bool,
}

impl Rights {
    /// Nothing at all.
    pub const NONE: Self = Self { read: false, write: false, delete: false };
}

/// What credentials are for: a table, by its id, and the places of its files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Files {
    /// What the session is called in the provider's records.
    pub table: uuid::Uuid,
    /// The places, the table's location first; all in one bucket.
    pub places: Vec<Location>,
    /// What may be done there.
    pub rights: Rights,
}

/// Credentials, in the words of the clients' configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vended {
    /// What a client needs to be told; all of it is secret.
    pub config: Arc<BTreeMap<String, Secret>>,
    /// When they end, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
}

/// Why there are no credentials. The text is the operator's to read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VendError(pub String);

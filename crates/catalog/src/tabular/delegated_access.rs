//! [`DelegatedAccess`]: the access to files that a response gives to a client.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use slateberg_objects::vend::cache::Credentials;

/// A client's access to a table's files.
#[derive(Debug, Clone)]
pub struct DelegatedAccess {
    /// The table.
    pub id: Uuid,
    /// The location of the table, which is the prefix of the locations of its files.
    pub prefix: String,
    /// Client properties of the object store, without secrets.
    pub store: Arc<BTreeMap<String, String>>,
    /// The means of access.
    pub mode: AccessMode,
    /// For a staged table, the id with which the client requests new credentials or signatures.
    pub staged: Option<Uuid>,
    /// Name of the client property that contains the path for requests of new credentials.
    pub refresh_key: &'static str,
}

/// A client's means of access to files.
#[derive(Debug, Clone)]
pub enum AccessMode {
    /// Vended credentials.
    Credentials(Arc<Credentials>),
    /// Signatures from the catalog.
    Signatures,
    /// The client's own credentials.
    Own,
}

impl DelegatedAccess {
    /// Whether a client would receive the same response for `self` and `other`. Credentials are
    /// compared by their generation.
    pub fn is_same(&self, other: &Self) -> bool {
        let same_way = match (&self.mode, &other.mode) {
            (AccessMode::Credentials(one), AccessMode::Credentials(other)) => {
                one.generation == other.generation
            }
            (AccessMode::Signatures, AccessMode::Signatures)
            | (AccessMode::Own, AccessMode::Own) => true,
            _ => false,
        };
        same_way
            && self.id == other.id
            && self.prefix == other.prefix
            && self.store == other.store
            && self.staged == other.staged
            && self.refresh_key == other.refresh_key
    }
}

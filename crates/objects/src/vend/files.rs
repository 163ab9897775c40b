//! Input and output of credential vendors.

use std::collections::BTreeMap;
use std::sync::Arc;

use slateberg_base::error_chain::Cause;
use slateberg_base::secret::Secret;

use crate::location::Location;

/// Access to files that credentials grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Privileges {
    /// Reading and listing files.
    pub read: bool,
    /// Writing files. This includes completing and aborting uploads, and listing their parts.
    pub write: bool,
    /// Deleting files. Granted together with writing, except in a clone.
    pub delete: bool,
}

impl Privileges {
    /// No access.
    pub const NONE: Self = Self { read: false, write: false, delete: false };
}

/// Files that credentials give access to: a table's id and the locations of its files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Files {
    /// Table id, also the session name in the provider's audit log.
    pub table: uuid::Uuid,
    /// Locations of the files. The table's own location is the first one. All locations are in one
    /// bucket.
    pub locations: Vec<Location>,
    /// Access at these locations.
    pub privileges: Privileges,
}

/// Credentials, as properties of the client's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vended {
    /// Properties to send to the client. All values are secret.
    pub config: Arc<BTreeMap<String, Secret>>,
    /// Expiry, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
}

/// Reason why vending failed. The message is for the operator.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub struct VendError(pub Cause);

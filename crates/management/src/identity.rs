//! Bodies of `/management/v1/whoami` and `/management/v1/server`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::string_enum::string_enum;

string_enum! {
    /// Kind of a caller.
    CallerKind {
        /// A person.
        User = "user",
        /// A program.
        ServiceAccount = "service-account",
        /// A request without a credential.
        Anonymous = "anonymous",
    }
}

/// Response of `GET /management/v1/whoami`: the principal of the request's credential.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Caller {
    /// Kind of the principal.
    pub kind: CallerKind,
    /// Id of the principal, unique across all issuers, keys and certificates.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Groups of the principal.
    pub groups: BTreeSet<String>,
    /// Roles of the principal.
    pub roles: BTreeSet<String>,
    /// Warehouses that the credential is limited to; null for all.
    #[schema(required)]
    pub warehouses: Option<BTreeSet<String>>,
    /// Authentication method.
    pub method: CallerMethod,
}

string_enum! {
    /// Authentication method of a caller.
    CallerMethod {
        /// Token of an external issuer.
        Jwt = "jwt",
        /// API key.
        ApiKey = "api-key",
        /// Client certificate.
        Mtls = "mtls",
        /// The server requires no credential.
        None = "none",
    }
}

/// Response of `GET /management/v1/server`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ServerInfo {
    /// Name of the program.
    pub name: String,
    /// Version, as defined by Semantic Versioning.
    pub version: String,
    /// Id of the catalog, which the source of its events contains.
    pub catalog_id: Uuid,
    /// True if requests need a credential.
    pub authentication: bool,
    /// Hash of the policies in force. Decisions contain the same hash.
    pub policies_in_force: String,
    /// Number of the latest revision of policies and grants; 0 before any change.
    pub policy_revision: u64,
    /// The parent, if this catalog is a clone; otherwise null.
    #[schema(required)]
    pub clone_of: Option<CloneOrigin>,
}

/// The state of the parent catalog from which a clone was created.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CloneOrigin {
    /// Name of the cloned checkpoint, or its id; null if the current state was cloned.
    #[schema(required)]
    pub checkpoint: Option<String>,
    /// Time of the cloned state, in milliseconds since the Unix epoch.
    pub as_of_ms: i64,
    /// Time at which the clone was created, in milliseconds since the Unix epoch.
    pub cloned_at_ms: i64,
}

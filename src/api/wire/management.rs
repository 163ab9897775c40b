//! The shapes of bodies of `/management/v1`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use slateberg_authn::api_keys::ApiKeys;
use slateberg_authn::key_listing::{KeyStatus, ListedKey};
use slateberg_catalog as catalog;
use slateberg_model::principal::{IdentityKind, Principal};

/// Body of `POST /management/v1/api-keys`. An unknown member is refused: were `warehouse` taken for
/// nothing, the key would be good for all of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CreateApiKeyRequest {
    /// Display name.
    pub name: String,
    /// The roles that it has.
    #[serde(default)]
    pub roles: BTreeSet<String>,
    /// Warehouses that the key is limited to; all of them if absent.
    #[serde(default)]
    pub warehouses: Option<BTreeSet<String>>,
    /// When it expires, in milliseconds since the Unix epoch; never if it is not there.
    #[serde(default)]
    pub expires_at_ms: Option<i64>,
}

/// An API key, without its text.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ApiKey {
    /// Its identity, which is the `client_id` of OAuth too.
    pub id: String,
    /// Display name.
    pub name: String,
    /// The roles that it has.
    pub roles: BTreeSet<String>,
    /// Warehouses that the key is limited to; null for all.
    pub warehouses: Option<BTreeSet<String>>,
    /// When it was made.
    pub created_at_ms: i64,
    /// By whom.
    pub created_by: String,
    /// Name of the API key that `created_by` is the id of; null for other principals.
    pub created_by_name: Option<String>,
    /// When it expires; null for never.
    pub expires_at_ms: Option<i64>,
    /// When it was last used since the server started; null if it was not.
    pub last_used_at_ms: Option<i64>,
    /// `active`, `expired` or `revoked`.
    pub status: &'static str,
    /// Time of the revocation; null if it was not revoked.
    pub revoked_at_ms: Option<i64>,
    /// Id of the principal that revoked it; null if it was not revoked.
    pub revoked_by: Option<String>,
    /// Name of the API key that `revoked_by` is the id of; null for other principals.
    pub revoked_by_name: Option<String>,
}

impl ApiKey {
    /// A key, with the names of the principals that created and revoked it.
    pub fn new(key: ListedKey, keys: &ApiKeys) -> Self {
        let ListedKey { record, status, last_used_ms, revoked } = key;
        let (revoked_at_ms, revoked_by) = revoked.unzip();
        Self {
            id: record.id.to_string(),
            name: record.name,
            roles: record.roles,
            warehouses: record.warehouses,
            created_at_ms: record.created_ms,
            created_by_name: keys.name_of(&record.created_by),
            created_by: record.created_by,
            expires_at_ms: record.expires_ms,
            last_used_at_ms: last_used_ms,
            status: match status {
                KeyStatus::Active => "active",
                KeyStatus::Expired => "expired",
                KeyStatus::Revoked => "revoked",
            },
            revoked_at_ms,
            revoked_by_name: revoked_by.as_deref().and_then(|by| keys.name_of(by)),
            revoked_by,
        }
    }
}

/// Answer of `POST /management/v1/api-keys`.
#[derive(Serialize)]
pub struct CreatedApiKey {
    /// Its text, which is never told again.
    pub key: String,
    /// Everything else.
    #[serde(flatten)]
    pub about: ApiKey,
    /// Why the key may have fewer permissions than expected.
    pub warnings: Vec<String>,
}

/// Answer of `GET /management/v1/api-keys`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListApiKeys {
    /// The keys, revoked ones too, in the order of their creation.
    pub api_keys: Vec<ApiKey>,
}

/// Answer of `GET /management/v1/whoami`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct WhoAmI {
    /// `user`, `service-account`, or `anonymous`.
    pub kind: &'static str,
    /// Unique over all issuers and keys.
    pub id: String,
    /// What people call them.
    pub name: String,
    /// The groups that they belong to.
    pub groups: BTreeSet<String>,
    /// The roles that they have.
    pub roles: BTreeSet<String>,
    /// The only warehouses that the credential is good for; null for all.
    pub warehouses: Option<BTreeSet<String>>,
    /// How that was proven: `jwt`, `api-key`, `mtls`, or `none`.
    pub method: &'static str,
}

/// Answer of `GET /management/v1/server`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ServerInfo {
    /// `slateberg`.
    pub name: &'static str,
    /// By semantic versioning.
    pub version: &'static str,
    /// Whether requests need a credential.
    pub authentication: bool,
    /// Which policies decide: the hash that decisions name.
    pub policies_in_force: String,
    /// The number of the newest change of policies and grants; 0 if there was none.
    pub policy_revision: u64,
    /// Of what the catalog is a clone; null if it is none.
    pub clone_of: Option<CloneOf>,
}

/// Of what a catalog is a clone. Where its parent is, only operators learn.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CloneOf {
    /// The checkpoint that was cloned, by its name or else its id; null if none was named.
    pub checkpoint: Option<String>,
    /// When the state was made that was cloned.
    pub as_of_ms: i64,
    /// When the clone was made.
    pub cloned_at_ms: i64,
}

impl From<&catalog::CloneOf> for CloneOf {
    fn from(clone: &catalog::CloneOf) -> Self {
        Self {
            checkpoint: clone.checkpoint.clone(),
            as_of_ms: clone.as_of_ms,
            cloned_at_ms: clone.cloned_ms,
        }
    }
}

/// The word for a kind of principal.
pub fn kind_word(kind: IdentityKind) -> &'static str {
    match kind {
        IdentityKind::User => "user",
        IdentityKind::ServiceAccount => "service-account",
    }
}

impl From<&Principal> for WhoAmI {
    fn from(principal: &Principal) -> Self {
        let Principal::Identified(identity) = principal else {
            let id = principal.id().to_owned();
            return Self {
                kind: "anonymous",
                name: id.clone(),
                id,
                groups: BTreeSet::new(),
                roles: BTreeSet::new(),
                warehouses: None,
                method: "none",
            };
        };
        Self {
            kind: kind_word(identity.kind),
            id: identity.id.clone(),
            name: identity.name.clone(),
            groups: identity.groups.clone(),
            roles: identity.roles.clone(),
            warehouses: identity.warehouses.clone(),
            method: identity.method.word(),
        }
    }
}

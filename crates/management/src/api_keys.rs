//! Bodies of `/management/v1/api-keys`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::string_enum::string_enum;

/// Body of `POST /management/v1/api-keys`. Unknown members are rejected: if a typo such as
/// `warehouse` were ignored, the key would be valid for all warehouses.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CreateApiKeyRequest {
    /// Display name.
    #[schema(min_length = 1)]
    pub name: String,
    /// Roles of the key.
    #[serde(default)]
    pub roles: BTreeSet<String>,
    /// Warehouses that the key is limited to; null for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warehouses: Option<BTreeSet<String>>,
    /// Time of expiry, in milliseconds since the Unix epoch. Without this member, the key never
    /// expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
}

string_enum! {
    /// Whether a key is valid.
    ApiKeyStatus {
        /// Valid.
        Active = "active",
        /// Past its time of expiry.
        Expired = "expired",
        /// Revoked by a principal.
        Revoked = "revoked",
    }
}

/// An API key, without its secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ApiKey {
    /// Id of the key, which is also its `client_id` for OAuth.
    #[schema(format = "uuid")]
    pub id: String,
    /// Display name.
    pub name: String,
    /// Roles of the key.
    pub roles: BTreeSet<String>,
    /// Warehouses that the key is limited to; null for all.
    #[schema(required)]
    pub warehouses: Option<BTreeSet<String>>,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Id of the principal that created the key.
    pub created_by: String,
    /// Name of the creator if it is an API key; otherwise null.
    #[schema(required)]
    pub created_by_name: Option<String>,
    /// Time of expiry, in milliseconds since the Unix epoch; null for never.
    #[schema(required)]
    pub expires_at_ms: Option<i64>,
    /// Time of the last use since the server started; null if it was not used.
    #[schema(required)]
    pub last_used_at_ms: Option<i64>,
    /// Status of the key.
    pub status: ApiKeyStatus,
    /// Time of the revocation; null if the key was not revoked.
    #[schema(required)]
    pub revoked_at_ms: Option<i64>,
    /// Id of the principal that revoked the key.
    #[schema(required)]
    pub revoked_by: Option<String>,
    /// Name of the principal in `revoked-by` if it is an API key; otherwise null.
    #[schema(required)]
    pub revoked_by_name: Option<String>,
}

/// Response of `POST /management/v1/api-keys`.
// No `Debug`: the secret must not appear in a log.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct CreatedApiKey {
    /// The secret. No later response contains it.
    #[schema(min_length = 52, max_length = 52)]
    pub key: String,
    /// The key without its secret.
    #[serde(flatten)]
    pub details: ApiKey,
    /// Reasons why the key may have fewer permissions than expected, such as a role that no policy
    /// in force mentions.
    #[serde(default)]
    #[schema(required)]
    pub warnings: Vec<String>,
}

/// Response of `GET /management/v1/api-keys`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ApiKeyList {
    /// The keys, including revoked ones, in the order of their creation.
    pub api_keys: Vec<ApiKey>,
}

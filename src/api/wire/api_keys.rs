//! Converts API keys to the form of responses.

use slateberg_authn::api_keys::ApiKeys;
use slateberg_authn::key_listing::{KeyStatus, ListedKey};
use slateberg_management::api_keys::{ApiKey, ApiKeyStatus};

/// Returns a key, with the names of the principals that created and revoked it.
pub fn api_key(key: ListedKey, keys: &ApiKeys) -> ApiKey {
    let ListedKey { record, status, last_used_ms, revoked } = key;
    let (revoked_at_ms, revoked_by) = revoked.unzip();
    ApiKey {
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
            KeyStatus::Active => ApiKeyStatus::Active,
            KeyStatus::Expired => ApiKeyStatus::Expired,
            KeyStatus::Revoked => ApiKeyStatus::Revoked,
        },
        revoked_at_ms,
        revoked_by_name: revoked_by.as_deref().and_then(|by| keys.name_of(by)),
        revoked_by,
    }
}

//! Bodies of `/management/v1/encryption`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Body of `POST /management/v1/encryption/rewrap`. Unknown members are rejected: if a typo in
/// `wrapping-key` were ignored, the data keys would be wrapped with a different key than the caller
/// intended.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RewrapRequest {
    /// Name of the wrapping key in the KMS. Defaults to the wrapping key of the server's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrapping_key: Option<String>,
}

/// Encryption of the catalog's state.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct EncryptionStatus {
    /// True if the state of the catalog is encrypted.
    pub encrypted: bool,
    /// The key ring; null if the state is not encrypted.
    #[schema(required)]
    pub key_ring: Option<KeyRing>,
}

/// The data keys of a catalog.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct KeyRing {
    /// Id of the catalog to which the keys are bound. In a clone, the keys of the parent are bound
    /// to the parent's id instead.
    pub catalog_id: Uuid,
    /// Version of the key ring. Each change increases it.
    pub revision: u64,
    /// Number of the data key that encrypts new data.
    pub active_data_key: u32,
    /// The data keys, the oldest first. In a clone, the keys of its parent come first.
    pub data_keys: Vec<DataKey>,
}

/// A data key, without its secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DataKey {
    /// Number of the key.
    pub number: u32,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Kind of the KMS that stores the wrapping key.
    pub kms: String,
    /// Name of the wrapping key.
    pub wrapping_key: String,
    /// Time of the last wrapping, in milliseconds since the Unix epoch.
    pub wrapped_at_ms: i64,
}

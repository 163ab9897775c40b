//! Bodies of `/management/v1/checkpoints`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Body of `POST /management/v1/checkpoints`. Unknown members are rejected: if a typo in
/// `lifetime-seconds` were ignored, the checkpoint would never expire.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CreateCheckpointRequest {
    /// Unique name. It consists of letters, digits, '-', '_', '.' and ':'.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Lifetime in seconds. Without it, the checkpoint remains until it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub lifetime_seconds: Option<u64>,
}

/// A state to which the catalog can be restored.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Checkpoint {
    /// Id of the checkpoint.
    pub id: Uuid,
    /// Name of the checkpoint; null if it has none.
    #[schema(required)]
    pub name: Option<String>,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Time of expiry, in milliseconds since the Unix epoch; null for never.
    #[schema(required)]
    pub expires_at_ms: Option<i64>,
}

/// Response of `GET /management/v1/checkpoints`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CheckpointList {
    /// The checkpoints, oldest first.
    pub checkpoints: Vec<Checkpoint>,
}

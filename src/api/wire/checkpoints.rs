//! The shapes of bodies of `/management/v1/checkpoints`.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use slateberg_catalog::checkpoints;

/// Body of `POST /management/v1/checkpoints`. An unknown member is refused: were `lifetime` taken for
/// nothing, the checkpoint would be kept for ever.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CreateCheckpointRequest {
    /// What it is to be called.
    #[serde(default)]
    pub name: Option<String>,
    /// How long it is kept; for ever if it is not there.
    #[serde(default)]
    pub lifetime_seconds: Option<u64>,
}

/// A checkpoint.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Checkpoint {
    /// Its identity.
    pub id: Uuid,
    /// Name; null for none.
    pub name: Option<String>,
    /// When it was made.
    pub created_at_ms: i64,
    /// When it may be forgotten; null for never.
    pub expires_at_ms: Option<i64>,
}

/// Answer of `GET /management/v1/checkpoints`.
#[derive(Debug, Serialize)]
pub struct ListCheckpoints {
    /// From the oldest on.
    pub checkpoints: Vec<Checkpoint>,
}

impl From<checkpoints::Checkpoint> for Checkpoint {
    fn from(checkpoint: checkpoints::Checkpoint) -> Self {
        Self {
            id: checkpoint.id,
            name: checkpoint.name,
            created_at_ms: checkpoint.created_ms,
            expires_at_ms: checkpoint.expires_ms,
        }
    }
}

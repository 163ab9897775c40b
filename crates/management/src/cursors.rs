//! Bodies of `/management/v1/watch/cursors`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A cursor: the position that a consumer of the change feed has stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Cursor {
    /// Name of the cursor.
    pub name: String,
    /// Position after the last event that the consumer has processed.
    pub position: String,
    /// Number of changes after the position, including those that the consumer does not select.
    /// Null if the catalog was restored since then.
    #[schema(required)]
    pub lag_changes: Option<u64>,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Time at which the position was stored, in milliseconds since the Unix epoch.
    pub stored_at_ms: i64,
    /// Id of the principal that stored the position.
    pub stored_by: String,
    /// Random id of the process that stored the position.
    pub consumer: Uuid,
}

/// Response of `GET /management/v1/watch/cursors`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CursorList {
    /// The cursors, by name.
    pub cursors: Vec<Cursor>,
}

/// Body of `PUT /management/v1/watch/cursors/{cursor}`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StoreCursorRequest {
    /// Position after the last event that the consumer has processed.
    pub position: String,
    /// Position that is replaced. Without it, the request creates the cursor. If the cursor is at
    /// another position, another process has advanced it, and the response is 409.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// Id of the process, which it chooses at random when it starts. A process can repeat a request
    /// whose response was lost.
    pub consumer: Uuid,
}

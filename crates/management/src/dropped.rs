//! Bodies of `/management/v1/dropped`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Body of `POST /management/v1/dropped/undrop`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UndropRequest {
    /// Former name of the table or view, such as `table:prod/sales/orders`.
    #[schema(pattern = "^(table|view):[^/]+(/[^/]+){2,}$")]
    pub resource: String,
    /// Id of the table or view. Without an id, the last dropped table or view of this name is
    /// restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// New name, in the same warehouse, such as `table:prod/sales/orders_2025`. Without a new name,
    /// the table or view gets its former name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(table|view):[^/]+(/[^/]+){2,}$")]
    pub new_name: Option<String>,
}

/// A restored table or view.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct UndropResult {
    /// Id of the table or view.
    pub id: Uuid,
    /// Name of the table or view, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Location of the metadata file of the table or view.
    pub metadata_location: String,
}

/// A dropped table or view.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DroppedResource {
    /// Id of the table or view.
    pub id: Uuid,
    /// Former name of the table or view, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Location of the table or view.
    pub location: String,
    /// Location of the last metadata file of the table or view.
    pub metadata_location: String,
    /// Time of the drop, in milliseconds since the Unix epoch.
    pub dropped_at_ms: i64,
    /// Id of the principal that dropped the table or view.
    pub dropped_by: String,
    /// Name of the API key that dropped the table or view; null for another principal.
    #[schema(required)]
    pub dropped_by_name: Option<String>,
    /// Time at which the retention of the table or view ends, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
    /// Whether the files of the table or view are deleted when its retention ends.
    pub purge: bool,
}

/// Response of `GET /management/v1/dropped`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DroppedList {
    /// Dropped tables and views that the caller may restore, ordered by id.
    pub dropped: Vec<DroppedResource>,
    /// Token of the next page; null on the last page.
    #[schema(required)]
    pub next_page_token: Option<String>,
}

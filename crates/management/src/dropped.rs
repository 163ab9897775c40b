//! Bodies of `/management/v1/dropped`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Body of `POST /management/v1/dropped/undrop`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UndropRequest {
    /// Former name of the namespace, table or view, such as `namespace:prod/sales` or
    /// `table:prod/sales/orders`. A namespace is restored with everything that was dropped with it.
    #[schema(pattern = "^(namespace:[^/]+|(table|view):[^/]+/[^/]+)(/[^/]+)+$")]
    pub resource: String,
    /// Id of the namespace, table or view. Without an id, the one that was dropped last under this
    /// name is restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// New name, in the same warehouse, such as `table:prod/sales/orders_2025`. Without a new name,
    /// the namespace, table or view gets its former name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(namespace:[^/]+|(table|view):[^/]+/[^/]+)(/[^/]+)+$")]
    pub new_name: Option<String>,
}

/// A restored namespace, table or view.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct UndropResult {
    /// Id of the namespace, table or view.
    pub id: Uuid,
    /// Name of the namespace, table or view, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Location of the metadata file of the table or view; null for a namespace.
    #[schema(required)]
    pub metadata_location: Option<String>,
    /// Names of all restored resources, beginning with `resource`. For a namespace, these are its
    /// namespaces, tables, views and functions.
    pub restored: Vec<String>,
}

/// A dropped namespace, table or view.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DroppedResource {
    /// Id of the namespace, table or view.
    pub id: Uuid,
    /// Former name of the namespace, table or view, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Location of the table or view; null for a namespace.
    #[schema(required)]
    pub location: Option<String>,
    /// Location of the last metadata file of the table or view; null for a namespace.
    #[schema(required)]
    pub metadata_location: Option<String>,
    /// Time of the drop, in milliseconds since the Unix epoch.
    pub dropped_at_ms: i64,
    /// Id of the principal that dropped the namespace, table or view.
    pub dropped_by: String,
    /// Name of the API key that dropped the namespace, table or view; null for another principal.
    #[schema(required)]
    pub dropped_by_name: Option<String>,
    /// Time at which the retention ends, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
    /// Whether the files of the table or view are deleted when its retention ends. False for a
    /// namespace.
    pub purge: bool,
}

/// Response of `GET /management/v1/dropped`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DroppedList {
    /// Dropped namespaces that the caller may restore, followed by dropped tables and views, each
    /// ordered by id.
    pub dropped: Vec<DroppedResource>,
    /// Token of the next page; null on the last page.
    #[schema(required)]
    pub next_page_token: Option<String>,
}

//! Bodies of `/management/v1/watch`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A change of the catalog, or an event of the watch itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WatchEvent {
    /// Type of the event, such as `table.committed`. After `resync`, the client must list the
    /// resources again, because the caller may now see other resources than before.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Position after the event, at which a later watch can begin. Absent if more events of the
    /// same transaction follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
    /// Time of the change, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
    /// Kind of the change, such as `commit_table`, as in the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Warehouse of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warehouse: Option<String>,
    /// Changed resource, with its name after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<WatchedResource>,
    /// State before the change. Absent for a new resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<ResourceState>,
    /// State after the change. Absent for a removed resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<ResourceState>,
    /// Branches and tags that a commit set, with their snapshots.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub snapshots: BTreeMap<String, i64>,
    /// Kinds of the updates of a commit, such as `add-snapshot`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<String>,
    /// Id of the principal that made the change. Absent unless the caller may read the history of
    /// the watched resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Name of the principal at the time of the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal_name: Option<String>,
    /// `X-Request-Id` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A changed resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WatchedResource {
    /// Kind: `warehouse`, `namespace`, `table`, `view` or `function`. `other` for anything else.
    pub kind: String,
    /// Id in the catalog. A rename does not change it.
    pub id: Uuid,
    /// The `table-uuid` or `view-uuid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// Levels of the namespace that contains the table or view, or of the namespace itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace: Vec<String>,
    /// Name of the warehouse, table or view. Absent for a namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// State of a resource before or after a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ResourceState {
    /// Version of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Location of the metadata file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_location: Option<String>,
    /// Levels of the namespace before a rename.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Vec<String>>,
    /// Name before a rename.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Response of `GET /management/v1/watch` without `Accept: text/event-stream`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WatchResponse {
    /// Events, in the order of the changes.
    pub events: Vec<WatchEvent>,
    /// Value of `after` for the next request.
    pub next: String,
    /// True if no further events existed when the server responded.
    pub caught_up: bool,
}

//! Bodies of `/management/v1/history`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A change of a resource.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct HistoryEntry {
    /// Sequence number. Later changes have greater numbers, but the numbers need not be
    /// consecutive.
    pub number: u64,
    /// Time of the change, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Kind of the change, such as `commit_table`.
    pub action: String,
    /// Id of the changed resource.
    pub id: Uuid,
    /// Name of the resource after the change, with dots between the levels.
    pub name: String,
    /// Warehouse of the resource; null for a resource outside of warehouses.
    #[schema(required)]
    pub warehouse: Option<String>,
    /// Version before the change; null if the resource was created.
    #[schema(required)]
    pub version_before: Option<u64>,
    /// Version after the change; null if the resource was removed.
    #[schema(required)]
    pub version_after: Option<u64>,
    /// Id of the principal that made the change.
    pub principal: String,
    /// Name of the principal at the time of the change.
    #[schema(required)]
    pub principal_name: Option<String>,
    /// Kind of the credential: `jwt`, `api-key`, `mtls` or `embedded`.
    #[schema(required)]
    pub authentication: Option<String>,
    /// IP address of the client.
    #[schema(required)]
    pub source_address: Option<String>,
    /// `X-Request-Id` of the request.
    #[schema(required)]
    pub request_id: Option<String>,
    /// Ids of the policies that allowed the change; null if no policies were evaluated.
    #[schema(required)]
    pub policies: Option<Vec<String>>,
    /// Hash of the policy set that contained these policies.
    #[schema(required)]
    pub policy_revision: Option<String>,
}

/// Response of `GET /management/v1/history`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct HistoryResponse {
    /// Changes, the newest first.
    pub entries: Vec<HistoryEntry>,
    /// Value of `before` for the next page; null on the last page.
    #[schema(required)]
    pub next_before: Option<u64>,
}

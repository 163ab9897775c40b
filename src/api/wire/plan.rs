//! Request bodies of scan planning, and the small response bodies.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlanTableScanRequest {
    /// The snapshot to scan.
    #[serde(default)]
    pub snapshot_id: Option<i64>,
    /// The snapshot after which an incremental scan begins.
    #[serde(default)]
    pub start_snapshot_id: Option<i64>,
    /// The last snapshot of an incremental scan.
    #[serde(default)]
    pub end_snapshot_id: Option<i64>,
    /// Columns that the client reads. The response does not depend on them.
    #[serde(default, rename = "select")]
    pub _select: Option<Vec<String>>,
    /// Filter of the rows.
    #[serde(default, deserialize_with = "even_null")]
    pub filter: Option<Box<RawValue>>,
    /// Number of rows that are sufficient for the client.
    #[serde(default)]
    pub min_rows_requested: Option<i64>,
    /// Whether names of columns are case-sensitive. Defaults to true.
    #[serde(default)]
    pub case_sensitive: Option<bool>,
    /// Whether to use the schema of the snapshot instead of the current one.
    #[serde(default)]
    pub use_snapshot_schema: Option<bool>,
    /// Columns whose statistics the response contains.
    #[serde(default)]
    pub stats_fields: Option<Vec<String>>,
}

/// Body of `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FetchScanTasksRequest {
    /// A plan task.
    pub plan_task: String,
}

/// Result of a plan without files.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlanStatus {
    /// Status of the plan.
    pub status: &'static str,
    /// Id of the plan, only in the response to the request that plans a scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
}

/// Deserializes a member that is present. Returns `Some` even if the value is null.
fn even_null<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(json).map(Some)
}

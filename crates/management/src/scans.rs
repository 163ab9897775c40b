//! Bodies of `/management/v1/scans`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Body of `POST /management/v1/scans/explain`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ExplainScanRequest {
    /// A table, such as `table:prod/sales/orders`.
    #[schema(pattern = "^table:.+$")]
    pub resource: String,
    /// Filter of the rows, as an expression of the Iceberg REST specification. Defaults to all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub filter: Option<Value>,
    /// Snapshot to scan. Defaults to the newest one of the branch main.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<i64>,
    /// Snapshot after which an incremental scan begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_snapshot_id: Option<i64>,
    /// Last snapshot of an incremental scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_snapshot_id: Option<i64>,
    /// Whether names of columns are case-sensitive. Defaults to true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case_sensitive: Option<bool>,
}

/// Counts of the manifests and files that a scan reads, and of those that it skips.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ScanExplanation {
    /// Number of data files to read.
    pub files: u64,
    /// Total size of the data files to read, in bytes.
    pub bytes: u64,
    /// Number of rows in the data files to read. Includes deleted rows and rows that do not match
    /// the filter.
    pub rows: u64,
    /// Number of delete files that apply to the data files to read.
    pub delete_files: u64,
    /// Total size of the delete files to read, in bytes.
    pub delete_bytes: u64,
    /// Number of data manifests in the scanned snapshots.
    pub manifests: u64,
    /// Number of data manifests that were not read, because no partition in them can match the
    /// filter.
    pub manifests_pruned: u64,
    /// Number of delete manifests in the scanned snapshots.
    pub delete_manifests: u64,
    /// Number of files, in the data manifests that were read, whose partition cannot match the
    /// filter.
    pub files_pruned_by_partition: u64,
    /// Number of remaining files whose statistics show that no row matches the filter.
    pub files_pruned_by_statistics: u64,
}

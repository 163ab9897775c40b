//! Bodies of `/management/v1/tables`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::string_enum::string_enum;

/// Response of `GET /management/v1/tables/health`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TableHealth {
    /// The table, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Current snapshot; null if the table has no snapshots.
    #[schema(required)]
    pub snapshot_id: Option<i64>,
    /// False if the table has more than about one million files. Then `data-files` and
    /// `delete-files` include only some of them.
    pub complete: bool,
    /// Data files of the current snapshot.
    pub data_files: DataFilesHealth,
    /// Delete files of the current snapshot.
    pub delete_files: DeleteFilesHealth,
    /// Manifests of the current snapshot.
    pub manifests: ManifestsHealth,
    /// Metadata of the table.
    pub metadata: MetadataHealth,
    /// Snapshots of the table.
    pub snapshots: SnapshotsHealth,
    /// Growth from the oldest to the newest snapshot of the branch main; null if the branch has
    /// fewer than two snapshots.
    #[schema(required)]
    pub growth: Option<TableGrowth>,
    /// The recommended actions, the most important first.
    pub advice: Vec<TableAdvice>,
}

/// Counts of data files.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DataFilesHealth {
    /// Number of files.
    pub files: u64,
    /// Size of all files, in bytes.
    pub bytes: u64,
    /// Number of rows in the files. Includes deleted rows.
    pub rows: u64,
    /// Number of partitions that contain files.
    pub partitions: u64,
    /// Target size of a file, in bytes (`write.target-file-size-bytes`).
    pub target_bytes: u64,
    /// Number of files that are smaller than 75 % of the target.
    pub small_files: u64,
    /// Size of the small files, in bytes.
    pub small_bytes: u64,
    /// Number of small files that Spark's `rewrite_data_files` would replace: those in partitions
    /// with at least five small files, or with more than one target size of small files.
    pub compactable_files: u64,
    /// Approximate number of files that would replace them.
    pub compacted_files: u64,
}

/// Counts of delete files.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DeleteFilesHealth {
    /// Number of position delete files.
    pub position_files: u64,
    /// Number of equality delete files.
    pub equality_files: u64,
    /// Number of deletion vectors.
    pub vectors: u64,
    /// Size of all delete files and vectors, in bytes.
    pub bytes: u64,
    /// Number of rows that position delete files and deletion vectors delete.
    pub deleted_rows: u64,
}

/// Counts of manifests.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ManifestsHealth {
    /// Number of manifests of data files.
    pub data: u64,
    /// Number of manifests of delete files.
    pub delete: u64,
    /// Size of all manifests, in bytes.
    pub bytes: u64,
    /// Number of data manifests that are smaller than half of the target.
    pub small: u64,
    /// Target size of a manifest, in bytes (`commit.manifest.target-size-bytes`).
    pub target_bytes: u64,
}

/// Sizes of the metadata of a table.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct MetadataHealth {
    /// Size of the metadata as JSON, in bytes.
    pub bytes: u64,
    /// Size of the manifest list of the current snapshot, in bytes.
    pub manifest_list_bytes: u64,
    /// Number of earlier metadata files that the metadata references.
    pub previous_files: u64,
    /// Maximum number of earlier metadata files that the metadata references
    /// (`write.metadata.previous-versions-max`).
    pub previous_files_max: u64,
    /// Whether commits delete earlier metadata files that the metadata no longer references
    /// (`write.metadata.delete-after-commit.enabled`).
    pub deletes_previous_files: bool,
}

/// Counts of snapshots.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SnapshotsHealth {
    /// Number of snapshots.
    pub snapshots: u64,
    /// Number of branches and tags.
    pub refs: u64,
    /// Number of snapshots that have expired by the properties of the table; null if the table has
    /// `gc.enabled=false` or an invalid retention property.
    #[schema(required)]
    pub expired: Option<u64>,
    /// Id of the oldest snapshot; null if the table has no snapshots.
    #[schema(required)]
    pub oldest_id: Option<i64>,
    /// Time of the oldest snapshot, in milliseconds since the Unix epoch.
    #[schema(required)]
    pub oldest_at_ms: Option<i64>,
    /// Time of the newest snapshot, in milliseconds since the Unix epoch.
    #[schema(required)]
    pub newest_at_ms: Option<i64>,
}

/// Differences between two snapshots. A difference is null if the writer of a snapshot did not
/// record the total in its summary.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TableGrowth {
    /// Time of the first snapshot, in milliseconds since the Unix epoch.
    pub from_at_ms: i64,
    /// Time of the second snapshot, in milliseconds since the Unix epoch.
    pub to_at_ms: i64,
    /// Number of snapshots after the first one.
    pub snapshots: u64,
    /// Difference in the number of data files.
    #[schema(required)]
    pub data_files: Option<i64>,
    /// Difference in the number of delete files.
    #[schema(required)]
    pub delete_files: Option<i64>,
    /// Difference in the size of all files, in bytes.
    #[schema(required)]
    pub bytes: Option<i64>,
    /// Difference in the number of rows.
    #[schema(required)]
    pub rows: Option<i64>,
}

/// Advice for the owner of a table.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TableAdvice {
    /// The recommended action.
    pub action: TableAdviceAction,
    /// Reason of the advice.
    pub reason: String,
    /// Program that runs the statement.
    pub run_with: StatementProgram,
    /// Statement or command that does it. Statements for Spark use the name of the warehouse as the
    /// name of Spark's catalog.
    pub statement: String,
}

string_enum! {
    /// An action that improves the health of a table.
    TableAdviceAction {
        /// Compact data files, and apply delete files to them.
        RewriteDataFiles = "rewrite-data-files",
        /// Compact position delete files.
        RewritePositionDeleteFiles = "rewrite-position-delete-files",
        /// Compact manifests.
        RewriteManifests = "rewrite-manifests",
        /// Remove old snapshots and the files that only they need.
        ExpireSnapshots = "expire-snapshots",
        /// Let commits delete earlier metadata files.
        DeleteOldMetadata = "delete-old-metadata",
    }
}

string_enum! {
    /// A program that runs statements.
    StatementProgram {
        /// Spark SQL with Iceberg's extensions.
        Spark = "spark",
        /// A shell with the command line of slateberg.
        Slateberg = "slateberg",
    }
}

/// Response of `GET /management/v1/tables/usage`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TableUsageList {
    /// The use of each table.
    pub tables: Vec<TableUsage>,
    /// Token of the next page; null on the last page.
    #[schema(required)]
    pub next_page_token: Option<String>,
}

/// The use of a table. The counts are approximate.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TableUsage {
    /// The table, such as `table:prod/sales/orders`.
    pub resource: String,
    /// Number of loads.
    pub loads: u64,
    /// Number of scans that the server has planned.
    pub scans: u64,
    /// Number of commits.
    pub commits: u64,
    /// Time of the first counted use, in milliseconds since 1970; null if no use was counted.
    #[schema(required)]
    pub since_ms: Option<i64>,
    /// Time of the last load or planned scan, in milliseconds since 1970; null if there was none.
    #[schema(required)]
    pub last_read_at_ms: Option<i64>,
    /// Principal of the last load or planned scan. Present only if the caller has `ReadHistory` on
    /// the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_read_by: Option<String>,
    /// Name of this principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_read_by_name: Option<String>,
    /// Time of the last commit, in milliseconds since 1970; null if there was none.
    #[schema(required)]
    pub last_commit_at_ms: Option<i64>,
    /// Principal of the last commit. Present only if the caller has `ReadHistory` on the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_commit_by: Option<String>,
    /// Name of this principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_commit_by_name: Option<String>,
}

/// Response of `GET /management/v1/tables/metrics-reports`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct MetricsReportList {
    /// The table, such as `table:prod/sales/orders`.
    pub resource: String,
    /// The kept reports, the newest first.
    pub reports: Vec<MetricsReport>,
}

/// A metrics report of a client.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct MetricsReport {
    /// Time at which the server received the report, in milliseconds since 1970.
    pub received_at_ms: i64,
    /// Principal that sent the report.
    pub reported_by: String,
    /// Name of this principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_by_name: Option<String>,
    /// The report as the client sent it: `ReportMetricsRequest` of the Iceberg REST specification.
    #[schema(value_type = Object)]
    pub report: serde_json::Value,
}

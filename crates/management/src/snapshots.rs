//! Bodies of `/management/v1/snapshots`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST /management/v1/snapshots/expire`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ExpireSnapshotsRequest {
    /// The table, such as `table:prod/sales/orders`.
    #[schema(pattern = "^table:[^/]+(/[^/]+){2,}$")]
    pub resource: String,
    /// True to list the snapshots without removing them.
    #[serde(default = "default_true")]
    #[schema(default = true)]
    pub dry_run: bool,
    /// Age in seconds from which snapshots expire. Defaults to the table property
    /// `history.expire.max-snapshot-age-ms`, or to five days if the table has no such property.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_than_seconds: Option<u64>,
    /// Number of snapshots of each branch that are retained, whatever their age. Defaults to the
    /// table property `history.expire.min-snapshots-to-keep`, or to 1 if the table has no such
    /// property.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub retain_last: Option<u32>,
}

fn default_true() -> bool {
    true
}

/// Snapshots, branches and tags that were removed from a table or that a dry run would remove.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SnapshotExpiry {
    /// Snapshots, in the order in which they were added to the table.
    pub snapshots: Vec<ExpiredSnapshot>,
    /// Names of branches and tags.
    pub refs: Vec<String>,
    /// Number of snapshots that remain.
    pub remaining: usize,
    /// Id of the job that deletes the files; null if the request was a dry run, if nothing expired,
    /// or if the catalog is a clone.
    #[schema(required)]
    pub job: Option<String>,
}

/// A removed snapshot.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ExpiredSnapshot {
    /// Id of the snapshot.
    pub snapshot_id: i64,
    /// Time at which the snapshot was created, by the clock of its writer, in milliseconds since the
    /// Unix epoch.
    pub timestamp_ms: i64,
}

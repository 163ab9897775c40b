//! Bodies of `/management/v1/jobs`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::string_enum::string_enum;

/// Kind of a job that a client can start.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StartableJob {
    /// Deletion of files that no metadata references.
    OrphanRemoval,
}

/// Body of `POST /management/v1/jobs`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StartJobRequest {
    /// Kind of the job.
    pub kind: StartableJob,
    /// The table, such as `table:prod/sales/orders`.
    #[schema(pattern = "^table:[^/]+(/[^/]+){2,}$")]
    pub resource: String,
    /// True to list the files without deleting them.
    #[serde(default = "default_true")]
    #[schema(default = true)]
    pub dry_run: bool,
    /// Minimum age of the files in seconds. Defaults to `catalog.orphan_age_seconds`, and must be
    /// at least `catalog.orphan_age_seconds_min`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_than_seconds: Option<u64>,
}

fn default_true() -> bool {
    true
}

string_enum! {
    /// Kind of a job.
    JobKind {
        /// Deletion of the files of a dropped table.
        Purge = "purge",
        /// Deletion of outdated metadata files.
        MetadataCleanUp = "metadata-clean-up",
        /// Deletion of files that only expired snapshots referenced.
        SnapshotExpiry = "snapshot-expiry",
        /// Deletion of files that rebases have left behind.
        RebaseCleanUp = "rebase-clean-up",
        /// Deletion of files that no metadata references.
        OrphanRemoval = "orphan-removal",
    }
}

string_enum! {
    /// State of a job.
    JobState {
        /// The job waits for its next attempt.
        Waiting = "waiting",
        /// The job runs.
        Running = "running",
        /// The job ended with success.
        Done = "done",
        /// The job failed and is not retried.
        Failed = "failed",
        /// A principal cancelled the job.
        Cancelled = "cancelled",
    }
}

/// A background job.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Job {
    /// Id of the job.
    pub id: String,
    /// Kind of the job.
    pub kind: JobKind,
    /// State of the job.
    pub state: JobState,
    /// The table or warehouse of the job, such as `table:prod/sales/orders`.
    #[schema(required)]
    pub resource: Option<String>,
    /// For an orphan removal: true if the job only lists the files that it would delete. Null for
    /// other jobs.
    #[schema(required)]
    pub dry_run: Option<bool>,
    /// For an orphan removal: minimum age of the files in seconds. Null for other jobs.
    #[schema(required)]
    pub older_than_seconds: Option<u64>,
    /// Counts of files.
    pub files: JobFiles,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Id of the principal that created the job; null for a job that a commit created.
    #[schema(required)]
    pub created_by: Option<String>,
    /// Name of the creator if it is an API key; otherwise null.
    #[schema(required)]
    pub created_by_name: Option<String>,
    /// Time of the first start, in milliseconds since the Unix epoch.
    #[schema(required)]
    pub started_at_ms: Option<i64>,
    /// Time of the end, in milliseconds since the Unix epoch.
    #[schema(required)]
    pub ended_at_ms: Option<i64>,
    /// Number of consecutive failures since the last progress.
    pub failures: u32,
    /// Reason for the last failure.
    #[schema(required)]
    pub last_error: Option<String>,
    /// Reason why the job leaves files of the table; null if it leaves none.
    #[schema(required)]
    pub warning: Option<String>,
    /// Time of the next attempt, in milliseconds since the Unix epoch.
    #[schema(required)]
    pub next_try_at_ms: Option<i64>,
    /// The first 1,000 files that a dry run found. Present only in responses with a single job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Vec<String>>,
}

/// Counts of a job's files.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct JobFiles {
    /// Number of files that the job has deleted or, in a dry run, would delete.
    pub done: u64,
    /// Number of all files of the job; null while the number is unknown.
    #[schema(required)]
    pub total: Option<u64>,
    /// Number of files that stay because another table or a clone needs them, because the server
    /// may not delete them in this warehouse, or because it cannot read their manifest.
    pub kept: u64,
    /// Total size in bytes of the files in `done`; null if the sizes are unknown.
    #[schema(required)]
    pub bytes: Option<u64>,
}

/// Response of `GET /management/v1/jobs`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct JobList {
    /// The unfinished jobs, followed by the finished jobs. Both are in the order of their creation.
    pub jobs: Vec<Job>,
    /// Token of the next page; null on the last page.
    #[schema(required)]
    pub next_page_token: Option<String>,
}

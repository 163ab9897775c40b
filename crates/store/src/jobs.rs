//! Records of background jobs, which delete files.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A background job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Warehouse of the files.
    pub warehouse: Uuid,
    /// Files to delete. Before format 5, the record of a job contained only this field, `warehouse`
    /// and `created_ms`.
    #[serde(rename = "files")]
    pub work: JobWork,
    /// Time of creation.
    pub created_ms: i64,
    /// Id of the creator. `None` if a commit or an older binary created the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// Table to which the files belong. `None` if an older binary created the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<JobTable>,
    /// Progress of the job.
    #[serde(default)]
    pub progress: JobProgress,
    /// Number of consecutive failures without progress.
    #[serde(default)]
    pub failures: u32,
    /// Last error, for principals that may see the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Earliest time of the next attempt.
    #[serde(default)]
    pub next_try_ms: i64,
    /// End of the job. `None` while it is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<JobEnd>,
}

/// Table of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTable {
    /// Id of the table.
    pub id: Uuid,
    /// Its `table-uuid`.
    pub uuid: Uuid,
    /// Name of the table when the job was created, as `table:prod/sales/orders`. `None` if the name
    /// was not looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Locations of the table's files when the job was created.
    #[serde(rename = "places")]
    pub locations: Vec<String>,
}

/// Task of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobWork {
    /// Deletes these metadata files, which the table's metadata log no longer references.
    Listed(Vec<String>),
    /// Deletes all files that the last metadata of a purged table references, and the metadata
    /// files themselves. The store keeps the metadata until the job ends.
    ReachableFrom {
        /// Id of the dropped table.
        id: Uuid,
        /// Location of its last metadata file.
        metadata_location: String,
    },
    /// Deletes the files that expired snapshots of a table reference, unless another snapshot of the
    /// table or another table references them.
    Expired {
        /// Manifest lists of the snapshots.
        manifest_lists: Vec<String>,
        /// Manifests of the snapshots without a manifest list.
        manifests: Vec<String>,
        /// Statistics of the snapshots.
        statistics: Vec<String>,
    },
    /// Deletes files that rebases have left behind ([`AbandonedFiles`]), unless a table references
    /// them.
    Abandoned {
        /// Manifest lists.
        manifest_lists: Vec<String>,
        /// Manifests.
        manifests: Vec<String>,
    },
    /// Deletes unreferenced files at the table's location.
    Orphans {
        /// Whether the job only reports the files.
        dry_run: bool,
        /// Minimum age of the files that the job deletes.
        age_seconds: u64,
        /// Whether the scheduled maintenance created the job. Such a job also keeps the files that a
        /// checkpoint may need.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        scheduled: bool,
    },
}

/// The last scheduled search for the orphans of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanSearch {
    /// Time at which the job of the search was created.
    pub at_ms: i64,
    /// Whether a scheduled dry run of the table has ended. Only then may a scheduled search delete
    /// files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
}

/// Files that rebases of a table's commits have left behind. The transaction that leaves them behind
/// writes this record. Later, jobs delete the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbandonedFiles {
    /// Warehouse of the files.
    pub warehouse: Uuid,
    /// Table of the commits.
    pub table: JobTable,
    /// Manifest lists of clients that the server has replaced by its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_lists: Vec<String>,
    /// Manifests that a client has merged in vain, or that the server has written for a commit that
    /// it may reject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
    /// Time of the record.
    pub since_ms: i64,
}

/// Progress of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobProgress {
    /// Time of the first attempt.
    pub started_ms: Option<i64>,
    /// Number of files that were deleted, or that a dry run would delete.
    pub done: u64,
    /// Total number of files, once it is known.
    pub total: Option<u64>,
    /// Number of files that were not deleted, because another table or a clone needs them, or
    /// because the warehouse may not access them.
    pub kept: u64,
    /// Total size in bytes of the files that `done` counts, as far as a listing contains their
    /// sizes.
    pub bytes: u64,
    /// Position at which the next attempt continues.
    pub position: Option<PurgePosition>,
    /// The job deletes only files that were written before this time, according to the object
    /// store's clock.
    pub cutoff_ms: Option<i64>,
    /// Locations of the first files that a dry run would delete.
    pub found: Vec<String>,
    /// Reason why a purge leaves files of the table. `None` if it leaves none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Position in the work of a purge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgePosition {
    /// Current phase.
    pub phase: PurgePhase,
    /// Location of the last file that the job has processed. In the first phase, this file is a
    /// manifest, and the job has processed all data and delete files that the manifest lists.
    pub after: String,
}

/// Phases of a purge. Files are deleted before the files that reference them, so every remaining
/// file is still referenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PurgePhase {
    /// Data and delete files, manifest by manifest.
    Data,
    /// Manifests.
    Manifests,
    /// Manifest lists.
    ManifestLists,
    /// Statistics, and older metadata files.
    Others,
    /// The last metadata file.
    Metadata,
}

/// End of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// The outcome of the job.
    pub how: JobOutcome,
    /// Time of the end.
    pub at_ms: i64,
}

/// How a job can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobOutcome {
    /// The job is complete.
    Done,
    /// The job failed permanently.
    Failed,
    /// A client cancelled the job.
    Cancelled,
}

impl Job {
    /// Creates a job.
    pub fn new(warehouse: Uuid, work: JobWork, table: Option<JobTable>, created_ms: i64) -> Self {
        Self {
            warehouse,
            work,
            created_ms,
            created_by: None,
            table,
            progress: JobProgress::default(),
            failures: 0,
            last_error: None,
            next_try_ms: 0,
            ended: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Value;

    #[test]
    fn job_record_of_an_older_version_decodes_as_not_started() {
        for (files, work) in [
            (r#"{"listed":["a","b"]}"#, JobWork::Listed(vec!["a".into(), "b".into()])),
            (
                r#"{"reachable-from":{"id":"00000000-0000-0000-0000-000000000000","metadata_location":"m"}}"#,
                JobWork::ReachableFrom { id: Uuid::nil(), metadata_location: "m".into() },
            ),
        ] {
            let warehouse = Uuid::nil();
            let text = format!(r#"{{"warehouse":"{warehouse}","files":{files},"created_ms":7}}"#);
            let expected = Job::new(warehouse, work, None, 7);
            let mut bytes = expected.encode();
            bytes.truncate(1);
            bytes.extend_from_slice(text.as_bytes());
            assert_eq!(Job::decode(&bytes).expect("it is a job"), expected);
        }
    }
}

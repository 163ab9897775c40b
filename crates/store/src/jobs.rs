//! The records of background jobs, which delete files.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A background job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The warehouse that the files are in.
    pub warehouse: Uuid,
    /// What is to be deleted. Until format 5 a job was this, its warehouse and its time.
    #[serde(rename = "files")]
    pub work: Work,
    /// When the job was made.
    pub created_ms: i64,
    /// By whom; none for one that a commit has left, and for one that an older binary has made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// Whose files they are; none for a job that an older binary has made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<JobTable>,
    /// How far it has come.
    #[serde(default)]
    pub progress: Progress,
    /// How often in a row it has failed since it last got on.
    #[serde(default)]
    pub failures: u32,
    /// Why it failed last, for whoever may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Not before then is it tried again.
    #[serde(default)]
    pub next_try_ms: i64,
    /// How it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// The table that a job is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTable {
    /// Its id.
    pub id: Uuid,
    /// Its `table-uuid`.
    pub uuid: Uuid,
    /// Its name when the job was made, as `table:prod/sales/orders`; none where that was not looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Where its files were then.
    pub places: Vec<String>,
}

/// What a job does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Deletes these metadata files, which a table's log does not name any more.
    Listed(Vec<String>),
    /// Deletes everything that a purged table's last metadata leads to, and the metadata files themselves.
    /// The metadata record outlives the table's until the job has ended, and goes with it.
    ReachableFrom {
        /// The id that the table had.
        id: Uuid,
        /// Where its last metadata file is.
        metadata_location: String,
    },
    /// Deletes files at the table's location that no metadata leads to.
    Orphans {
        /// Whether it only tells what it would delete.
        dry_run: bool,
        /// Files stay that are younger than this.
        age_seconds: u64,
    },
}

/// How far a job has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// When it was first taken up.
    pub started_ms: Option<i64>,
    /// Files that it has deleted, or would.
    pub done: u64,
    /// All that it is going to delete or leave, as soon as that is known.
    pub total: Option<u64>,
    /// Files that it has left where they are: another table needs them, or the warehouse may not touch
    /// them.
    pub kept: u64,
    /// Bytes of the files that it has deleted or would, where a listing told.
    pub bytes: u64,
    /// Up to where it need not look again.
    pub position: Option<Position>,
    /// Files younger than this stay, by the clock of the object store.
    pub cutoff_ms: Option<i64>,
    /// The first of those that it would delete.
    pub found: Vec<String>,
}

/// A place in the work of a purge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// What it is deleting.
    pub phase: Phase,
    /// The last location that is done with; a manifest in the first phase.
    pub after: String,
}

/// The phases of a purge: as long as anything is left, what leads to it is left, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
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

/// How a job ended, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// How.
    pub how: Ending,
    /// When.
    pub at_ms: i64,
}

/// The ends that a job can come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// All of it is done.
    Done,
    /// It cannot be done.
    Failed,
    /// Somebody did not want it any more.
    Cancelled,
}

impl Job {
    /// A job that nobody has taken up yet.
    pub fn new(warehouse: Uuid, work: Work, table: Option<JobTable>, created_ms: i64) -> Self {
        Self {
            warehouse,
            work,
            created_ms,
            created_by: None,
            table,
            progress: Progress::default(),
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
    fn what_older_binaries_have_left_is_a_job_that_nobody_has_taken_up() {
        for (files, work) in [
            (r#"{"listed":["a","b"]}"#, Work::Listed(vec!["a".into(), "b".into()])),
            (
                r#"{"reachable-from":{"id":"00000000-0000-0000-0000-000000000000","metadata_location":"m"}}"#,
                Work::ReachableFrom { id: Uuid::nil(), metadata_location: "m".into() },
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

//! The shapes of bodies of `/management/v1/jobs`.

use serde::{Deserialize, Serialize};

use slateberg_authn::api_keys::ApiKeys;
use slateberg_catalog::jobs::listing::{JobInfo, JobPage, State};
use slateberg_catalog::jobs::manage::OrphanRemoval;

/// What can be started by a request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartedKind {
    /// Deleting files that no metadata leads to.
    OrphanRemoval,
}

/// Body of `POST /management/v1/jobs`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StartJobRequest {
    /// What is to be done.
    pub kind: StartedKind,
    /// To which table, as `table:prod/sales/orders`.
    pub resource: String,
    /// Whether it is only told what would be deleted: so it is unless the request says `false`.
    #[serde(default = "yes")]
    pub dry_run: bool,
    /// Files that are younger stay.
    #[serde(default)]
    pub older_than_seconds: Option<u64>,
}

fn yes() -> bool {
    true
}

impl From<StartJobRequest> for OrphanRemoval {
    fn from(request: StartJobRequest) -> Self {
        let StartJobRequest { kind, resource, dry_run, older_than_seconds } = request;
        match kind {
            StartedKind::OrphanRemoval => {
                Self { resource, dry_run, age_seconds: older_than_seconds }
            }
        }
    }
}

/// A background job.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Job {
    /// Its id.
    pub id: String,
    /// `purge`, `metadata-clean-up` or `orphan-removal`.
    pub kind: String,
    /// `waiting`, `running`, `done`, `failed` or `cancelled`.
    pub state: State,
    /// The table or warehouse that it is about, as `table:prod/sales/orders`.
    pub resource: Option<String>,
    /// Of a removal of orphans: whether it only tells what would be deleted.
    pub dry_run: Option<bool>,
    /// Of a removal of orphans: files that are younger stay.
    pub older_than_seconds: Option<u64>,
    /// What has become of files.
    pub files: Files,
    /// When it was made, in milliseconds since the Unix epoch, as all times here.
    pub created_at_ms: i64,
    /// By whom; null for what a commit has left.
    pub created_by: Option<String>,
    /// Name of the API key that `created_by` is the id of; null for other principals.
    pub created_by_name: Option<String>,
    /// When it was first taken up.
    pub started_at_ms: Option<i64>,
    /// When it ended.
    pub ended_at_ms: Option<i64>,
    /// How often in a row it has failed since it last got on.
    pub failures: u32,
    /// Why it failed last.
    pub last_error: Option<String>,
    /// When it is tried again.
    pub next_try_at_ms: Option<i64>,
    /// The first of the files that a dry run has found; only where one job is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Vec<String>>,
}

/// What has become of files.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Files {
    /// Those that are deleted, or would be.
    pub done: u64,
    /// All of them; null as long as that is not known.
    pub total: Option<u64>,
    /// Those that stay: another table needs them, or the warehouse may not touch them.
    pub kept: u64,
    /// The bytes of those that are deleted or would be; null where nobody has told.
    pub bytes: Option<u64>,
}

impl Job {
    /// All that is told of it.
    pub fn whole(mut info: JobInfo, keys: &ApiKeys) -> Self {
        let found = std::mem::take(&mut info.progress.found);
        Self { found: info.dry_run.map(|_| found), ..Self::new(info, keys) }
    }

    /// A job without the files that it has found.
    pub fn new(info: JobInfo, keys: &ApiKeys) -> Self {
        let progress = info.progress;
        Self {
            id: info.id.to_string(),
            kind: info.kind,
            state: info.state,
            resource: info.resource,
            dry_run: info.dry_run,
            older_than_seconds: info.age_seconds,
            files: Files {
                done: progress.done,
                total: progress.total,
                kept: progress.kept,
                bytes: info.dry_run.map(|_| progress.bytes),
            },
            created_at_ms: info.created_ms,
            created_by_name: info.created_by.as_deref().and_then(|by| keys.name_of(by)),
            created_by: info.created_by,
            started_at_ms: progress.started_ms,
            ended_at_ms: info.ended_ms,
            failures: info.failures,
            last_error: info.last_error,
            next_try_at_ms: info.next_try_ms,
            found: None,
        }
    }
}

/// Answer of `GET /management/v1/jobs`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListJobs {
    /// Those that have not ended first, then the others, each in the order of their making.
    pub jobs: Vec<Job>,
    /// The token of the next page; null if this is the last.
    pub next_page_token: Option<String>,
}

impl ListJobs {
    /// A page of jobs.
    pub fn new(page: JobPage, keys: &ApiKeys) -> Self {
        let jobs = page.jobs.into_iter().map(|job| Job::new(job, keys)).collect();
        Self { jobs, next_page_token: page.next }
    }
}

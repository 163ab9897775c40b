//! Converts jobs to the form of responses.

use slateberg_authn::api_keys::ApiKeys;
use slateberg_catalog::jobs::listing::{JobInfo, JobPage, State};
use slateberg_catalog::jobs::manage::OrphanRemoval;
use slateberg_management::jobs::{
    Job, JobFiles, JobKind, JobList, JobState, StartJobRequest, StartableJob,
};

/// Converts a request to remove orphan files.
pub fn orphan_removal(request: StartJobRequest) -> OrphanRemoval {
    let StartJobRequest { kind, resource, dry_run, older_than_seconds } = request;
    match kind {
        StartableJob::OrphanRemoval => {
            OrphanRemoval { resource, dry_run, age_seconds: older_than_seconds }
        }
    }
}

/// Returns a job with the files that a dry run found.
pub fn job_with_files(mut info: JobInfo, keys: &ApiKeys) -> Job {
    let found = std::mem::take(&mut info.progress.found);
    Job { found: info.dry_run.map(|_| found), ..job(info, keys) }
}

fn job(info: JobInfo, keys: &ApiKeys) -> Job {
    let progress = info.progress;
    Job {
        id: info.id.to_string(),
        kind: match info.kind.as_str() {
            "purge" => JobKind::Purge,
            "metadata-clean-up" => JobKind::MetadataCleanUp,
            "snapshot-expiry" => JobKind::SnapshotExpiry,
            "rebase-clean-up" => JobKind::RebaseCleanUp,
            "orphan-removal" => JobKind::OrphanRemoval,
            _ => JobKind::Other(info.kind),
        },
        state: match info.state {
            State::Waiting => JobState::Waiting,
            State::Running => JobState::Running,
            State::Done => JobState::Done,
            State::Failed => JobState::Failed,
            State::Cancelled => JobState::Cancelled,
        },
        resource: info.resource,
        dry_run: info.dry_run,
        older_than_seconds: info.age_seconds,
        files: JobFiles {
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
        warning: progress.warning,
        next_try_at_ms: info.next_try_ms,
        found: None,
    }
}

/// Returns a page of jobs.
pub fn job_list(page: JobPage, keys: &ApiKeys) -> JobList {
    let jobs = page.jobs.into_iter().map(|it| job(it, keys)).collect();
    JobList { jobs, next_page_token: page.next }
}

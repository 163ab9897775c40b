//! Lists jobs.
//!
//! To see or cancel a job, a caller needs `Purge` on the table of the job, or `ManageJobs` on its
//! warehouse. All other callers get the error for a missing job.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{kind_of, warehouse_text};
use crate::error::MissingResource;
use crate::jobs::Jobs;
use crate::{Error, Operation, Result};
use slateberg_authz::action::{Action, ManageJobs, Purge};
use slateberg_authz::authority::Decider;
use slateberg_authz::notation;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::Resource;
use slateberg_base::boxed;
use slateberg_model::page::PageRequest;
use slateberg_store::jobs::{Job, JobOutcome, JobProgress, JobWork};
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{EndedJobKey, JobKey, Key};
use slateberg_store::read::{KeyRange, StoreRead};

/// Number of jobs that one scan reads for a page.
const BATCH: usize = 200;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The job waits for its start or its next attempt.
    Waiting,
    /// The job is in progress.
    Running,
    /// The job has finished.
    Done,
    /// The job has failed and is not retried.
    Failed,
    /// A caller has cancelled the job.
    Cancelled,
}

/// A job, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInfo {
    /// Its id.
    pub id: Uuid,
    /// Such as `purge` or `orphan-removal`.
    pub kind: String,
    /// Its state.
    pub state: State,
    /// The table of the job, such as `table:prod/sales/orders`, or the warehouse of the job.
    pub resource: Option<String>,
    /// For a search for orphans: whether it only reports the files.
    pub dry_run: Option<bool>,
    /// For a search for orphans: the minimum age of deleted files.
    pub age_seconds: Option<u64>,
    /// The time of its creation.
    pub created_ms: i64,
    /// The principal that created the job.
    pub created_by: Option<String>,
    /// Its progress.
    pub progress: JobProgress,
    /// Number of consecutive failures without progress.
    pub failures: u32,
    /// The reason for the last failure.
    pub last_error: Option<String>,
    /// The time of the next attempt, if the job waits for one.
    pub next_try_ms: Option<i64>,
    /// The time of its end.
    pub ended_ms: Option<i64>,
}

/// A page of jobs.
#[derive(Debug, Clone)]
pub struct JobPage {
    /// First the jobs that have not ended, then the jobs that have. Each of these two groups is in
    /// the order of creation.
    pub jobs: Vec<JobInfo>,
    /// The token of the next page. `None` if this is the last page.
    pub next: Option<String>,
}

/// A position in a listing of jobs.
#[derive(Clone, Copy)]
struct Cursor {
    ended: bool,
    after: Option<Uuid>,
}

impl Cursor {
    fn parse(token: Option<&str>) -> Result<Self> {
        let Some(token) = token else { return Ok(Self { ended: false, after: None }) };
        let invalid = || Error::Invalid("Invalid page token".to_owned());
        let (part, id) = token.split_once(' ').ok_or_else(invalid)?;
        let ended = match part {
            "live" => false,
            "ended" => true,
            _ => return Err(invalid()),
        };
        Ok(Self { ended, after: Some(Uuid::try_parse(id).map_err(|_| invalid())?) })
    }
}

pub(super) fn no_such_job(id: &str) -> Error {
    Error::NotFound(MissingResource::Job(id.to_owned()))
}

impl Jobs {
    /// Returns the jobs that the caller may see.
    #[boxed]
    pub async fn jobs(&self, operation: &Operation, page: &PageRequest) -> Result<JobPage> {
        let mut cursor = Cursor::parse(page.after.as_deref())?;
        let limit = page.limit.unwrap_or(usize::MAX);
        let mut jobs = Vec::new();
        loop {
            let batch = self.job_records(cursor).await?;
            let Some((last, _)) = batch.last() else {
                if cursor.ended {
                    return Ok(JobPage { jobs, next: None });
                }
                cursor = Cursor { ended: true, after: None };
                continue;
            };
            cursor.after = Some(*last);
            for (id, job) in batch {
                if !self.sees_job(operation, &job).await? {
                    continue;
                }
                if jobs.len() >= limit {
                    let next = jobs.last().map(|last: &JobInfo| {
                        let part = if last.ended_ms.is_some() { "ended" } else { "live" };
                        page.token(&format!("{part} {}", last.id))
                    });
                    return Ok(JobPage { jobs, next });
                }
                let info = self.job_info(id, job);
                jobs.push(JobInfo {
                    progress: JobProgress { found: Vec::new(), ..info.progress },
                    ..info
                });
            }
        }
    }

    async fn job_records(&self, cursor: Cursor) -> Result<Vec<(Uuid, Job)>> {
        let store = self.core.store().durable();
        Ok(match cursor {
            Cursor { ended: false, after } => {
                let after = after.map(|id| JobKey(id).encode());
                let range = KeyRange::all(KeySpace::Jobs).behind(after);
                let found = store.scan::<JobKey>(&range, Some(BATCH)).await?;
                found.into_iter().map(|(key, job)| (key.0, job)).collect()
            }
            Cursor { ended: true, after } => {
                let after = after.map(|id| EndedJobKey(id).encode());
                let range = KeyRange::all(KeySpace::EndedJobs).behind(after);
                let found = store.scan::<EndedJobKey>(&range, Some(BATCH)).await?;
                found.into_iter().map(|(key, job)| (key.0, job)).collect()
            }
        })
    }

    /// Returns a job. Errors with `NoSuchJob` if the caller may not see it.
    #[boxed]
    pub async fn job(&self, operation: &Operation, id: &str) -> Result<JobInfo> {
        let store = self.core.store().durable();
        let key = Uuid::try_parse(id).map_err(|_| no_such_job(id))?;
        let live = store.get(&JobKey(key)).await?;
        let job = match live {
            Some(job) => job,
            None => store.get(&EndedJobKey(key)).await?.ok_or_else(|| no_such_job(id))?,
        };
        self.permit_job(operation, &job, id).await?;
        Ok(self.job_info(key, job))
    }

    /// Returns a job as clients see it, with the current progress if it is running.
    pub(super) fn job_info(&self, id: Uuid, job: Job) -> JobInfo {
        let live = self.state.live(id).filter(|_| job.ended.is_none());
        let state = match (job.ended.map(|ended| ended.how), &live) {
            (Some(JobOutcome::Done), _) => State::Done,
            (Some(JobOutcome::Failed), _) => State::Failed,
            (Some(JobOutcome::Cancelled), _) => State::Cancelled,
            (None, Some(_)) => State::Running,
            (None, None) => State::Waiting,
        };
        let (dry_run, age_seconds) = match &job.work {
            JobWork::Orphans { dry_run, age_seconds, .. } => (Some(*dry_run), Some(*age_seconds)),
            JobWork::Listed(_)
            | JobWork::ReachableFrom { .. }
            | JobWork::Expired { .. }
            | JobWork::Abandoned { .. } => (None, None),
        };
        let served = self.core.warehouses();
        let warehouse = || warehouse_text(served.by_id(job.warehouse).as_deref());
        let resource =
            job.table.as_ref().and_then(|table| table.resource.clone()).or_else(warehouse);
        JobInfo {
            id,
            kind: kind_of(&job.work).to_owned(),
            state,
            resource,
            dry_run,
            age_seconds,
            created_ms: job.created_ms,
            created_by: job.created_by,
            progress: live.map_or(job.progress, |live| live.progress()),
            failures: job.failures,
            last_error: job.last_error,
            next_try_ms: Some(job.next_try_ms).filter(|at| state == State::Waiting && *at > 0),
            ended_ms: job.ended.map(|ended| ended.at_ms),
        }
    }

    /// Returns the table of a job as a resource for policies, if it has one.
    async fn job_resource(&self, job: &Job) -> Result<Option<Resource>> {
        let name = job.table.as_ref().and_then(|table| table.resource.as_deref());
        let Some(resource) = name.and_then(|name| notation::resource(name).ok()) else {
            return Ok(None);
        };
        let described = self.core.access.described(resource, &[Purge::NAME]).await?;
        Ok(Some(described.resource))
    }

    fn warehouse_of(&self, job: &Job, resource: Option<&Resource>) -> Option<Resource> {
        let served = self.core.warehouses().by_id(job.warehouse).map(|it| it.name.clone());
        let name = served.or_else(|| Some(resource?.warehouse_name()?.to_owned()));
        name.map(Resource::warehouse)
    }

    async fn sees_job(&self, operation: &Operation, job: &Job) -> Result<bool> {
        let table = self.job_resource(job).await?;
        let warehouse = self.warehouse_of(job, table.as_ref());
        Ok(table.is_some_and(|table| self.core.access.may::<Purge>(operation, &table))
            || warehouse.is_some_and(|it| self.core.access.may::<ManageJobs>(operation, &it)))
    }

    /// Returns the permit to see or cancel a job.
    pub(super) async fn permit_job(
        &self,
        operation: &Operation,
        job: &Job,
        id: &str,
    ) -> Result<Permit<ManageJobs>> {
        let asking = match self.core.access.ask(operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        let table = self.job_resource(job).await?;
        let warehouse = self.warehouse_of(job, table.as_ref());
        let purge = table.as_ref().map(|table| asking.permit::<Purge>(table));
        if let Some(Ok(permit)) = purge {
            return Ok(permit.into());
        }
        let resource = warehouse.unwrap_or_else(Resource::catalog);
        let permit = asking.permit::<ManageJobs>(&resource);
        permit.map_err(|denied| {
            self.core.access.refuse(operation, &denied, &resource, Some(no_such_job(id)))
        })
    }
}

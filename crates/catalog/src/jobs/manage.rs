//! Starts and cancels jobs.

use uuid::Uuid;

use super::listing::{JobInfo, no_such_job};
use super::{StopReason, kind_of, table_of};
use crate::error::StateConflict;
use crate::jobs::Jobs;
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::pipeline::response::Body;
use crate::tabular::target::Target;
use crate::{Error, Operation, RequestContext, Result, lookup};
use slateberg_authz::action::{Action, Purge};
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::table::{FORMAT_VERSION_ADOPTED, TableMetadata};
use slateberg_store::jobs::{Job, JobEnd, JobOutcome, JobWork, OrphanSearch};
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{EndedJobKey, JobKey, OrphanSearchKey, TabularKey};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::ChangeAction;

/// Number of unfinished jobs at which further searches for orphans are rejected.
const WAITING_MAX: usize = 10_000;

/// A request to search for orphans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanRemoval {
    /// The table, as `table:prod/sales/orders`.
    pub resource: String,
    /// Whether the job only reports the files that it would delete.
    pub dry_run: bool,
    /// Minimum age of deleted files. `None` for the default in the settings.
    pub age_seconds: Option<u64>,
}

/// A search for the orphans of a table.
struct Search {
    dry_run: bool,
    /// Minimum age of deleted files. The error of an invalid age follows the check of permissions.
    age_seconds: Result<u64>,
    /// The record of a scheduled search. `None` for a search that a caller requests.
    scheduled: Option<OrphanSearch>,
}

impl Jobs {
    /// Starts a search for orphans.
    #[boxed]
    pub async fn start_orphan_removal(
        &self,
        operation: &Operation,
        wanted: OrphanRemoval,
    ) -> Result<JobInfo> {
        let start = |jobs: Self, operation: Operation| async move {
            jobs.start_once(&operation, &wanted).await.map(Body)
        };
        let Body(job) = self.core.mutate(self, operation, start).await?;
        Ok(job)
    }

    async fn start_once(&self, operation: &Operation, wanted: &OrphanRemoval) -> Result<JobInfo> {
        let (name, kind, ident) = &self.core.access.tabular_named(&wanted.resource)?;
        if *kind != TabularKind::Table {
            let resource = brief(&wanted.resource);
            return Err(Error::Invalid(format!("Views have no files to remove: '{resource}'")));
        }
        let warehouse = self.core.warehouses().by_prefix(Some(name));
        let warehouse =
            warehouse.map_err(|absent| self.core.access.without_permissions(operation, absent))?;
        self.core.environment.check_findable(*kind, ident)?;
        let target = Target { warehouse: &warehouse, kind: *kind, ident };
        let age_seconds = self.age_of(wanted);
        let dry_run = wanted.dry_run;
        self.start_search(operation, target, Search { dry_run, age_seconds, scheduled: None }).await
    }

    /// Starts a search that the scheduled maintenance wants. `record` is the record of this search.
    /// Returns `None` if enough scheduled searches wait already.
    pub(crate) async fn start_scheduled_search(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        (dry_run, record): (bool, OrphanSearch),
    ) -> Result<Option<JobInfo>> {
        let live = self.live_jobs().await?;
        let scheduled = |job: &Job| matches!(job.work, JobWork::Orphans { scheduled: true, .. });
        let waiting = live.iter().filter(|(_, job)| scheduled(job)).count();
        if waiting >= self.core.settings().jobs_parallel_max {
            return Ok(None);
        }
        let ident = ident.clone();
        let start = move |jobs: Self, cx: RequestContext| async move {
            let kind = TabularKind::Table;
            let target = Target { warehouse: &cx.warehouse, kind, ident: &ident };
            let age_seconds = Ok(jobs.core.settings().orphan_age_seconds);
            let search = Search { dry_run, age_seconds, scheduled: Some(record) };
            jobs.start_search(&cx.operation, target, search).await.map(Body)
        };
        let Body(job) = self.core.mutate(self, cx, start).await?;
        Ok(Some(job))
    }

    async fn start_search(
        &self,
        operation: &Operation,
        target: Target<'_>,
        search: Search,
    ) -> Result<JobInfo> {
        let Target { warehouse, kind, ident } = target;
        let Search { dry_run, age_seconds, scheduled } = search;
        let store = self.core.store().latest();
        let permit: &Permit<Purge> =
            &self.core.access.permit_tabular(&store, operation, target).await?;
        if !dry_run {
            self.core
                .environment
                .check_deletion("Cannot remove orphans", "set dry-run to list them")?;
            // A scheduled search is a job even if there is a clone, and then keeps the files.
            if scheduled.is_none()
                && let Some(clone) = self.clone_of_catalog().await?
            {
                return Err(Error::Conflict(StateConflict::Cloned(clone)));
            }
        }
        let age_seconds = age_seconds?;
        let id = lookup::tabular_id(&store, warehouse.id, kind, ident).await?;
        let id = id.ok_or_else(|| Error::no_such(kind, ident))?;
        let record = store.get(&TabularKey(id)).await?;
        let record = record.ok_or_else(|| Error::no_such(kind, ident))?;
        // The location is checked before the job is created. So the caller gets an error instead of
        // a job that fails.
        self.core.objects().directory(warehouse.id, &record.location)?;
        self.check_own_location(&record).await?;
        self.check_manifests(id).await?;
        self.reject_concurrent_search(id).await?;
        let work = JobWork::Orphans { dry_run, age_seconds, scheduled: scheduled.is_some() };
        let table = table_of(&record, Some((warehouse, ident)));
        let created_by = Some(operation.principal.id().to_owned());
        let job = Job::new(warehouse.id, work, Some(table), self.core.now_ms());
        let (job, key) = (&Job { created_by, ..job }, JobKey(self.core.ids().ordered()));
        let info = &self.job_info(key.0, job.clone());
        let action = ChangeAction::StartJob;
        let write = Write::of_records(action, permit);
        let started = self.core.pipeline().commit(write, |t| async move {
            if t.get(&TabularKey(id)).await?.is_none() {
                return Err(Error::no_such(kind, ident));
            }
            t.put(&key, job)?;
            if let Some(scheduled) = &scheduled {
                t.put(&OrphanSearchKey(id), scheduled)?;
            }
            let name = name_of(job);
            let entry = entry(action, (key.0, job), &name, permit);
            Ok(((), self.core.pipeline().records(operation, Some(entry), &Body(info.clone()))?))
        });
        started.await?;
        self.announce_jobs();
        Ok(info.clone())
    }

    /// Returns the checkpoint of a clone of this catalog. `None` if there is no clone.
    pub(super) async fn clone_of_catalog(&self) -> Result<Option<String>> {
        let checkpoints = self.core.store().checkpoints(self.core.now_ms()).await?;
        let clone = checkpoints.into_iter().find(|checkpoint| checkpoint.for_clone);
        Ok(clone.map(|checkpoint| checkpoint.name_or_id()))
    }

    /// Rejects a table with manifests that the server cannot read, because their files would look like
    /// orphans.
    async fn check_manifests(&self, id: Uuid) -> Result<()> {
        let store = self.core.store().latest();
        let head = self.core.environment.head::<TableMetadata>(&store, id).await?;
        if head.is_some_and(|head| head.metadata.format_version > FORMAT_VERSION_ADOPTED) {
            return Err(Error::Invalid(
                "Cannot remove orphans: the server cannot read the manifests of format version 4, \
                 so it cannot determine which files are needed. Remove orphans with a client"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Returns the minimum age of orphans. Rejects an age below `orphan_age_seconds_min`, because
    /// younger files may belong to commits in progress.
    fn age_of(&self, wanted: &OrphanRemoval) -> Result<u64> {
        let settings = self.core.settings();
        let age_seconds = wanted.age_seconds.unwrap_or(settings.orphan_age_seconds);
        let least = settings.orphan_age_seconds_min;
        if age_seconds < least {
            return Err(Error::Invalid(format!(
                "Invalid older-than-seconds: expected at least {least}, got {age_seconds}: younger files may \
                 belong to a commit in progress"
            )));
        }
        Ok(age_seconds)
    }

    /// Rejects a second concurrent search for the same table.
    async fn reject_concurrent_search(&self, id: Uuid) -> Result<()> {
        let live = self.live_jobs().await?;
        if live.len() >= WAITING_MAX {
            return Err(Error::unavailable(
                "Too many jobs are waiting",
                format!("{} jobs", live.len()),
            ));
        }
        let same = |job: &Job| {
            matches!(job.work, JobWork::Orphans { .. })
                && job.table.as_ref().is_some_and(|table| table.id == id)
        };
        match live.iter().find(|(_, job)| same(job)) {
            Some((key, _)) => Err(Error::Conflict(StateConflict::OrphanSearch(key.0))),
            None => Ok(()),
        }
    }

    /// Returns the jobs that have not ended, at most [`WAITING_MAX`].
    async fn live_jobs(&self) -> Result<Vec<(JobKey, Job)>> {
        let range = KeyRange::all(KeySpace::Jobs);
        Ok(self.core.store().latest().scan::<JobKey>(&range, Some(WAITING_MAX)).await?)
    }

    /// Cancels a job and returns its final state. Files that the job has already deleted are not
    /// restored.
    #[boxed]
    pub async fn cancel_job(&self, operation: &Operation, id: &str) -> Result<JobInfo> {
        // Rejects callers without permission before the mutation begins.
        self.job(operation, id).await?;
        let id = id.to_owned();
        let cancel = |jobs: Self, operation: Operation| async move {
            jobs.cancel_once(&operation, &id).await.map(Body)
        };
        let Body(job) = self.core.mutate(self, operation, cancel).await?;
        Ok(job)
    }

    async fn cancel_once(&self, operation: &Operation, id: &str) -> Result<JobInfo> {
        let key = JobKey(Uuid::try_parse(id).map_err(|_| no_such_job(id))?);
        let store = self.core.store().latest();
        let job = match store.get(&key).await? {
            Some(job) => job,
            None => {
                let ended = store.get(&EndedJobKey(key.0)).await?;
                let ended = ended.ok_or_else(|| no_such_job(id))?;
                self.permit_job(operation, &ended, id).await?;
                return Err(Error::Conflict(StateConflict::JobEnded(key.0)));
            }
        };
        let permit = &self.permit_job(operation, &job, id).await?;
        let live = self.state.live(key.0).map(|live| live.progress());
        let live = live.as_ref();
        let action = ChangeAction::CancelJob;
        let write = Write::of_records(action, permit);
        let cancelled = self.core.pipeline().commit(write, |t| async move {
            // After the first read, the job may have stored its progress, or may have ended.
            let Some(mut job) = t.get(&key).await? else {
                return Err(Error::Conflict(StateConflict::JobEnded(key.0)));
            };
            if let Some(progress) = live {
                job.progress = progress.clone();
            }
            job.ended = Some(JobEnd { how: JobOutcome::Cancelled, at_ms: self.core.now_ms() });
            t.delete(&key)?;
            t.put(&EndedJobKey(key.0), &job)?;
            if let JobWork::ReachableFrom { id, .. } = &job.work {
                t.delete_document(*id).await?;
            }
            let name = name_of(&job);
            let entry = entry(action, (key.0, &job), &name, permit);
            let info = self.job_info(key.0, job.clone());
            let records =
                self.core.pipeline().records(operation, Some(entry), &Body(info.clone()))?;
            Ok((info, records))
        });
        let info = cancelled.await?;
        // Stops a running job immediately. Otherwise, the job would run on until it next stores its
        // progress.
        if let Some(live) = self.state.live(key.0) {
            live.halt(StopReason::Cancelled);
        }
        self.state.counters.jobs_cancelled.add(1);
        Ok(info)
    }

    /// Wakes the task that runs jobs, because there is a new job.
    pub(crate) fn announce_jobs(&self) {
        self.state.announce();
    }
}

/// Returns the name of a job in the change log.
fn name_of(job: &Job) -> String {
    let table = job.table.as_ref();
    let resource = table.and_then(|table| table.resource.as_deref()).unwrap_or_default();
    format!("{} {resource}", kind_of(&job.work)).trim_end().to_owned()
}

/// Returns the entry of the change log for a change of a job.
fn entry<'a, A: Action>(
    action: ChangeAction,
    (id, job): (Uuid, &Job),
    name: &'a String,
    permit: &'a Permit<A>,
) -> Entry<'a> {
    Entry {
        action,
        warehouse: job.warehouse,
        subject: id,
        name,
        versions: (None, None),
        decision: permit.decision(),
        resource: None,
    }
}

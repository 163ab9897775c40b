//! Selects the jobs to run, and handles their results.

use std::time::Duration;

use super::clean_up::ClaimedJob;
use super::interrupted::Interruption;
use super::orphans::remove_orphans;
use super::purge::{delete_expired, purge};
use super::run::JobRun;
use super::{StopReason, kind_of};
use crate::jobs::Jobs;
use crate::{Error, Result};
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::boxed;
use slateberg_base::error_chain::chain;
use slateberg_base::retry::Backoff;
use slateberg_objects::reachable::ReferencedFiles;
use slateberg_store::bulk_read::Pages;
use slateberg_store::jobs::{Job, JobEnd, JobOutcome, JobWork, OrphanSearch};
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{EndedJobKey, JobKey, OrphanSearchKey};
use slateberg_store::read::StoreRead;
use slateberg_store::txn::Transaction;

/// Number of records that one scan reads.
const PAGE: usize = 200;
/// Maximum number of clean-ups that run together.
const CLEAN_UPS_MAX: usize = 200;
/// Shortest and longest wait after a failure of a job.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(5 * 60);
/// Longest wait for new jobs.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Jobs that this process has claimed and has to run.
pub struct DueWork(Kind);

enum Kind {
    /// One job.
    One(Box<ClaimedJob>),
    /// Several clean-ups, which run together because they are small.
    CleanUps(Vec<ClaimedJob>),
}

/// Result of a search for due jobs.
pub struct DueJobs {
    /// The work to do now.
    pub due: Vec<DueWork>,
    /// Time until the next search, unless a new job is announced earlier.
    pub again_in: Duration,
}

/// Releases jobs when their work ends, even on a panic.
struct ClaimGuard<'a>(&'a Jobs, Vec<JobKey>);

impl Drop for ClaimGuard<'_> {
    fn drop(&mut self) {
        for key in &self.1 {
            self.0.state.release(key.0);
        }
    }
}

impl Jobs {
    /// Claims jobs that are due: at most `CLEAN_UPS_MAX` clean-ups, and at most `room` other jobs.
    #[boxed]
    pub async fn claim_due_jobs(&self, room: usize) -> Result<DueJobs> {
        self.collect_abandoned().await?;
        let now_ms = self.core.now_ms();
        let mut look = DueJobs { due: Vec::new(), again_in: IDLE_MAX };
        let mut clean_ups = Vec::new();
        let store = self.core.store().durable();
        let mut pages = Pages::<JobKey>::of(KeySpace::Jobs, PAGE).cached();
        while let Some(page) = pages.next(&store).await? {
            for (key, job) in page {
                let waits_ms = u64::try_from(job.next_try_ms.saturating_sub(now_ms)).unwrap_or(0);
                if waits_ms > 0 {
                    look.again_in = look.again_in.min(Duration::from_millis(waits_ms));
                    continue;
                }
                let is_clean_up =
                    matches!(job.work, JobWork::Listed(_) | JobWork::Abandoned { .. });
                let has_room = match is_clean_up {
                    true => clean_ups.len() < CLEAN_UPS_MAX,
                    false => look.due.len() < room,
                };
                if !has_room {
                    continue;
                }
                let Some(live) = self.state.claim(key.0, &job) else { continue };
                match is_clean_up {
                    true => clean_ups.push((key, job, live)),
                    false => look.due.push(DueWork(Kind::One(Box::new((key, job, live))))),
                }
            }
        }
        if !clean_ups.is_empty() {
            look.due.push(DueWork(Kind::CleanUps(clean_ups)));
        }
        Ok(look)
    }

    /// Runs claimed jobs and returns the number of ended jobs. A job that will be retried has not
    /// ended.
    #[boxed]
    pub async fn run_due(&self, due: DueWork) -> usize {
        match due.0 {
            Kind::CleanUps(jobs) => {
                let _claims = ClaimGuard(self, jobs.iter().map(|(key, ..)| *key).collect());
                self.run_clean_ups(jobs).await
            }
            Kind::One(job) => {
                let (key, job, live) = *job;
                let _claims = ClaimGuard(self, vec![key]);
                self.run_job(JobRun::new(self.clone(), key, job, live)).await
            }
        }
    }

    /// Runs jobs sequentially until none is due. Returns the number of ended jobs.
    #[boxed]
    pub async fn run_jobs(&self) -> Result<usize> {
        let mut ended = 0;
        loop {
            let look = self.claim_due_jobs(1).await?;
            if look.due.is_empty() {
                return Ok(ended);
            }
            for due in look.due {
                ended += self.run_due(due).await;
            }
        }
    }

    async fn run_job(&self, mut run: JobRun) -> usize {
        let (job, kind) = (run.key.0, kind_of(&run.job.work));
        let table = run.job.table.as_ref();
        let resource = table.and_then(|table| table.resource.clone()).unwrap_or_default();
        let begun = run.job.progress.started_ms;
        run.job.progress.started_ms.get_or_insert_with(|| self.core.now_ms());
        tracing::info!(%job, kind, resource, resumed = begun.is_some(), "job begins");
        let outcome = match run.save().await {
            Ok(()) => match run.job.work.clone() {
                JobWork::ReachableFrom { id, metadata_location } => {
                    purge(&mut run, id, &metadata_location).await
                }
                JobWork::Expired { manifest_lists, manifests, statistics } => {
                    let named = ReferencedFiles {
                        manifest_lists: manifest_lists.into_iter().collect(),
                        manifests: manifests.into_iter().collect(),
                        others: statistics.into_iter().collect(),
                        ..ReferencedFiles::default()
                    };
                    delete_expired(&mut run, named).await
                }
                JobWork::Orphans { .. } => remove_orphans(&mut run).await,
                // These jobs run together (`run_clean_ups`).
                JobWork::Listed(_) | JobWork::Abandoned { .. } => Ok(()),
            },
            Err(interrupted) => Err(interrupted),
        };
        match outcome {
            Ok(()) => match self.end_job(&mut run, JobOutcome::Done).await {
                Ok(()) => {
                    let progress = &run.job.progress;
                    let (files, saved) = (progress.done, progress.kept);
                    tracing::info!(%job, kind, resource, files, saved, "job finished");
                    self.state.counters.jobs_done.add(1);
                    1
                }
                Err(error) => {
                    self.interrupted(run, error.into()).await;
                    0
                }
            },
            Err(interrupted) => {
                let failed = matches!(interrupted, Interruption::Failed(_));
                self.interrupted(run, interrupted).await;
                usize::from(failed)
            }
        }
    }

    /// Stores the state of a job that did not finish.
    pub(super) async fn interrupted(&self, mut run: JobRun, interrupted: Interruption) {
        let (job, kind) = (run.key.0, kind_of(&run.job.work));
        let saved = match interrupted {
            Interruption::Halted(StopReason::Cancelled) => {
                tracing::info!(%job, kind, "job cancelled");
                return;
            }
            Interruption::Halted(StopReason::Stopping) => {
                tracing::info!(%job, kind, "job interrupted by the shutdown: the job continues after the next start");
                run.save().await
            }
            Interruption::Failed(reason) => {
                tracing::warn!(%job, kind, reason, "job failed");
                self.state.counters.jobs_failed.add(1);
                run.job.last_error = Some(reason);
                self.end_job(&mut run, JobOutcome::Failed).await.map_err(Interruption::from)
            }
            Interruption::Later(error) => {
                self.state.counters.retries.add(1);
                run.job.failures = run.job.failures.saturating_add(1);
                let failures_before = run.job.failures.saturating_sub(1);
                let wait = Backoff::new(WAIT_MIN, WAIT_MAX).after(failures_before).delay();
                let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                tracing::warn!(%job, kind, error = chain(&error), wait_ms, "job interrupted by an error: the job continues later");
                run.job.last_error = Some(public_message(&error));
                let wait_ms = i64::try_from(wait_ms).unwrap_or(i64::MAX);
                run.job.next_try_ms = self.core.now_ms().saturating_add(wait_ms);
                run.save().await
            }
        };
        match saved {
            Ok(()) | Err(Interruption::Halted(_)) => {}
            // The job will continue from its last stored state.
            Err(error) => {
                tracing::warn!(%job, kind, error = chain(&error), "cannot store the result of a job")
            }
        }
    }

    /// Moves a job to the ended jobs, unless it was cancelled.
    async fn end_job(&self, run: &mut JobRun, how: JobOutcome) -> Result<()> {
        run.job.ended = Some(JobEnd { how, at_ms: self.core.now_ms() });
        run.job.progress.position = None;
        run.job.next_try_ms = 0;
        let (key, job): (JobKey, &Job) = (run.key, &run.job);
        let permit = Permit::for_task(Task::Jobs);
        let ((), accepted) = self
            .core
            .store()
            .transact("end_job", &permit, |t| async move {
                if t.get(&key).await?.is_none() {
                    return Ok(());
                }
                t.delete(&key)?;
                t.put(&EndedJobKey(key.0), job)?;
                note_report(&t, job).await?;
                if let JobWork::ReachableFrom { id, .. } = &job.work {
                    t.delete_document(*id).await?;
                }
                Ok::<_, Error>(())
            })
            .await?;
        Ok(accepted.durable().await?)
    }
}

/// Records that a scheduled dry run has reported the orphans of its table, so that the next scheduled
/// search may delete them.
async fn note_report(t: &Transaction, job: &Job) -> Result<()> {
    let is_report = matches!(job.work, JobWork::Orphans { dry_run: true, scheduled: true, .. })
        && job.ended.is_some_and(|ended| ended.how == JobOutcome::Done);
    let Some(table) = job.table.as_ref().filter(|_| is_report) else { return Ok(()) };
    let key = OrphanSearchKey(table.id);
    if let Some(search) = t.get(&key).await? {
        t.put(&key, &OrphanSearch { reported: true, ..search })?;
    }
    Ok(())
}

/// Returns the message of an error for callers that may see the job. The message includes details
/// from the object store or the record, which contain no secrets.
fn public_message(error: &Error) -> String {
    match error {
        Error::Unavailable { message, source } => {
            let cause = source.to_string();
            if *message == cause { cause } else { format!("{message}: {cause}") }
        }
        Error::Internal { source } => source.to_string(),
        other => other.to_string(),
    }
}

//! [`JobRun`]: a job in progress. It deletes files concurrently under a rate limit, and stores its
//! progress.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::Instant;

use super::interrupted::Interruption;
use super::memory::JobMemory;
use super::{RunningJob, StopReason, kind_of};
use crate::Error;
use crate::jobs::Jobs;
use slateberg_authz::permit::{Permit, Task};
use slateberg_objects::{self as objects, Objects};
use slateberg_store::jobs::{Job, PurgePosition};
use slateberg_store::keys::JobKey;
use slateberg_store::read::StoreRead;

/// Number of files that a job deletes in one batch. After each batch, it checks again which files
/// other tables need, and whether it has to stop.
pub(super) const BATCH_FILES: usize = 1000;
/// Shortest interval between two writes of a job's progress.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest interval between two log lines about a job's progress.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Result of a deletion.
pub(super) enum Outcome {
    /// The file is deleted.
    Deleted,
    /// The file is not in the warehouse and stays.
    Left,
}

/// A job in progress.
pub(super) struct JobRun {
    jobs: Jobs,
    pub(super) key: JobKey,
    pub(super) job: Job,
    live: Arc<RunningJob>,
    /// Memory reserved for names and hashes of files.
    pub(super) memory: JobMemory,
    saved: Instant,
    reported_at: Instant,
}

impl JobRun {
    /// Starts a job.
    pub(super) fn new(jobs: Jobs, key: JobKey, job: Job, live: Arc<RunningJob>) -> Self {
        let now = Instant::now();
        let files_max = jobs.core.settings().job_files_known_max;
        let memory = JobMemory::new(&jobs.state.memory, files_max);
        Self { jobs, key, job, live, memory, saved: now, reported_at: now }
    }

    pub(super) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Waits for `work`, but only until the job is stopped. `work` must be safe to cancel.
    pub(super) async fn until_stopped<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, Interruption> {
        let mut halt = self.live.halt.subscribe();
        let halted = async move {
            match halt.wait_for(Option::is_some).await.map(|halt| *halt) {
                Ok(Some(halt)) => halt,
                // The sender was dropped.
                Ok(None) | Err(_) => StopReason::Stopping,
            }
        };
        tokio::select! {
            biased;
            halt = halted => Err(Interruption::Halted(halt)),
            done = work => Ok(done),
        }
    }

    /// Deletes files of the job's warehouse, at most [`BATCH_FILES`].
    pub(super) async fn delete(&mut self, files: Vec<String>) -> Result<(), Interruption> {
        let (objects, warehouse) = (self.jobs.core.objects(), self.job.warehouse);
        let objects: &Objects = &objects;
        let delete = |file: String| async move {
            match objects.delete(warehouse, &file).await {
                Ok(()) => Ok(Outcome::Deleted),
                Err(objects::Error::NotAllowed(reason)) => {
                    tracing::warn!(
                        location = file,
                        reason,
                        "a file is outside of the warehouse: it is not deleted"
                    );
                    Ok(Outcome::Left)
                }
                Err(error) => Err(error),
            }
        };
        self.delete_each(files, delete).await
    }

    /// Deletes each of these files with `delete`. If a deletion fails, the earlier deletions are
    /// still counted.
    pub(super) async fn delete_each<F, W>(
        &mut self,
        files: Vec<F>,
        delete: impl Fn(F) -> W,
    ) -> Result<(), Interruption>
    where
        W: Future<Output = Result<Outcome, objects::Error>>,
    {
        let jobs = self.jobs.clone();
        if !jobs.core.environment.deletes_files() {
            return Err(Interruption::Failed(
                "this catalog is a clone and deletes no files".to_owned(),
            ));
        }
        let parallel = jobs.core.settings().file_deletions_parallel_max.max(1);
        let deletions = files.into_iter().map(|file| {
            let deletion = delete(file);
            let jobs = &jobs;
            async move {
                jobs.state.rate.wait().await;
                deletion.await
            }
        });
        let mut deletions = futures::stream::iter(deletions).buffer_unordered(parallel);
        let (mut deleted, mut left) = (0, 0);
        let ended = loop {
            match self.until_stopped(deletions.next()).await {
                Ok(None) => break Ok(()),
                Ok(Some(Ok(Outcome::Deleted))) => deleted += 1,
                Ok(Some(Ok(Outcome::Left))) => left += 1,
                Ok(Some(Err(error))) => break Err(error.into()),
                Err(halted) => break Err(halted),
            }
        };
        jobs.state.counters.files_deleted.add(deleted);
        self.job.progress.done += deleted;
        self.job.progress.kept += left;
        self.note_progress(deleted + left > 0);
        ended
    }

    /// Publishes the progress, and resets the number of failures if there was progress.
    pub(super) fn note_progress(&mut self, note_progress: bool) {
        if note_progress {
            self.job.failures = 0;
        }
        self.live.set_progress(&self.job.progress);
    }

    /// Records that the work up to `position` is done. Stores the progress if the last write was at
    /// least [`SAVE_INTERVAL`] ago.
    pub(super) async fn reached(
        &mut self,
        position: Option<PurgePosition>,
    ) -> Result<(), Interruption> {
        self.job.progress.position = position;
        self.live.set_progress(&self.job.progress);
        if self.reported_at.elapsed() >= LOG_INTERVAL {
            self.reported_at = Instant::now();
            let progress = &self.job.progress;
            let (done, total, kept) = (progress.done, progress.total, progress.kept);
            let kind = kind_of(&self.job.work);
            tracing::info!(job = %self.key.0, kind, done, total, kept, "job in progress");
        }
        if self.saved.elapsed() >= SAVE_INTERVAL {
            self.save().await?;
        }
        // Yields once. So even a job that never waits elsewhere notices here that it was stopped.
        self.until_stopped(tokio::task::yield_now()).await
    }

    /// Stores the progress of the job, unless it was cancelled.
    pub(super) async fn save(&mut self) -> Result<(), Interruption> {
        self.saved = Instant::now();
        let permit = Permit::for_task(Task::Jobs);
        let (key, job) = (self.key, &self.job);
        let (there, accepted) = self
            .jobs
            .core
            .store()
            .transact("save_job", &permit, |t| async move {
                let there = t.get(&key).await?.is_some();
                if there {
                    t.put(&key, job)?;
                }
                Ok::<_, Error>(there)
            })
            .await?;
        accepted.durable().await?;
        if there { Ok(()) } else { Err(Interruption::Halted(StopReason::Cancelled)) }
    }
}

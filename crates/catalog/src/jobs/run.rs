//! `Run`: a job that is under way, and its hands: it deletes files, several at a time and no more than so
//! many in a second, and stores how far it has come.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::Instant;

use super::interrupted::Interrupted;
use super::memory::JobMemory;
use super::{Halt, Live, kind_of};
use crate::Error;
use crate::jobs::Jobs;
use slateberg_authz::permit::{Permit, Task};
use slateberg_objects::{self as objects, Objects};
use slateberg_store::jobs::{Job, Position};
use slateberg_store::keys::JobKey;
use slateberg_store::read::Read;

/// Files that are deleted before it is looked again who else needs what is next, and whether to go on.
pub(super) const BATCH_FILES: usize = 1000;
/// How often it is stored at most how far a job has come.
const SAVE_EVERY: Duration = Duration::from_secs(5);
/// How often the log tells at most how far a job has come.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// What became of a file that was to be deleted.
pub(super) enum Outcome {
    /// It is gone.
    Deleted,
    /// The warehouse may not touch it.
    Left,
}

/// A job that is under way.
pub(super) struct Run {
    jobs: Jobs,
    pub(super) key: JobKey,
    pub(super) job: Job,
    live: Arc<Live>,
    /// For the files that it knows.
    pub(super) memory: JobMemory,
    saved: Instant,
    told: Instant,
}

impl Run {
    /// Takes up a job.
    pub(super) fn new(jobs: Jobs, key: JobKey, job: Job, live: Arc<Live>) -> Self {
        let now = Instant::now();
        let files_max = jobs.core.settings().job_files_known_max;
        let memory = JobMemory::new(&jobs.state.memory, files_max);
        Self { jobs, key, job, live, memory, saved: now, told: now }
    }

    pub(super) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Waits for something that may be given up at any time, unless the job is told to stop.
    pub(super) async fn unless_halted<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, Interrupted> {
        let mut halt = self.live.halt.subscribe();
        let halted = async move {
            match halt.wait_for(Option::is_some).await.map(|halt| *halt) {
                Ok(Some(halt)) => halt,
                // Whoever tells has gone.
                Ok(None) | Err(_) => Halt::Stopping,
            }
        };
        tokio::select! {
            biased;
            halt = halted => Err(Interrupted::Halted(halt)),
            done = work => Ok(done),
        }
    }

    /// Deletes files of the job's warehouse, at most [`BATCH_FILES`].
    pub(super) async fn delete(&mut self, files: Vec<String>) -> Result<(), Interrupted> {
        let (objects, warehouse) = (self.jobs.core.objects(), self.job.warehouse);
        let objects: &Objects = &objects;
        let delete = |file: String| async move {
            match objects.delete(warehouse, &file).await {
                Ok(()) => Ok(Outcome::Deleted),
                Err(objects::Error::NotAllowed(reason)) => {
                    tracing::warn!(location = file, reason, "not deleted");
                    Ok(Outcome::Left)
                }
                Err(error) => Err(error),
            }
        };
        self.delete_each(files, delete).await
    }

    /// Deletes each of these in the way that is given. What was deleted before one could not be is counted.
    pub(super) async fn delete_each<F, W>(
        &mut self,
        files: Vec<F>,
        delete: impl Fn(F) -> W,
    ) -> Result<(), Interrupted>
    where
        W: Future<Output = Result<Outcome, objects::Error>>,
    {
        let jobs = self.jobs.clone();
        if !jobs.core.environment.deletes_files() {
            return Err(Interrupted::Failed(
                "this catalog is a clone, and deletes no file".to_owned(),
            ));
        }
        let parallel = jobs.core.settings().file_deletions_parallel_max.max(1);
        let deletions = files.into_iter().map(|file| {
            let deletion = delete(file);
            let jobs = &jobs;
            async move {
                jobs.state.rate.turn().await;
                deletion.await
            }
        });
        let mut deletions = futures::stream::iter(deletions).buffer_unordered(parallel);
        let (mut deleted, mut left) = (0, 0);
        let ended = loop {
            match self.unless_halted(deletions.next()).await {
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
        self.got_on(deleted + left > 0);
        ended
    }

    /// Lets those see it who look, and forgets of earlier failures if the job got on.
    pub(super) fn got_on(&mut self, got_on: bool) {
        if got_on {
            self.job.failures = 0;
        }
        self.live.set_progress(&self.job.progress);
    }

    /// Says that everything up to here is done with, and stores it if that was not done lately.
    pub(super) async fn reached(&mut self, position: Option<Position>) -> Result<(), Interrupted> {
        self.job.progress.position = position;
        self.live.set_progress(&self.job.progress);
        if self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            let progress = &self.job.progress;
            let (done, total, kept) = (progress.done, progress.total, progress.kept);
            let kind = kind_of(&self.job.work);
            tracing::info!(job = %self.key.0, kind, done, total, kept, "job goes on");
        }
        if self.saved.elapsed() >= SAVE_EVERY {
            self.save().await?;
        }
        // A job that has nothing to wait for can be stopped, too.
        self.unless_halted(tokio::task::yield_now()).await
    }

    /// Stores how far the job has come, unless it was cancelled.
    pub(super) async fn save(&mut self) -> Result<(), Interrupted> {
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
        if there { Ok(()) } else { Err(Interrupted::Halted(Halt::Cancelled)) }
    }
}

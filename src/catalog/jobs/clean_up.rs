//! Cleaning up: metadata files that a table's log does not name any more. Each commit of a table that wants
//! it leaves such a job, so that many are done together and forgotten in one transaction.

use std::sync::Arc;

use futures::StreamExt;

use super::Live;
use super::kept::{Depth, Kept};
use super::run::{Interrupted, Run};
use crate::authz::permit::{Permit, Task};
use crate::catalog::{Catalog, Error, Result};
use crate::store::jobs::{Job, Work};
use crate::store::keys::{JobKey, TabularKey};
use crate::store::read::Read;

/// A job that is taken up.
pub(super) type Claimed = (JobKey, Job, Arc<Live>);

impl Catalog {
    /// Does these jobs. Returns how many have ended.
    pub(super) async fn run_clean_ups(&self, jobs: Vec<Claimed>) -> usize {
        let parallel = self.settings().file_deletions_parallel_max.max(1);
        let runs = jobs.into_iter().map(|(key, job, live)| async move {
            let mut run = Run::new(self.clone(), key, job, live);
            let outcome = clean_up(&mut run).await;
            (run, outcome)
        });
        let runs: Vec<_> = futures::stream::iter(runs).buffer_unordered(parallel).collect().await;
        let mut done = Vec::new();
        for (run, outcome) in runs {
            match outcome {
                Ok(()) => done.push(run.key),
                Err(interrupted) => self.interrupted(run, interrupted).await,
            }
        }
        match self.forget_clean_ups(&done).await {
            Ok(()) => done.len(),
            Err(error) => {
                tracing::warn!(?error, "metadata files are deleted, and will be so again");
                0
            }
        }
    }

    async fn forget_clean_ups(&self, done: &[JobKey]) -> Result<()> {
        if done.is_empty() {
            return Ok(());
        }
        let permit = Permit::for_task(Task::Jobs);
        let ((), accepted) = self
            .store()
            .transact("forget_clean_ups", &permit, |t| async move {
                done.iter().try_for_each(|key| t.delete(key))?;
                Ok::<_, Error>(())
            })
            .await?;
        accepted.durable().await?;
        self.inner.jobs.counters.jobs_done.add(done.len() as u64);
        Ok(())
    }
}

async fn clean_up(run: &mut Run) -> std::result::Result<(), Interrupted> {
    let Work::Listed(files) = run.job.work.clone() else { return Ok(()) };
    // One that was cancelled since it was found is not there any more.
    if run.catalog().store().latest().get(&run.key).await?.is_none() {
        return Ok(());
    }
    let mut kept = match &run.job.table {
        Some(table) => Kept::besides(table, Depth::Metadata),
        // The table may have other files in its log by now, but none that it has dropped from there.
        None => Kept::anything(Depth::Metadata),
    };
    kept.refresh(run, &files).await?;
    let id = run.job.table.as_ref().map(|table| table.id).unwrap_or_default();
    let record = run.catalog().store().latest().get(&TabularKey(id)).await?;
    // Somebody may have registered an earlier state of the table over it.
    let current = |file: &String| record.as_ref().is_some_and(|it| it.metadata_location == *file);
    let files = files.into_iter().filter(|file| !kept.has(file) && !current(file)).collect();
    run.delete(files).await
}

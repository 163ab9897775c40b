//! Clean-ups: small jobs that delete a list of files. Many clean-ups run together, and one
//! transaction deletes their records. There are two kinds: one deletes the files that rebases have
//! left behind ([`abandoned`](super::abandoned)).
//!
//! The other kind deletes metadata files that were removed from a table's metadata log. If the table
//! has the property `write.metadata.delete-after-commit.enabled`, each commit that removes files
//! from the log creates such a job.
//!
//! The metadata log of a registered table is untrusted, and may contain any file. So a job deletes
//! a file only if three conditions hold. The file has the name of a metadata file, it is at a
//! location of the table, and it is not reachable from another table.

use std::sync::Arc;

use futures::StreamExt;

use super::RunningJob;
use super::abandoned::delete_abandoned;
use super::interrupted::Interruption;
use super::run::JobRun;
use super::shared_files::{Depth, SharedFiles};
use crate::jobs::Jobs;
use crate::{Error, Result, lookup};
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::error_chain::chain;
use slateberg_objects::location::Location;
use slateberg_objects::metadata_file;
use slateberg_store::jobs::{Job, JobWork};
use slateberg_store::keys::JobKey;
use slateberg_store::read::StoreRead;

/// A claimed job.
pub(super) type ClaimedJob = (JobKey, Job, Arc<RunningJob>);

impl Jobs {
    /// Runs these jobs and returns the number of finished ones.
    pub(super) async fn run_clean_ups(&self, jobs: Vec<ClaimedJob>) -> usize {
        let parallel = self.core.settings().file_deletions_parallel_max.max(1);
        let runs = jobs.into_iter().map(|(key, job, live)| async move {
            let mut run = JobRun::new(self.clone(), key, job, live);
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
        match self.remove_clean_ups(&done).await {
            Ok(()) => done.len(),
            Err(error) => {
                tracing::warn!(
                    error = chain(&error),
                    "cannot remove the records of finished clean-up jobs: these jobs will run again"
                );
                0
            }
        }
    }

    async fn remove_clean_ups(&self, done: &[JobKey]) -> Result<()> {
        if done.is_empty() {
            return Ok(());
        }
        let permit = Permit::for_task(Task::Jobs);
        let ((), accepted) = self
            .core
            .store()
            .transact("remove_clean_ups", &permit, |t| async move {
                done.iter().try_for_each(|key| t.delete(key))?;
                Ok::<_, Error>(())
            })
            .await?;
        accepted.durable().await?;
        self.state.counters.jobs_done.add(done.len() as u64);
        Ok(())
    }
}

/// Returns the files that have the name of a metadata file and are at or below one of `locations`.
/// Files at other locations may belong to other tables. If `locations` is `None`, only the name is
/// checked.
pub(crate) fn deletable_files<'a>(
    mut files: Vec<String>,
    locations: Option<impl Iterator<Item = &'a String>>,
) -> Vec<String> {
    if files.is_empty() {
        return files;
    }
    let parse = |location: &String| Location::parse(location).ok();
    let locations: Option<Vec<_>> =
        locations.map(|locations| locations.filter_map(parse).collect());
    files.retain(|file| {
        let Ok(file) = Location::parse(file) else { return false };
        let is_own =
            |locations: &Vec<Location>| locations.iter().any(|location| file.is_within(location));
        metadata_file::is_named_so(&file) && locations.as_ref().is_none_or(is_own)
    });
    files
}

async fn clean_up(run: &mut JobRun) -> std::result::Result<(), Interruption> {
    // The job may have been cancelled after it was read.
    if run.jobs().core.store().latest().get(&run.key).await?.is_none() {
        return Ok(());
    }
    let files = match (run.job.work.clone(), run.job.table.clone()) {
        (JobWork::Listed(files), _) => files,
        (JobWork::Abandoned { manifest_lists, manifests }, Some(table)) => {
            return delete_abandoned(run, &table, manifest_lists, manifests).await;
        }
        _ => return Ok(()),
    };
    // Jobs of older binaries contain unfiltered lists.
    let files = deletable_files(files, run.job.table.as_ref().map(|table| table.locations.iter()));
    let mut shared = match &run.job.table {
        Some(table) => SharedFiles::of_other_tables(table, Depth::Metadata),
        // An older binary created the job, so its table is unknown. Files at the location of any
        // table stay.
        None => SharedFiles::for_unknown_table(Depth::Metadata),
    };
    shared.refresh(run, &files).await?;
    let id = run.job.table.as_ref().map(|table| table.id).unwrap_or_default();
    let record = lookup::record_with_dropped(&run.jobs().core.store().latest(), id).await?;
    // The list may contain the current metadata file of the table, because a registration may have
    // replaced the table by an earlier state.
    let current = |file: &String| record.as_ref().is_some_and(|it| it.metadata_location == *file);
    let files = files.into_iter().filter(|file| !shared.has(file) && !current(file)).collect();
    run.delete(files).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_up_deletes_only_metadata_files_at_the_tables_own_locations() {
        let own = [
            "s3://b/w/t/metadata/00001-x.metadata.json",
            "s3a://b/w/t/metadata/00001-x.gz.metadata.json",
            "s3://b/m/v3.metadata.json.gz",
        ];
        let elsewhere = "s3://b/w/t2/metadata/00001-x.metadata.json";
        let never = [
            "s3://b/w/t/data/1.parquet",
            "s3://b/w/t/metadata/snap-1.avro",
            "s3://b/w/t/metadata/00001-x.metadata.json/1.parquet",
            "s3://b/w/t/../t2/metadata/00001-x.metadata.json",
            "s3://b/w/t/data/1.parquet?.metadata.json",
            "",
        ];
        let all = || own.iter().chain([&elsewhere]).chain(&never).map(|&file| file.to_owned());
        let locations = ["s3://b/w/t".to_owned(), "s3://b/m/".to_owned()];
        assert_eq!(deletable_files(all().collect(), Some(locations.iter())), own);
        let anybodys: Vec<_> = own.into_iter().chain([elsewhere]).collect();
        let unknown = None::<std::slice::Iter<'_, String>>;
        assert_eq!(deletable_files(all().collect(), unknown), anybodys);
    }
}

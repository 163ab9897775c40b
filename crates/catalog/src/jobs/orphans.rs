//! Removes orphans: unreachable files at a table's location, such as those of writers that failed
//! before their commit. Metadata files of failed commits are orphans, too.
//!
//! A file is an orphan if two conditions hold. It is older than a limit, by the clock of the object
//! store. And it is reachable neither from the table nor from another table at the same location.
//! The job determines the reachable files before it lists the location. Right before the job
//! deletes files, it determines the reachable files again for the tables that have changed. A file
//! is hidden if a segment of its path begins with a dot. It is also hidden if a segment begins with
//! an underscore and is not the name of a partition. Hidden files are never orphans, as in
//! Iceberg's `remove_orphan_files`. Files at the location of another table or view are never
//! orphans of this table.
//!
//! A scheduled job also keeps all files that a checkpoint may need: those that are older than the
//! newest checkpoint. If the catalog has a clone, no job deletes anything, because a clone writes its
//! files to the same locations.

use std::collections::BTreeSet;

use futures::StreamExt;

use super::interrupted::Interruption;
use super::run::{BATCH_FILES, JobRun, Outcome};
use super::shared_files::{Depth, OTHERS_MAX, SharedFiles, too_many};
use crate::Error;
use crate::error::{Kind, StateConflict};
use crate::jobs::Jobs;
use crate::location_index::{Owners, has_others_around, is_generated_for, others_below};
use slateberg_objects as objects;
use slateberg_objects::directory::{Directory, ListedFile};
use slateberg_objects::location::Location;
use slateberg_store::jobs::{JobProgress, JobTable, JobWork};
use slateberg_store::keys::TabularKey;
use slateberg_store::read::StoreRead;
use slateberg_store::records::TabularRecord;

/// Maximum number of files that a dry run reports.
const FOUND_MAX: usize = 1000;
/// Largest difference between the clocks of the server and of the object store that a scheduled job
/// expects, in milliseconds.
const CLOCK_MARGIN_MS: i64 = 60 * 60 * 1000;
/// File with the current version number of a table. Only tables without a catalog have it.
const VERSION_HINT: &str = "version-hint.text";

/// Deletes the orphans of a table. A dry run only reports them.
pub(super) async fn remove_orphans(run: &mut JobRun) -> Result<(), Interruption> {
    let (JobWork::Orphans { dry_run, age_seconds, scheduled }, Some(table)) =
        (run.job.work.clone(), run.job.table.clone())
    else {
        return Err(Interruption::Failed("the record of the job contains no table".to_owned()));
    };
    if dry_run {
        let started_ms = run.job.progress.started_ms;
        run.job.progress = JobProgress { started_ms, ..JobProgress::default() };
    }
    let record = record_of(run, &table).await?;
    let directory = match run.jobs().core.objects().directory(record.warehouse, &record.location) {
        Err(objects::Error::NotAllowed(reason)) => return Err(Interruption::Failed(reason)),
        directory => directory?,
    };
    let cutoff_ms = cutoff(run, &directory, age_seconds).await?;
    // Later checkpoints contain no file that this job finds to be unreachable.
    let needed_until_ms = match dry_run && !scheduled {
        true => i64::MIN,
        false => needed_until(run, scheduled).await?,
    };
    let table = JobTable { locations: vec![record.location.clone()], uuid: record.uuid, ..table };
    let mut shared = SharedFiles::of_other_tables(&table, Depth::Everything).including_itself();
    shared.refresh(run, &[]).await.map_err(fail_if_unreadable)?;
    locations_of_others(run, &record).await?;
    let mut listing = directory.list().chunks(BATCH_FILES);
    while let Some(listed) = run.until_stopped(listing.next()).await? {
        let mut orphans = Vec::new();
        for file in listed {
            let file = file?;
            let is_old = file.modified_ms < cutoff_ms && file.modified_ms > needed_until_ms;
            if is_old && !is_hidden(&file) && !shared.has(file.path.as_ref()) {
                orphans.push(file);
            }
        }
        if orphans.is_empty() {
            run.reached(None).await?;
            continue;
        }
        // The table may have changed since the listing. Files that were committed since then must
        // stay, so the reachable files are determined again.
        if record_of(run, &table).await?.location != record.location {
            return Err(Interruption::Failed("the table has moved to another location".to_owned()));
        }
        shared.refresh(run, &[]).await.map_err(fail_if_unreadable)?;
        let others = locations_of_others(run, &record).await?;
        orphans.retain(|file| {
            !shared.has(file.path.as_ref())
                && !is_in(&others, &directory.location_of(file))
                && !directory.is_reserved(file)
        });
        let bytes: u64 = orphans.iter().map(|file| file.bytes).sum();
        if dry_run {
            note(&mut run.job.progress, &directory, &orphans);
        } else {
            let delete = |file: ListedFile| {
                let directory = &directory;
                async move { directory.delete(&file).await.map(|()| Outcome::Deleted) }
            };
            run.delete_each(orphans, delete).await?;
        }
        run.job.progress.bytes += bytes;
        run.reached(None).await?;
    }
    run.job.progress.total = Some(run.job.progress.done);
    Ok(())
}

/// Returns the locations of other tables and views below the table's location. Files at these
/// locations belong to these other tables and views.
async fn locations_of_others(
    run: &JobRun,
    record: &TabularRecord,
) -> Result<BTreeSet<Vec<String>>, Interruption> {
    let Ok(location) = Location::parse(&record.location) else { return Ok(BTreeSet::new()) };
    let store = run.jobs().core.store().latest();
    run.jobs().check_own_location(record).await.map_err(|error| match error {
        error @ Error::Conflict(_) => Interruption::Failed(error.to_string()),
        other => other.into(),
    })?;
    let others = others_below(&store, record.id, &location, OTHERS_MAX).await?;
    let mut others = others.ok_or_else(too_many)?;
    // If another table has the same location, the catalog generated this location for this table
    // (`check_own_location` rejects all other cases). The other table got the location later, so
    // the files there belong to this table.
    for parts in location.spellings() {
        others.remove(&parts);
    }
    Ok(others)
}

/// Whether a file is at or below one of these locations.
fn is_in(locations: &BTreeSet<Vec<String>>, file: &str) -> bool {
    let Ok(file) = Location::parse(file) else { return !locations.is_empty() };
    let is_at = |parts: Vec<String>| (1..=parts.len()).any(|end| locations.contains(&parts[..end]));
    file.spellings().into_iter().any(is_at)
}

/// Treats missing or unreadable metadata as a final failure, because the reachable files cannot be
/// determined.
fn fail_if_unreadable(interrupted: Interruption) -> Interruption {
    match interrupted {
        Interruption::Later(error) if matches!(error.kind(), Kind::NoSuchFile | Kind::Invalid) => {
            Interruption::Failed(format!("cannot determine which files are needed: {error}"))
        }
        other => other,
    }
}

impl Jobs {
    /// Rejects a table whose location is at or inside the location of another table or view,
    /// because the files may belong to the other table. Accepts a location that the catalog
    /// generated for the table, because such a location belongs to the table.
    pub(super) async fn check_own_location(&self, record: &TabularRecord) -> crate::Result<()> {
        let Ok(location) = Location::parse(&record.location) else { return Ok(()) };
        if is_generated_for(&location, record.id) {
            return Ok(());
        }
        let (store, end) = (self.core.store().latest(), location.parts().len() + 1);
        let root = self.core.objects().location(record.warehouse).map_or(0, |it| it.parts().len());
        match has_others_around(&store, Owners::WithDropped, record.id, &location, root + 1..end)
            .await?
        {
            false => Ok(()),
            true => Err(Error::Conflict(StateConflict::SharedLocation)),
        }
    }
}

/// Returns the record of the table. Fails if it does not exist.
async fn record_of(run: &JobRun, table: &JobTable) -> Result<TabularRecord, Interruption> {
    let record = run.jobs().core.store().latest().get(&TabularKey(table.id)).await?;
    record.ok_or_else(|| Interruption::Failed("the table is no longer in the catalog".to_owned()))
}

/// Returns the cutoff time: only files that were written earlier can be orphans. The job stores
/// this time, so that a restart does not change it.
async fn cutoff(
    run: &mut JobRun,
    directory: &Directory,
    age_seconds: u64,
) -> Result<i64, Interruption> {
    if let Some(cutoff_ms) = run.job.progress.cutoff_ms {
        return Ok(cutoff_ms);
    }
    let id = run.jobs().core.ids().random();
    let now_ms = run.until_stopped(directory.now_ms(id)).await??;
    let age_ms = i64::try_from(age_seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
    let cutoff_ms = now_ms.saturating_sub(age_ms);
    run.job.progress.cutoff_ms = Some(cutoff_ms);
    run.save().await?;
    Ok(cutoff_ms)
}

/// Returns the time before which a clone may need files or, for a scheduled job, a checkpoint. For
/// checkpoints, it is the time of the newest one, and a margin for the difference between the
/// clocks.
async fn needed_until(run: &JobRun, scheduled: bool) -> Result<i64, Interruption> {
    let core = &run.jobs().core;
    let checkpoints = core.store().checkpoints(core.now_ms()).await.map_err(Error::from)?;
    let needing = checkpoints.iter().filter(|checkpoint| scheduled || checkpoint.for_clone);
    let need_until = needing.map(|checkpoint| match checkpoint.for_clone {
        true => i64::MAX,
        false => checkpoint.created_ms.saturating_add(CLOCK_MARGIN_MS),
    });
    Ok(need_until.max().unwrap_or(i64::MIN))
}

fn is_hidden(file: &ListedFile) -> bool {
    let mut segments = file.below.split('/');
    file.below.ends_with(VERSION_HINT)
        || segments.any(|segment| {
            segment.starts_with('.') || segment.starts_with('_') && !segment.contains('=')
        })
}

/// Records the files that would be deleted.
fn note(progress: &mut JobProgress, directory: &Directory, orphans: &[ListedFile]) {
    progress.done += orphans.len() as u64;
    let room = FOUND_MAX.saturating_sub(progress.found.len());
    let further = orphans.iter().take(room).map(|file| directory.location_of(file));
    progress.found.extend(further);
}

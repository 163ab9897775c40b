//! Files that rebases have left behind: no metadata ever referenced them, and no job searches for
//! them except the removal of orphans.
//!
//! There are three kinds. A client has written a manifest list, and the table uses the server's list
//! instead. A client has merged manifests in vain, because the server has written the added files to
//! a new manifest. The server has written a new manifest, and then rejected the commit.
//!
//! A commit leaves files behind with a small record in its own transaction. A new manifest gets its
//! record before it is written, and the transaction that uses the manifest removes this record. So
//! every abandoned file has a record, even after a crash. Once a record is older than
//! [`Settings::abandoned_files_kept`](crate::settings::Settings::abandoned_files_kept), its files
//! become a part of a job. This job deletes each file unless a table references it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use uuid::Uuid;

use super::interrupted::Interruption;
use super::left_behind::{LeftBehind, NewManifests};
use super::run::{BATCH_FILES, JobRun};
use super::shared_files::{Depth, SharedFiles};
use super::table_of;
use crate::jobs::Jobs;
use crate::{Error, Result};
use slateberg_authz::permit::{Permit, Task};
use slateberg_objects as objects;
use slateberg_objects::reachable;
use slateberg_store::jobs::{AbandonedFiles, Job, JobTable, JobWork};
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{AbandonedKey, JobKey, Key};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::TabularRecord;
use slateberg_store::txn::Transaction;

/// Number of records that one transaction replaces by jobs.
const PAGE: usize = 200;
/// Records are collected in intervals, so that one job deletes the files of many commits.
const INTERVAL_MS: i64 = 60_000;

impl Jobs {
    /// Writes the record of new manifests. Must be called before the manifests are written, so that
    /// no manifest remains without a record.
    pub(crate) async fn announce_manifests(
        &self,
        table: &TabularRecord,
        paths: Vec<String>,
    ) -> Result<NewManifests> {
        let files = AbandonedFiles { manifests: paths.clone(), ..self.abandoned(table) };
        self.announce(files, paths).await
    }

    /// Writes the record of a new manifest list, like [`announce_manifests`](Self::announce_manifests).
    pub(crate) async fn announce_list(
        &self,
        table: &TabularRecord,
        path: String,
    ) -> Result<NewManifests> {
        let manifest_lists = vec![path.clone()];
        let files = AbandonedFiles { manifest_lists, ..self.abandoned(table) };
        self.announce(files, vec![path]).await
    }

    async fn announce(&self, files: AbandonedFiles, paths: Vec<String>) -> Result<NewManifests> {
        let mut new = NewManifests::new(&self.state.pending_manifests, paths);
        if !self.core.environment.deletes_files() {
            return Ok(new);
        }
        let key = AbandonedKey(self.core.ids().ordered());
        let files = &files;
        let permit = Permit::for_task(Task::Jobs);
        let put = |t: Arc<Transaction>| async move { Ok::<_, Error>(t.put(&key, files)?) };
        let ((), accepted) = self.core.store().transact("announce_manifests", &permit, put).await?;
        accepted.durable().await?;
        new.record = Some(key);
        Ok(new)
    }

    /// Writes the record of the files that a change of a table leaves behind.
    pub(crate) fn put_left_behind(
        &self,
        t: &Transaction,
        table: &TabularRecord,
        left: &LeftBehind,
    ) -> Result<()> {
        left.used.iter().try_for_each(|key| t.delete(key))?;
        let LeftBehind { manifest_lists, manifests, .. } = left;
        let is_empty = manifest_lists.is_empty() && manifests.is_empty();
        if is_empty || !self.core.environment.deletes_files() {
            return Ok(());
        }
        let (manifest_lists, manifests) = (manifest_lists.clone(), manifests.clone());
        let files = AbandonedFiles { manifest_lists, manifests, ..self.abandoned(table) };
        Ok(t.put(&AbandonedKey(self.core.ids().ordered()), &files)?)
    }

    fn abandoned(&self, table: &TabularRecord) -> AbandonedFiles {
        AbandonedFiles {
            warehouse: table.warehouse,
            table: table_of(table, None),
            manifest_lists: Vec::new(),
            manifests: Vec::new(),
            since_ms: self.core.now_ms(),
        }
    }

    /// Replaces the records of the intervals that are old enough by jobs, which delete the files.
    pub(super) async fn collect_abandoned(&self) -> Result<()> {
        let kept = self.core.settings().abandoned_files_kept();
        let kept_ms = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
        let until_ms = self.core.now_ms().saturating_sub(kept_ms);
        let until_ms = until_ms.saturating_sub(until_ms.rem_euclid(INTERVAL_MS));
        let is_due = |(_, files): &(AbandonedKey, AbandonedFiles)| files.since_ms < until_ms;
        let store = self.core.store().durable();
        let mut range = KeyRange::all(KeySpace::Abandoned);
        // Usually, no record is due, and it is sufficient to read the oldest one.
        if !store.scan::<AbandonedKey>(&range, Some(1)).await?.first().is_some_and(is_due) {
            return Ok(());
        }
        loop {
            let page = store.scan::<AbandonedKey>(&range, Some(PAGE)).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            range = range.behind(Some(last.encode()));
            let length = page.len();
            let due: Vec<_> = page.into_iter().take_while(is_due).collect();
            let is_end = due.len() < length;
            if !due.is_empty() {
                self.replace_by_jobs(due).await?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    async fn replace_by_jobs(&self, due: Vec<(AbandonedKey, AbandonedFiles)>) -> Result<()> {
        let mut keys = Vec::with_capacity(due.len());
        let mut tables: BTreeMap<Uuid, AbandonedFiles> = BTreeMap::new();
        for (key, files) in due {
            keys.push(key);
            let all = tables.entry(files.table.id).or_insert_with(|| AbandonedFiles {
                manifest_lists: Vec::new(),
                manifests: Vec::new(),
                ..files.clone()
            });
            all.manifest_lists.extend(files.manifest_lists);
            all.manifests.extend(files.manifests);
            // The locations of the table may have changed.
            all.table = files.table;
        }
        let now_ms = self.core.now_ms();
        let job = |(files, work): (&AbandonedFiles, JobWork)| {
            let job = Job::new(files.warehouse, work, Some(files.table.clone()), now_ms);
            (JobKey(self.core.ids().ordered()), job)
        };
        let works = tables.values().flat_map(|files| works_of(files).map(move |it| (files, it)));
        let (keys, jobs) = (&keys, &works.map(job).collect::<Vec<_>>());
        let permit = Permit::for_task(Task::Jobs);
        let ((), accepted) = self
            .core
            .store()
            .transact("collect_abandoned", &permit, |t| async move {
                keys.iter().try_for_each(|key| t.delete(key))?;
                jobs.iter().try_for_each(|(key, job)| t.put(key, job))?;
                Ok::<_, Error>(())
            })
            .await?;
        Ok(accepted.durable().await?)
    }
}

/// Divides files into jobs of at most [`BATCH_FILES`]. A job with manifests reads more of the table
/// than a job with manifest lists, so there are separate jobs for both.
fn works_of(files: &AbandonedFiles) -> impl Iterator<Item = JobWork> {
    let lists = files
        .manifest_lists
        .chunks(BATCH_FILES)
        .map(|lists| JobWork::Abandoned { manifest_lists: lists.to_vec(), manifests: Vec::new() });
    let manifests = files.manifests.chunks(BATCH_FILES).map(|manifests| JobWork::Abandoned {
        manifest_lists: Vec::new(),
        manifests: manifests.to_vec(),
    });
    lists.chain(manifests)
}

/// Deletes the files of a job, except those that a table references.
pub(super) async fn delete_abandoned(
    run: &mut JobRun,
    table: &JobTable,
    manifest_lists: Vec<String>,
    manifests: Vec<String>,
) -> std::result::Result<(), Interruption> {
    // The commit of a pending manifest may be about to reference it. If no commit is pending, the
    // references that are read below include those of the commit.
    let pending = &run.jobs().state.pending_manifests;
    if pending.contains_any(&manifests) || pending.contains_any(&manifest_lists) {
        let reason = "a commit in progress may need the files";
        return Err(Interruption::Later(Error::unavailable("Cannot delete the files yet", reason)));
    }
    let depth = if manifests.is_empty() { Depth::Metadata } else { Depth::ManifestLists };
    let mut needed = SharedFiles::of_other_tables(table, depth).including_itself();
    let mut files = manifest_lists;
    files.extend(without_other_files(run, manifests).await?);
    needed.refresh(run, &files).await?;
    let all = files.len();
    files.retain(|file| !needed.has(file));
    run.job.progress.kept += (all - files.len()) as u64;
    run.delete(files).await
}

/// Returns those files that are manifests. The server has not read every manifest that a client has
/// merged in vain, so the client may have named another file.
async fn without_other_files(
    run: &mut JobRun,
    files: Vec<String>,
) -> std::result::Result<Vec<String>, Interruption> {
    let mut manifests = Vec::with_capacity(files.len());
    let objects = run.jobs().core.objects();
    let parallel = run.jobs().core.settings().file_deletions_parallel_max.max(1);
    let (objects, warehouse) = (&objects, run.job.warehouse);
    let reads = files.into_iter().map(|file| async move {
        let read = objects.read(warehouse, &file).await;
        (read.and_then(|content| reachable::files_of(&file, &content)), file)
    });
    let mut reads = futures::stream::iter(reads).buffer_unordered(parallel);
    let mut others = 0;
    while let Some((read, file)) = run.until_stopped(reads.next()).await? {
        match read {
            Ok(_) => manifests.push(file),
            // Clients also delete such manifests.
            Err(objects::Error::NotFound(_)) => {}
            Err(objects::Error::NotAllowed(_) | objects::Error::Unreadable { .. }) => {
                tracing::debug!(location = file, "the file is not a manifest: it is not deleted");
                others += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    drop(reads);
    run.job.progress.kept += others;
    Ok(manifests)
}

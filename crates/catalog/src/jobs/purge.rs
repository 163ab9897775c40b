//! Purge: deletes all files that are reachable from a table's last metadata. Also deletes, after an
//! expiry, the files that were reachable only from expired snapshots.
//!
//! A file is deleted only after all files that it references. So the order is: data files;
//! manifests; manifest lists; statistics and older metadata files; the current metadata file. Each
//! step processes its files in the order of their names. So a single name is sufficient to store
//! the position at which a restarted job continues. Missing files count as deleted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use uuid::Uuid;

use super::interrupted::Interruption;
use super::memory::LimitExceeded;
use super::run::{BATCH_FILES, JobRun};
use super::shared_files::{Depth, SharedFiles};
use crate::Error;
use crate::location_index::further_paths;
use slateberg_objects as objects;
use slateberg_objects::content::Content;
use slateberg_objects::reachable::{self, ReferencedFiles};
use slateberg_store::jobs::{JobTable, PurgePhase, PurgePosition};
use slateberg_store::read::StoreRead;

/// A purge in progress.
struct Purge<'a> {
    run: &'a mut JobRun,
    kept: SharedFiles,
    /// Whether this purge deletes the files of expired snapshots. The table still exists, and may
    /// need some of the manifests.
    is_partial: bool,
    /// The last finished position.
    done: Option<PurgePosition>,
    /// Number of deleted files and of retained files up to `done`. After a restart, files after
    /// that position are processed and counted again.
    counted: (u64, u64),
}

/// Deletes all files that are reachable from the metadata of a dropped table.
pub(super) async fn purge(
    run: &mut JobRun,
    id: Uuid,
    metadata_location: &str,
) -> Result<(), Interruption> {
    // A file whose sync failed would be written again, although it was deleted.
    run.until_stopped(run.jobs().core.store().wait_synced(id)).await??;
    let document = run.jobs().core.store().durable().document(id).await?;
    let Some(document) = document else { return Ok(()) };
    let metadata = document.text.to_bytes();
    let broken = |error: serde_json::Error| Interruption::Later(Error::internal(error));
    let named = reachable::named_by(&metadata).map_err(broken)?;
    let metadata: Json = serde_json::from_slice(&metadata).map_err(broken)?;
    let table = table_of(id, &metadata);
    let kept = SharedFiles::of_other_tables(&table, Depth::Everything);
    let last = Some(metadata_location.to_owned());
    Purge::start(run, kept, false).run(named, last, collects_garbage(&metadata)).await
}

/// Deletes the files that expired snapshots reference, except those that another snapshot of the
/// table or another table needs. Deletes nothing if the catalog has a clone, because its tables
/// still have the snapshots.
pub(super) async fn delete_expired(
    run: &mut JobRun,
    named: ReferencedFiles,
) -> Result<(), Interruption> {
    let Some(table) = &run.job.table else {
        return Err(Interruption::Failed("the record of the job contains no table".to_owned()));
    };
    if let Some(clone) = run.jobs().clone_of_catalog().await? {
        let table = table.resource.as_deref().unwrap_or_default();
        tracing::info!(table, %clone, "files of expired snapshots remain, because a clone may need them");
        run.job.progress.kept = named.count() as u64;
        return Ok(());
    }
    let kept = SharedFiles::of_other_tables(table, Depth::Everything).including_itself();
    Purge::start(run, kept.only_live_files(), true).run(named, None, true).await
}

/// Derives the table from its last metadata, because jobs of older binaries do not contain the
/// table in their record.
fn table_of(id: Uuid, metadata: &Json) -> JobTable {
    let text = |name: &str| metadata[name].as_str().unwrap_or_default();
    let location = text("location");
    let properties = metadata["properties"].as_object().into_iter().flatten();
    let properties: BTreeMap<_, _> = properties
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    let mut locations = further_paths(location, &properties);
    locations.push(location.to_owned());
    let uuid = Uuid::try_parse(text("table-uuid")).unwrap_or_default();
    JobTable { id, uuid, resource: None, locations }
}

/// Whether the table's data files may be deleted. This is the property `gc.enabled`, which is true
/// by default.
fn collects_garbage(metadata: &Json) -> bool {
    let enabled = metadata["properties"]["gc.enabled"].as_str();
    !enabled.is_some_and(|value| value.eq_ignore_ascii_case("false"))
}

impl<'a> Purge<'a> {
    fn start(run: &'a mut JobRun, kept: SharedFiles, is_partial: bool) -> Self {
        let done = run.job.progress.position.clone();
        let counted = (run.job.progress.done, run.job.progress.kept);
        Self { run, kept, is_partial, done, counted }
    }

    async fn run(
        mut self,
        named: ReferencedFiles,
        metadata_location: Option<String>,
        with_data: bool,
    ) -> Result<(), Interruption> {
        let outcome = self.all(named, metadata_location, with_data).await;
        if outcome.is_err() {
            (self.run.job.progress.done, self.run.job.progress.kept) = self.counted;
        }
        outcome
    }

    async fn all(
        &mut self,
        named: ReferencedFiles,
        metadata_location: Option<String>,
        with_data: bool,
    ) -> Result<(), Interruption> {
        let ReferencedFiles { manifest_lists, manifests, others, .. } = named;
        let phase = self.done.as_ref().map_or(PurgePhase::Data, |done| done.phase);
        if phase <= PurgePhase::Manifests {
            let mut manifests = self.manifests(&manifest_lists, manifests).await?;
            let last = usize::from(metadata_location.is_some());
            let last = manifests.len() + manifest_lists.len() + others.len() + last;
            if self.is_partial {
                // Skips the manifests that another snapshot or another table needs. All files that
                // these manifests reference are then needed, too.
                self.kept.refresh(self.run, &[]).await?;
                manifests.retain(|manifest, _| !self.kept.has(manifest));
            } else if self.run.job.progress.total.is_none() {
                let data = if with_data { file_total(&manifests) } else { Some(0) };
                self.run.job.progress.total = data.map(|data| data + last as u64);
            }
            if phase == PurgePhase::Data && with_data {
                self.data(&manifests).await?;
            }
            let progress = &mut self.run.job.progress;
            progress.total.get_or_insert(progress.done + progress.kept + last as u64);
            self.files(PurgePhase::Manifests, manifests.into_keys()).await?;
        }
        self.files(PurgePhase::ManifestLists, manifest_lists).await?;
        self.files(PurgePhase::Others, others).await?;
        self.files(PurgePhase::Metadata, metadata_location).await
    }

    /// Returns all manifests. If the manifest list contains the number of files that a manifest
    /// references, the result includes this number.
    async fn manifests(
        &mut self,
        lists: &BTreeSet<String>,
        without_list: BTreeSet<String>,
    ) -> Result<BTreeMap<String, Option<u64>>, Interruption> {
        let mut manifests: BTreeMap<_, _> =
            without_list.into_iter().map(|manifest| (manifest, None)).collect();
        for list in lists {
            let named = self.named(list, reachable::manifests_of).await?.unwrap_or_default();
            let new = named.keys().filter(|manifest| !manifests.contains_key(*manifest));
            let bytes: u64 = new.map(|manifest| reachable::name_bytes(manifest)).sum();
            match self.run.memory.take(bytes) {
                Err(LimitExceeded::Alone) => {
                    tracing::warn!(
                        list,
                        "the table has too many manifests: the files that the manifests in this list reference are not purged"
                    );
                    self.leave(format!(
                        "the table has too many manifests (catalog.job_files_known_max): {list}"
                    ));
                    continue;
                }
                taken => taken?,
            }
            manifests.extend(named);
        }
        Ok(manifests)
    }

    /// Deletes the files that the manifests reference. Counts the files of a manifest that it cannot
    /// read as retained, if the manifest list contains their number.
    async fn data(
        &mut self,
        manifests: &BTreeMap<String, Option<u64>>,
    ) -> Result<(), Interruption> {
        for (manifest, count) in manifests {
            if self.is_done(PurgePhase::Data, manifest) {
                continue;
            }
            let files = self.named(manifest, reachable::files_of).await?;
            if files.is_none() {
                self.run.job.progress.kept += count.unwrap_or_default();
            }
            let files: Vec<_> = files.into_iter().flatten().collect();
            for batch in files.chunks(BATCH_FILES) {
                self.batch(batch.to_vec()).await?;
            }
            self.reached(PurgePhase::Data, manifest).await?;
        }
        Ok(())
    }

    /// Deletes these files in batches.
    async fn files(
        &mut self,
        phase: PurgePhase,
        files: impl IntoIterator<Item = String>,
    ) -> Result<(), Interruption> {
        let files = files.into_iter().filter(|file| !self.is_done(phase, file));
        let files: Vec<_> = files.collect();
        for batch in files.chunks(BATCH_FILES) {
            self.batch(batch.to_vec()).await?;
            if let Some(last) = batch.last() {
                self.reached(phase, last).await?;
            }
        }
        Ok(())
    }

    async fn batch(&mut self, mut files: Vec<String>) -> Result<(), Interruption> {
        self.kept.refresh(self.run, &files).await?;
        let all = files.len();
        files.retain(|file| !self.kept.has(file));
        self.run.job.progress.kept += (all - files.len()) as u64;
        self.run.delete(files).await
    }

    fn is_done(&self, phase: PurgePhase, file: &str) -> bool {
        let done = self.done.as_ref();
        done.is_some_and(|done| phase < done.phase || phase == done.phase && *file <= *done.after)
    }

    async fn reached(&mut self, phase: PurgePhase, file: &str) -> Result<(), Interruption> {
        self.counted = (self.run.job.progress.done, self.run.job.progress.kept);
        self.run.reached(Some(PurgePosition { phase, after: file.to_owned() })).await
    }

    /// Notes why files of the table remain. The job shows the first reason.
    fn leave(&mut self, reason: String) {
        let progress = &mut self.run.job.progress;
        progress.warning.get_or_insert_with(|| format!("files of the table remain: {reason}"));
    }

    /// Returns the files that a file references. Returns an empty result if the file is missing.
    /// Returns `None` if the file is outside of the warehouse, unreadable or too large. The
    /// referenced files then stay, and the purge continues. Drops the content of the file before it
    /// returns, because the next step may need the memory.
    async fn named<C: Default>(
        &mut self,
        location: &str,
        of: impl Fn(&str, &Content) -> Result<C, objects::Error>,
    ) -> Result<Option<C>, Interruption> {
        let objects = self.run.jobs().core.objects();
        let read = objects.read(self.run.job.warehouse, location);
        match self.run.until_stopped(read).await?.and_then(|content| of(location, &content)) {
            Ok(named) => Ok(Some(named)),
            Err(objects::Error::NotFound(_)) => Ok(Some(C::default())),
            Err(objects::Error::NotAllowed(reason)) => {
                tracing::warn!(
                    location,
                    reason,
                    "a file is outside of the warehouse: it is not purged"
                );
                self.leave(reason);
                Ok(None)
            }
            Err(error @ objects::Error::Unreadable { .. }) => {
                tracing::warn!(%error, "a manifest or manifest list cannot be read: the files that it references are not purged");
                self.leave(format!("a manifest or manifest list cannot be read: {error}"));
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the number of files that the manifests reference. `None` if the number is unknown for
/// one of the manifests.
fn file_total(manifests: &BTreeMap<String, Option<u64>>) -> Option<u64> {
    manifests.values().try_fold(0_u64, |sum, count| sum.checked_add((*count)?))
}

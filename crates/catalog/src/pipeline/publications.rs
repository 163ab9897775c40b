//! Publications: writes new metadata files into the warehouse.
//!
//! A publication is retried until the file exists or the store is closed, even if the object store
//! of the warehouse fails for a long time. Each publication has a marker in the store, so that the
//! next start finishes the incomplete publications.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use uuid::Uuid;

use super::Pipeline;
use super::file::{FileContent, WarehouseFile, WriteMode, is_synced_later};
use super::sync_queue::Room;
use crate::{Error, Result, lookup};
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::progress::Progress;
use slateberg_base::retry::Backoff;
use slateberg_model::segmented_json::SegmentedJson;
use slateberg_objects::local::LocalFile;
use slateberg_objects::manifest_list::{ListBlocks, ListHeader, ManifestList};
use slateberg_objects::{self as objects, Objects};
use slateberg_store::codec::Document;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::PublicationKey;
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::{PromisedList, Publication, TabularRecord};
use slateberg_store::unsynced::UnsyncedVersion;

/// The shortest and the longest wait before the next attempt to write a metadata file.
pub(super) const RETRY_DELAY_MIN: Duration = Duration::from_millis(50);
pub(super) const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);
/// Maximum number of publications of an earlier process that are finished at the same time.
const CONCURRENT_MAX: usize = 16;

/// Result of the attempt to finish the publications that an earlier process left incomplete.
#[derive(Debug, Default)]
pub struct FinishedPublications {
    /// Number of finished publications: their metadata files exist, or are not needed.
    pub finished: usize,
    /// Damaged metadata files that were replaced.
    pub replaced: Vec<String>,
    /// Missing metadata files that are not written yet.
    pub unfinished: Vec<String>,
}

/// A file that exists with the right content.
#[derive(Debug, Default)]
pub(super) struct PublishedFile {
    /// Whether a different file was replaced.
    pub(super) replaced: bool,
    /// The file, if it is not synced.
    pub(super) unsynced: Option<LocalFile>,
}

/// A version whose files an earlier process may not have written or synced.
struct Unfinished {
    key: PublicationKey,
    warehouse: Uuid,
    marker: Publication,
    /// Whether the version is the newest one of its table or view.
    is_current: bool,
    metadata: UnfinishedMetadata,
}

enum UnfinishedMetadata {
    /// The metadata of a file in a bucket, which may be missing.
    Unwritten(SegmentedJson),
    /// A file on a local file system may be unsynced. Its metadata is read when it is written again.
    Unsynced(UnsyncedVersion),
}

/// Outcome of the wait for a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completion {
    Written {
        replaced: bool,
    },
    /// The file is not needed anymore.
    Obsolete,
    Failed,
    /// The file is not written in time, and a background task retries.
    Late,
    /// The publication belongs to another warehouse than the requested one.
    NotWanted,
}

/// Warehouses that have not accepted a file in time, so that no further file waits for them.
struct LateWarehouses {
    patience: Duration,
    warehouses: Mutex<HashSet<Uuid>>,
}

impl LateWarehouses {
    fn lock(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        self.warehouses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, warehouse: Uuid) {
        self.lock().insert(warehouse);
    }

    /// Returns the time for which the next file of a warehouse may wait.
    fn at_most(&self, warehouse: Uuid) -> Duration {
        if self.lock().contains(&warehouse) { Duration::ZERO } else { self.patience }
    }
}

impl Pipeline {
    /// Writes a metadata file and retries until it exists or the store is closed.
    ///
    /// If a file with this name and different content exists and must not be replaced, returns an
    /// error at once. The name contains a new UUID, so another program must have written that file.
    pub(super) async fn publish(
        &self,
        file: &WarehouseFile,
        mode: WriteMode,
    ) -> Result<PublishedFile> {
        let WarehouseFile { warehouse, location, .. } = file;
        let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
        let mut space = None;
        loop {
            let objects = self.objects();
            match try_publish(&objects, file, mode).await {
                Ok(published) => return Ok(published),
                Err(error @ objects::Error::Taken(_)) => {
                    tracing::error!(location, %error, "cannot publish a metadata file: a different file has this name");
                    return Err(Error::unknown(error));
                }
                Err(error) if self.store.check_open().is_err() => {
                    tracing::warn!(location, %error, "publication not complete: the next start of the server completes it");
                    return Err(Error::unknown(error));
                }
                Err(error) => {
                    tracing::warn!(location, %error, "metadata file not written: retrying");
                    self.space.report(&mut space, *warehouse, &error);
                }
            }
            backoff.wait().await;
        }
    }

    /// Completes the publications of versions after the attempt to write their files. Returns the
    /// first error of a file. Versions without an error are completed in any case.
    pub(super) fn complete_published(
        self: &Arc<Self>,
        keys: &[PublicationKey],
        files: &[(PublicationKey, WarehouseFile)],
        published: Vec<Result<PublishedFile>>,
        room: Option<&Room>,
    ) -> Result<()> {
        let (mut unsynced, mut failed) = (HashMap::new(), HashMap::new());
        for ((key, file), published) in files.iter().zip(published) {
            match published {
                Ok(published) => {
                    unsynced.extend(published.unsynced.map(|local| (*key, (file, local))));
                }
                Err(error) => {
                    failed.insert(*key, error);
                }
            }
        }
        for key in keys.iter().filter(|key| !failed.contains_key(key)) {
            match unsynced.remove(key) {
                Some(file) => self.complete_later(*key, file, room),
                None => self.complete_publication(*key),
            }
        }
        failed.into_values().next().map_or(Ok(()), Err)
    }

    pub(super) fn objects(&self) -> Objects {
        self.warehouses.served().objects.clone()
    }

    /// Finishes the publications that an earlier process left incomplete: writes each file from the
    /// stored metadata, and removes the marker. If `warehouse` is given, finishes only the
    /// publications of this warehouse.
    ///
    /// An existing file with different content is replaced. Such a file must be damaged, because
    /// its name contains a UUID that this catalog chose. Publications of a warehouse that is not
    /// configured are left pending. If a file of a warehouse cannot be written within `patience`,
    /// background tasks retry the files of this warehouse. Requests for a table return 503 until
    /// the table's file is written.
    pub(crate) async fn finish_publications(
        self: &Arc<Self>,
        warehouse: Option<Uuid>,
        patience: Duration,
        progress: &Progress,
    ) -> Result<FinishedPublications> {
        let store = self.store.latest();
        let markers =
            store.scan::<PublicationKey>(&KeyRange::all(KeySpace::Publications), None).await?;
        let late = LateWarehouses { patience, warehouses: Mutex::default() };
        let phase = progress.phase("publishing metadata files", Some(markers.len() as u64));
        let (late, phase) = (&late, &phase);
        let had_markers = !markers.is_empty();
        let finishing = markers.into_iter().map(|(key, marker)| async move {
            let location = marker.metadata_location.clone();
            let finished = self.finish_marker((key, marker), warehouse, late).await;
            phase.advance(1);
            finished.map(|completion| (completion, location))
        });
        let mut finishing = stream::iter(finishing).buffer_unordered(CONCURRENT_MAX);
        let mut outcome = FinishedPublications::default();
        while let Some((completion, location)) = finishing.try_next().await? {
            outcome.add(completion, &location);
        }
        self.store.check_open()?;
        if had_markers {
            self.remove_completed_markers().await?;
        }
        Ok(outcome)
    }

    /// Finishes the publication of one marker.
    async fn finish_marker(
        self: &Arc<Self>,
        (key, marker): (PublicationKey, Publication),
        only_in: Option<Uuid>,
        late: &LateWarehouses,
    ) -> Result<Completion> {
        let record = lookup::record_with_dropped(&self.store.latest(), key.id).await?;
        if only_in.is_some() && record.as_ref().map(|record| record.warehouse) != only_in {
            return Ok(Completion::NotWanted);
        }
        let Some(record) = record else {
            self.complete_publication(key);
            return Ok(Completion::Obsolete);
        };
        let metadata = if is_synced_later(&marker.metadata_location) {
            // Until the file is synced, no transaction may remove the chunks from which it is
            // restored.
            UnfinishedMetadata::Unsynced(self.store.register_unsynced(key))
        } else if let Some(document) = self.document_to_publish(&record, key, &marker).await? {
            UnfinishedMetadata::Unwritten(document.text)
        } else {
            self.complete_publication(key);
            return Ok(Completion::Obsolete);
        };
        let (warehouse, location) = (record.warehouse, &marker.metadata_location);
        if let Err(error) = self.objects().check(warehouse, location) {
            tracing::error!(location, %error, "publication left pending: its warehouse is not configured, or does not accept this location");
            return Ok(Completion::Failed);
        }
        let is_current = record.version == key.version;
        let unfinished = Unfinished { key, warehouse, marker, is_current, metadata };
        let completion = self.finish_publication(unfinished, late.at_most(warehouse)).await?;
        if completion == Completion::Late {
            late.add(warehouse);
        }
        Ok(completion)
    }

    /// Completes the publication of a version whose files are durable or not needed.
    fn complete_publication(&self, key: PublicationKey) {
        self.store.mark_published(key);
        self.store.queue_marker_removal(key);
    }

    /// Returns the metadata of the version of a marker. Returns `None` if the marker is obsolete:
    /// the files of an older version were durable before the newer version was committed, unless
    /// the marker contains the version's head.
    pub(super) async fn document_to_publish(
        &self,
        record: &TabularRecord,
        key: PublicationKey,
        marker: &Publication,
    ) -> Result<Option<Document>> {
        let store = self.store.latest();
        match &marker.head {
            // The version of the table may have changed since the record was read, so this does not
            // read the current metadata.
            Some(head) if key.version <= record.version => {
                Ok(store.document_of_marker(key, head).await?)
            }
            None if key.version == record.version => {
                let document = store.document(key.id).await?;
                Ok(document.filter(|document| document.version == key.version))
            }
            _ => Ok(None),
        }
    }

    /// Spawns one publication and waits for it, but no longer than `at_most`.
    async fn finish_publication(
        self: &Arc<Self>,
        unfinished: Unfinished,
        at_most: Duration,
    ) -> Result<Completion> {
        let (key, location) = (unfinished.key, unfinished.marker.metadata_location.clone());
        // This works as for a new change: readers wait until the file of the version exists, and
        // the lane blocks later versions.
        let pending = self.pending.register(vec![key]);
        let lane = unfinished.is_current.then_some(key.id);
        let lanes = self.lanes.enter(lane.into_iter().collect()).await?;
        let pipeline = Arc::clone(self);
        let publishing = tokio::spawn(async move {
            let completion = pipeline.publish_again(unfinished).await;
            drop((pending, lanes));
            completion
        });
        match tokio::time::timeout(at_most, publishing).await {
            Ok(Ok(finish)) => Ok(finish),
            Ok(Err(stopped)) => Err(Error::unknown(stopped)),
            Err(_) => {
                let seconds = at_most.as_secs();
                tracing::error!(
                    location,
                    seconds,
                    "the object store of a warehouse did not accept a metadata file of an earlier run in time: its table \
                     is served once the file is written, all other tables are served now"
                );
                Ok(Completion::Late)
            }
        }
    }

    /// Writes the files of a version. Retries until they exist or the store is closed.
    async fn publish_again(self: &Arc<Self>, unfinished: Unfinished) -> Completion {
        let Unfinished { key, warehouse, marker, is_current, metadata } = unfinished;
        let Publication { metadata_location: location, lists, .. } = marker;
        // The manifest lists of an older version were synced before the newer one was committed.
        if is_current && self.publish_lists((warehouse, key.id), lists).await.is_err() {
            return Completion::Failed;
        }
        let text = match metadata {
            UnfinishedMetadata::Unwritten(text) => text,
            UnfinishedMetadata::Unsynced(version) => {
                let completion = self.rewrite(warehouse, &location, version).await;
                if completion != Completion::Failed {
                    self.store.mark_published(key);
                }
                return completion;
            }
        };
        let file = WarehouseFile { warehouse, location, content: FileContent::Metadata(text) };
        match self.publish(&file, WriteMode::CreateOrReplace).await {
            // A file in a bucket is durable.
            Ok(PublishedFile { replaced, .. }) => {
                self.complete_publication(key);
                Completion::Written { replaced }
            }
            Err(_) => Completion::Failed,
        }
    }

    /// Writes the manifest lists of rebased appends that an earlier process recorded in a marker
    /// but may not have written. Retries until the manifest lists exist or the store is closed.
    async fn publish_lists(
        &self,
        (warehouse, id): (Uuid, Uuid),
        lists: Vec<PromisedList>,
    ) -> Result<()> {
        for list in lists {
            let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
            let content = loop {
                match restored(&self.objects(), (warehouse, id), &list).await {
                    Ok(content) => break content,
                    Err(error) if self.store.check_open().is_err() => {
                        return Err(Error::unknown(error));
                    }
                    Err(error) => {
                        let location = list.location.as_str();
                        tracing::warn!(location, %error, "manifest list not restored: retrying");
                    }
                }
                backoff.wait().await;
            };
            if let Some(content) = content {
                let content = FileContent::ManifestList(content);
                let file = WarehouseFile { warehouse, location: list.location, content };
                self.publish(&file, WriteMode::CreateOrReplace).await?;
            }
        }
        Ok(())
    }

    /// Removes the markers of complete publications now. Otherwise the next change would remove
    /// them.
    pub(crate) async fn remove_completed_markers(&self) -> Result<()> {
        let permit = Permit::for_task(Task::Publication);
        let ((), accepted) = self
            .store
            .transact("remove_completed_markers", &permit, |_| async { Ok::<_, Error>(()) })
            .await?;
        Ok(accepted.durable().await?)
    }
}

/// Makes one attempt to write a file.
async fn try_publish(
    objects: &Objects,
    file: &WarehouseFile,
    mode: WriteMode,
) -> std::result::Result<PublishedFile, objects::Error> {
    match file.create(objects).await {
        Err(objects::Error::Taken(_)) if mode == WriteMode::CreateOrReplace => {
            file.replace(objects).await?;
            Ok(PublishedFile { replaced: true, unsynced: None })
        }
        created => Ok(PublishedFile { replaced: false, unsynced: created? }),
    }
}

impl FinishedPublications {
    fn add(&mut self, finish: Completion, location: &str) {
        match finish {
            Completion::Written { replaced } => {
                self.finished += 1;
                self.replaced.extend(replaced.then(|| location.to_owned()));
            }
            Completion::Obsolete => self.finished += 1,
            Completion::NotWanted => {}
            Completion::Failed | Completion::Late => self.unfinished.push(location.to_owned()),
        }
    }
}

/// Returns the content of a manifest list that was recorded in a marker. `None` if the file already
/// exists with these manifests.
async fn restored(
    objects: &Objects,
    (warehouse, id): (Uuid, Uuid),
    list: &PromisedList,
) -> std::result::Result<Option<Bytes>, objects::Error> {
    let mut entries = list.own.clone();
    if let Some(onto) = &list.onto {
        let content = objects.read(warehouse, onto).await?;
        let removed: HashSet<_> = list.removed.iter().collect();
        let branch = ManifestList::parse(onto, &content)?.entries;
        entries.extend(branch.into_iter().filter(|it| !removed.contains(&it.path)));
    }
    let existing = match objects.read(warehouse, &list.location).await {
        Ok(content) => ManifestList::parse(&list.location, &content).ok(),
        Err(objects::Error::NotFound { .. }) => None,
        Err(error) => return Err(error),
    };
    if existing.is_some_and(|existing| existing.entries == entries) {
        return Ok(None);
    }
    let blocks = ListBlocks::new(list.format_version, id, entries);
    Ok(Some(blocks.to_file(&header(list))))
}

/// Returns the header of a manifest list that is recorded in a marker.
pub(crate) fn header(list: &PromisedList) -> ListHeader {
    ListHeader {
        format_version: list.format_version,
        snapshot_id: list.snapshot_id,
        parent_snapshot_id: list.parent_snapshot_id,
        sequence_number: list.sequence_number,
        first_row_id: list.first_row_id,
    }
}

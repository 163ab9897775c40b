//! Syncs metadata files on local file systems: many files together, after the response.
//!
//! A commit does not wait for this sync. After a power failure, the next start restores the files
//! from their markers, which are removed only after the sync.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::file::{FileContent, WarehouseFile};
use super::publications::{Completion, RETRY_DELAY_MAX, RETRY_DELAY_MIN};
use super::sync_queue::{Room, UnsyncedFile};
use super::{NewFile, Pipeline};
use crate::disk_space::SpaceWait;
use crate::tabular::metadata::is_deleted_after_commit;
use crate::{Error, Result, lookup};
use slateberg_base::error_chain::chain;
use slateberg_base::retry::Backoff;
use slateberg_objects::local::{self, LocalFile};
use slateberg_store::keys::PublicationKey;
use slateberg_store::read::StoreRead;
use slateberg_store::records::TabularRecord;
use slateberg_store::unsynced::UnsyncedVersion;

/// Time for which files are collected, to sync them together.
const COLLECTION_TIME: Duration = Duration::from_millis(200);
/// Maximum time for which the end of the server waits for the sync. With the default lease, the
/// writer of a cluster then still has time to close its store.
const LAST_SYNC_MAX: Duration = Duration::from_secs(3);

impl Pipeline {
    /// Waits until the metadata files of a change may be written, because not too many other files
    /// are unsynced. Returns `None` for files that are synced before the response.
    pub(super) async fn room(&self, versions: &[NewFile]) -> Result<Option<Room>> {
        let files = || versions.iter().flat_map(|version| &version.files);
        let number = files().filter(|file| file.is_synced_later()).count();
        let Some(first) = files().next().filter(|_| number > 0) else { return Ok(None) };
        // All files of a change are in the same warehouse.
        let room = self.sync_queue.room(first.warehouse, number);
        tokio::time::timeout(self.deadline, room).await.map_err(|_| {
            Error::unavailable(
                "The disk of the warehouse does not sync metadata files",
                "too many metadata files are not synced",
            )
        })
    }

    /// Completes the publication of a version whose metadata file exists, but is not synced. The
    /// marker is removed after the sync.
    pub(super) fn complete_later(
        self: &Arc<Self>,
        key: PublicationKey,
        (WarehouseFile { warehouse, location, .. }, file): (&WarehouseFile, LocalFile),
        room: Option<&Room>,
    ) {
        self.store.mark_published(key);
        let (version, location) = (self.store.register_unsynced(key), location.clone());
        let file = UnsyncedFile { version, location, file, room: room.cloned() };
        if self.sync_queue.add(*warehouse, file) {
            tokio::spawn(Arc::clone(self).sync_files(*warehouse));
        }
    }

    /// Syncs the files of a warehouse until there are none left.
    async fn sync_files(self: Arc<Self>, warehouse: Uuid) {
        let turn = self.sync_queue.turn(warehouse);
        let mut needed = self.store.sync_needed();
        loop {
            // Either of them is a reason to sync. The sender of `needed` is not dropped.
            let _ = tokio::time::timeout(COLLECTION_TIME, needed.changed()).await;
            let Some(files) = turn.take() else { return };
            let to_sync: Vec<_> = files.iter().map(|file| file.file.clone()).collect();
            let results = match tokio::task::spawn_blocking(move || local::sync(&to_sync)).await {
                Ok(results) => results,
                Err(stopped) => {
                    let failed = |_: &_| Err(std::io::Error::other(stopped.to_string()));
                    files.iter().map(failed).collect()
                }
            };
            for (file, result) in files.into_iter().zip(results) {
                match result {
                    Ok(()) => self.complete_sync(file.version),
                    Err(error) => {
                        let path = file.file.path().display();
                        tracing::warn!(%path, %error, "metadata file not synced: writing it again");
                        let pipeline = Arc::clone(&self);
                        tokio::spawn(async move {
                            let UnsyncedFile { version, location, room, .. } = file;
                            pipeline.rewrite(warehouse, &location, version).await;
                            drop(room);
                        });
                    }
                }
            }
        }
    }

    fn complete_sync(&self, version: UnsyncedVersion) {
        self.store.queue_marker_removal(version.key());
        version.synced();
    }

    /// Writes a file again, and syncs it. Retries until this succeeds or the store is closed.
    ///
    /// After a failed sync, Linux may regard content as written that is not on the disk, so another
    /// sync would succeed although the content is lost.
    pub(super) async fn rewrite(
        &self,
        warehouse: Uuid,
        location: &str,
        version: UnsyncedVersion,
    ) -> Completion {
        let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
        let (mut attempts, mut space) = (0_u64, None);
        loop {
            let attempt = self.try_rewrite((warehouse, location), version.key(), &mut space);
            let error = match attempt.await {
                Ok(completion) => {
                    self.complete_sync(version);
                    return completion;
                }
                Err(error) => error,
            };
            // An internal error is permanent, such as a damaged record.
            let is_permanent = matches!(error, Error::Internal { .. });
            if is_permanent || self.store.check_open().is_err() {
                tracing::warn!(location, %error, "metadata file not synced: the next start of the server writes it");
                return Completion::Failed;
            }
            attempts += 1;
            // A failing disk can have thousands of such files.
            if attempts.is_power_of_two() {
                tracing::warn!(location, attempts, %error, "metadata file not synced: retrying");
            }
            backoff.wait().await;
        }
    }

    async fn try_rewrite(
        &self,
        (warehouse, location): (Uuid, &str),
        key: PublicationKey,
        space: &mut Option<SpaceWait>,
    ) -> Result<Completion> {
        let _turn = self.sync_queue.rewrite(warehouse).await;
        let store = self.store.latest();
        let Some(record) = lookup::record_with_dropped(&store, key.id).await? else {
            // The table was purged, with its files.
            return Ok(Completion::Obsolete);
        };
        if self.was_deleted(&record, key, location).await? {
            return Ok(Completion::Obsolete);
        }
        let Some(marker) = store.get(&key).await? else {
            // Another attempt has written the file.
            return Ok(Completion::Obsolete);
        };
        let Some(document) = self.document_to_publish(&record, key, &marker).await? else {
            return Ok(Completion::Obsolete);
        };
        let (location, content) = (location.to_owned(), FileContent::Metadata(document.text));
        let file = WarehouseFile { warehouse, location, content };
        match file.rewrite(&self.objects()).await {
            Ok(replaced) => Ok(Completion::Written { replaced }),
            Err(error) => {
                self.space.report(space, warehouse, &error);
                Err(error.into())
            }
        }
    }

    /// Whether the metadata file of a superseded version is missing because a job has deleted it
    /// after it left the metadata log of its table.
    async fn was_deleted(
        &self,
        record: &TabularRecord,
        key: PublicationKey,
        location: &str,
    ) -> Result<bool> {
        let is_current = key.version >= record.version || location == record.metadata_location;
        if is_current || !self.deletes_files {
            return Ok(false);
        }
        // After an error, the file is written, which reports the error.
        let exists = self.objects().exists(record.warehouse, location).await;
        if !matches!(exists, Ok(false)) {
            return Ok(false);
        }
        match self.store.latest().document(key.id).await? {
            Some(current) => is_deleted_after_commit(&current.text, location),
            None => Ok(false),
        }
    }

    /// Completes all publications before the store is closed: syncs all files, and removes the
    /// markers.
    pub(crate) async fn complete_publications(&self) {
        if self.store.check_open().is_err() {
            return;
        }
        self.store.request_sync();
        let synced = tokio::time::timeout(LAST_SYNC_MAX, self.sync_queue.wait_empty()).await;
        if synced.is_err() {
            tracing::warn!(
                "metadata files not synced in time: the next start restores them if they are lost"
            );
        }
        if let Err(error) = self.remove_completed_markers().await {
            tracing::warn!(
                error = chain(&error),
                "cannot remove the markers of complete publications: the next start removes them"
            );
        }
    }
}

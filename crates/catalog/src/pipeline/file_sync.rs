//! Syncs metadata files on local file systems: many files together, after the response.
//!
//! A commit does not wait for this sync. After a power failure, the next start restores the files
//! from their markers, which are removed only after the sync.

use std::sync::Arc;
use std::time::Duration;

use super::Pipeline;
use super::sync_queue::{UnsyncedFile, Written};
use slateberg_base::error_chain::chain;
use slateberg_base::retry::Backoff;
use slateberg_objects::local;
use slateberg_store::unsynced::UnsyncedVersions;

/// Time for which files are collected, to sync them together.
const COLLECTION_TIME: Duration = Duration::from_millis(200);
/// Minimum and maximum delay before a file whose sync has failed is written again.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(50);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

impl Pipeline {
    /// Completes the publication of versions whose files are written. Removes their markers after
    /// the unsynced files among them are synced.
    pub(super) fn complete_publication(
        self: &Arc<Self>,
        versions: UnsyncedVersions,
        files: Vec<UnsyncedFile>,
    ) {
        versions.keys().iter().for_each(|key| self.store.mark_published(*key));
        if files.is_empty() {
            versions.keys().iter().for_each(|key| self.store.queue_marker_removal(*key));
        } else if self.sync_queue.add(Written { versions, files }) {
            let pipeline = Arc::clone(self);
            tokio::spawn(async move { pipeline.sync_files().await });
        }
    }

    /// Syncs the files in the queue until it is empty.
    async fn sync_files(&self) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(COLLECTION_TIME) => {}
                () = self.store.sync_needed() => {}
            }
            let all = self.sync_queue.take();
            if all.is_empty() {
                return;
            }
            let files = all.iter().flat_map(|written| &written.files);
            let paths: Vec<_> = files.map(|file| file.path.clone()).collect();
            let synced = tokio::task::spawn_blocking(move || local::sync(&paths)).await;
            let failed = match synced {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(stopped) => Some(stopped.to_string()),
            };
            for written in all {
                if let Some(error) = &failed
                    && !self.rewrite(&written.files, error).await
                {
                    continue;
                }
                let keys = written.versions.keys();
                keys.iter().for_each(|key| self.store.queue_marker_removal(*key));
            }
        }
    }

    /// Writes files again, and syncs each of them at once. Retries until the files are written or
    /// the store is closed. Returns whether the files are written.
    ///
    /// The sync of these files has failed. After that, Linux may regard content as written that is
    /// not on the disk, so another sync would succeed although the content is lost.
    async fn rewrite(&self, files: &[UnsyncedFile], error: &str) -> bool {
        for UnsyncedFile { path, file, .. } in files {
            tracing::warn!(path = %path.display(), error, "metadata file not synced: writing it again");
            let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
            while let Err(error) = file.replace(&self.objects()).await {
                let location = file.location.as_str();
                if self.store.check_open().is_err() {
                    tracing::warn!(location, %error, "metadata file not synced: the next start of the server writes it");
                    return false;
                }
                tracing::warn!(location, %error, "metadata file not written: retrying");
                backoff.wait().await;
            }
        }
        true
    }

    /// Completes all publications before the store is closed: syncs all files, and removes the
    /// markers.
    pub(crate) async fn complete_publications(&self) {
        if let Err(error) = self.store.wait_all_synced().await {
            tracing::warn!(
                error = chain(&error),
                "cannot sync all metadata files: the next start restores them if they are lost"
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

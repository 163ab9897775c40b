//! Deleting files in the background: those of purged tables, and metadata files that are not kept.
//!
//! A job is a record, written in the batch of the change that made its files garbage, so that it
//! survives a restart; it is done again from the beginning then, and what is gone counts as deleted.
//! Files go in the order data, manifests, manifest lists, metadata: as long as anything is left, what
//! leads to it is left too. Nothing on the path of a request deletes a table's file.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value as Json;
use uuid::Uuid;

use super::{Catalog, Error, Result};
use crate::authz::permit::{Permit, Task};
use crate::objects::{self, reachable};
use crate::store::keys::{FileDeletionKey, space};
use crate::store::read::{Range, Read};
use crate::store::records::{DoomedFiles, FileDeletion};

/// Jobs that one round takes up.
const JOBS_PER_ROUND_MAX: usize = 100;

impl Catalog {
    /// Runs the jobs that are there. Returns how many were finished; one that failed stays for the next
    /// round.
    pub async fn run_file_deletions(&self) -> Result<usize> {
        let range = Range::prefix([space::FILE_DELETIONS]);
        let jobs = self
            .store()
            .durable()
            .scan::<FileDeletionKey>(&range, Some(JOBS_PER_ROUND_MAX))
            .await?;
        let mut finished = 0;
        for (key, job) in jobs {
            match self.run_file_deletion(&job).await {
                Ok(files) => {
                    self.forget_file_deletion(key, &job).await?;
                    tracing::info!(job = %key.0, files, "files deleted");
                    finished += 1;
                }
                Err(error) => {
                    tracing::warn!(job = %key.0, ?error, "file deletion: trying again later")
                }
            }
        }
        Ok(finished)
    }

    /// Returns when there is a new job, or after `at_most`.
    pub async fn file_deletions_wanted(&self, at_most: Duration) {
        let _ = tokio::time::timeout(at_most, self.inner.file_deletions.notified()).await;
    }

    async fn run_file_deletion(&self, job: &FileDeletion) -> Result<usize> {
        match &job.files {
            DoomedFiles::Listed(files) => self.delete_files(job.warehouse, files).await,
            DoomedFiles::ReachableFrom { id, metadata_location } => {
                self.purge(job.warehouse, *id, metadata_location).await
            }
        }
    }

    async fn purge(&self, warehouse: Uuid, id: Uuid, metadata_location: &str) -> Result<usize> {
        let Some(document) = self.store().durable().document(id).await? else {
            return Ok(0);
        };
        let metadata = document.text.to_bytes();
        let named = reachable::named_by(&metadata).map_err(Error::internal)?;
        let mut manifests = named.manifests;
        for list in &named.manifest_lists {
            if let Some(content) = self.read_doomed(warehouse, list).await? {
                manifests.extend(readable(reachable::manifests_of(list, &content)));
            }
        }
        let mut deleted = 0;
        if collects_garbage(&metadata) {
            for manifest in &manifests {
                if let Some(content) = self.read_doomed(warehouse, manifest).await? {
                    let files = readable(reachable::files_of(manifest, &content));
                    deleted += self.delete_files(warehouse, &files).await?;
                }
            }
        }
        deleted += self.delete_files(warehouse, &manifests).await?;
        deleted += self.delete_files(warehouse, &named.manifest_lists).await?;
        deleted += self.delete_files(warehouse, &named.others).await?;
        deleted += self.delete_files(warehouse, [metadata_location]).await?;
        Ok(deleted)
    }

    /// The content of a file that is about to go; none if it is gone already or not ours to touch.
    async fn read_doomed(&self, warehouse: Uuid, location: &str) -> Result<Option<bytes::Bytes>> {
        match self.objects().read(warehouse, location).await {
            Ok(content) => Ok(Some(content)),
            Err(objects::Error::NotFound(_)) => Ok(None),
            Err(objects::Error::NotAllowed(reason)) => {
                tracing::warn!(location, reason, "not purged");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes files, several at a time. Those that the warehouse may not touch are left, and logged.
    async fn delete_files(
        &self,
        warehouse: Uuid,
        files: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<usize> {
        let files: Vec<String> = files.into_iter().map(|file| file.as_ref().to_owned()).collect();
        let deletions = files.into_iter().map(|file| async move {
            match self.objects().delete(warehouse, &file).await {
                Ok(()) => Ok(1),
                Err(objects::Error::NotAllowed(reason)) => {
                    tracing::warn!(location = file, reason, "not deleted");
                    Ok(0)
                }
                Err(error) => Err(Error::from(error)),
            }
        });
        let outcomes: Vec<Result<usize>> = futures::stream::iter(deletions)
            .buffer_unordered(self.settings().file_deletions_parallel_max.max(1))
            .collect()
            .await;
        outcomes.into_iter().sum()
    }

    async fn forget_file_deletion(&self, key: FileDeletionKey, job: &FileDeletion) -> Result<()> {
        let permit = Permit::for_task(Task::FileDeletion);
        let job = &job.files;
        let ((), accepted) = self
            .store()
            .transact("forget_file_deletion", &permit, |t| async move {
                t.delete(&key)?;
                if let DoomedFiles::ReachableFrom { id, .. } = job {
                    t.delete_document(*id).await?;
                }
                Ok::<_, Error>(())
            })
            .await?;
        Ok(accepted.durable().await?)
    }
}

/// A manifest that cannot be read names nothing that could be deleted; the rest still goes.
fn readable(files: std::result::Result<BTreeSet<String>, objects::Error>) -> BTreeSet<String> {
    files.unwrap_or_else(|error| {
        tracing::warn!(%error, "manifest cannot be read: the files that it names stay");
        BTreeSet::new()
    })
}

/// Whether the table's data files may be deleted: `gc.enabled`, true by default.
fn collects_garbage(metadata: &[u8]) -> bool {
    let metadata: Json = serde_json::from_slice(metadata).unwrap_or_default();
    let enabled = metadata.get("properties").and_then(|it| it.get("gc.enabled"));
    !enabled.and_then(Json::as_str).is_some_and(|value| value.eq_ignore_ascii_case("false"))
}

//! Publications: writing new metadata files into the warehouse.
//!
//! A publication is retried until the file exists or the store is closed, however long the object store of
//! the warehouse fails. The next start finishes those that are left: each has a marker in the store.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::Pipeline;
use super::file::{IfTaken, MetadataFile};
use crate::{Error, Result};
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::progress::Progress;
use slateberg_base::retry::Backoff;
use slateberg_objects::{self as objects, Objects, metadata_file};
use slateberg_store::keys::{PublicationKey, TabularKey, space};
use slateberg_store::read::{Range, Read};

/// The first wait before a metadata file is tried again, and the longest.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(50);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

/// What became of the publications that an earlier process left.
#[derive(Debug, Default)]
pub struct FinishedPublications {
    /// How many are finished: their metadata files are there, or nothing needs them.
    pub finished: usize,
    /// Metadata files that were damaged and were replaced.
    pub replaced: Vec<String>,
    /// Metadata files that are still missing.
    pub unfinished: Vec<String>,
}

/// How the wait for a publication ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    Written { replaced: bool },
    Failed,
    Late,
}

impl Pipeline {
    /// Writes a metadata file, and retries until it is there or the store is closed. Errors at once if
    /// another file has its name and must not be replaced: the name holds a fresh UUID, so something else
    /// writes into the warehouse. Returns whether a file was replaced.
    pub(super) async fn publish(&self, file: &MetadataFile, if_taken: IfTaken) -> Result<bool> {
        let MetadataFile { warehouse, location, text } = file;
        let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
        let mut space = None;
        loop {
            let objects = self.objects();
            let written = match metadata_file::create(&objects, *warehouse, location, text).await {
                Err(objects::Error::Taken(_)) if if_taken == IfTaken::Replace => {
                    metadata_file::replace(&objects, *warehouse, location, text)
                        .await
                        .map(|()| true)
                }
                created => created.map(|()| false),
            };
            match written {
                Ok(replaced) => return Ok(replaced),
                Err(error @ objects::Error::Taken(_)) => {
                    tracing::error!(location, %error, "cannot publish metadata");
                    return Err(Error::unknown(error));
                }
                Err(error) if self.store.check_open().is_err() => {
                    tracing::warn!(location, %error, "publication is left to the next start");
                    return Err(Error::unknown(error));
                }
                Err(error) => {
                    tracing::warn!(location, %error, "metadata file not written: retrying");
                    let is_full = matches!(error, objects::Error::Full { .. });
                    let wait = || self.space.wait(*warehouse, error.to_string());
                    space = is_full.then(|| space.unwrap_or_else(wait));
                }
            }
            backoff.wait().await;
        }
    }

    fn objects(&self) -> Objects {
        self.warehouses.served().objects.clone()
    }

    /// Finishes the publications that an earlier process left, of one warehouse if one is given: writes each
    /// file from its record, and removes the marker. An existing file of that name with another content is
    /// damaged, since its name holds a UUID that this catalog chose: it is replaced. Publications of a
    /// warehouse that is not configured stay. If the store of a warehouse does not take a file within
    /// `patience`, its files are retried in the background, and requests for their tables return 503 until
    /// then.
    pub(crate) async fn finish_publications(
        self: &Arc<Self>,
        warehouse: Option<Uuid>,
        patience: Duration,
        progress: &Progress,
    ) -> Result<FinishedPublications> {
        let store = self.store.latest();
        let markers =
            store.scan::<PublicationKey>(&Range::prefix([space::PUBLICATIONS]), None).await?;
        let mut outcome = FinishedPublications::default();
        // Warehouses whose patience is used up.
        let mut late = HashSet::new();
        let phase = progress.phase("publishing metadata files", Some(markers.len() as u64));
        for (key, marker) in &markers {
            phase.advance(1);
            let record = store.get(&TabularKey(key.id)).await?;
            if warehouse.is_some() && record.as_ref().map(|record| record.warehouse) != warehouse {
                continue;
            }
            // A marker behind its record's version landed before that version was begun.
            if let Some(record) = record
                && record.version == key.version
                && let Some(document) = store.document(key.id).await?
            {
                let location = marker.metadata_location.clone();
                if let Err(error) = self.objects().check(record.warehouse, &location) {
                    tracing::error!(location, %error, "publication waits for its warehouse");
                    outcome.unfinished.push(location);
                    continue;
                }
                let warehouse = record.warehouse;
                let file = MetadataFile { warehouse, location, text: document.text };
                let at_most = if late.contains(&warehouse) { Duration::ZERO } else { patience };
                let finish = self.finish_publication(*key, file, at_most).await?;
                if finish == Finish::Late {
                    late.insert(warehouse);
                }
                outcome.add(finish, &marker.metadata_location);
                continue;
            }
            self.store.landed(*key);
            outcome.finished += 1;
        }
        self.store.check_open()?;
        if !markers.is_empty() {
            self.forget_landed().await?;
        }
        Ok(outcome)
    }

    /// Carries one publication to its end, and waits for that at most `at_most`.
    async fn finish_publication(
        self: &Arc<Self>,
        key: PublicationKey,
        file: MetadataFile,
        at_most: Duration,
    ) -> Result<Finish> {
        // As with a change that is made now: no reader gets the version before its file is there, and no
        // later version is begun.
        let pending = self.pending.register(vec![key]);
        let lanes = self.lanes.enter(vec![key.id]).await?;
        let (pipeline, location) = (Arc::clone(self), file.location.clone());
        let publishing = tokio::spawn(async move {
            let published = pipeline.publish(&file, IfTaken::Replace).await;
            if published.is_ok() {
                pipeline.store.landed(key);
            }
            drop((pending, lanes));
            published.map_or(Finish::Failed, |replaced| Finish::Written { replaced })
        });
        match tokio::time::timeout(at_most, publishing).await {
            Ok(Ok(finish)) => Ok(finish),
            Ok(Err(stopped)) => Err(Error::unknown(stopped)),
            Err(_) => {
                let seconds = at_most.as_secs();
                tracing::error!(
                    location,
                    seconds,
                    "the store of a warehouse rejected a metadata file of an earlier run: the other tables are \
                     served, this one after the file is written"
                );
                Ok(Finish::Late)
            }
        }
    }

    /// Removes the markers of complete publications from the store, which the next change would do otherwise.
    pub(crate) async fn forget_landed(&self) -> Result<()> {
        let permit = Permit::for_task(Task::Publication);
        let ((), accepted) =
            self.store.transact("forget_landed", &permit, |_| async { Ok::<_, Error>(()) }).await?;
        Ok(accepted.durable().await?)
    }
}

impl FinishedPublications {
    fn add(&mut self, finish: Finish, location: &str) {
        match finish {
            Finish::Written { replaced } => {
                self.finished += 1;
                self.replaced.extend(replaced.then(|| location.to_owned()));
            }
            Finish::Failed | Finish::Late => self.unfinished.push(location.to_owned()),
        }
    }
}

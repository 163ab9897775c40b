//! Publications: getting a new metadata file into the warehouse while the log becomes durable.
//!
//! A commit that was accepted is carried to its end whatever happens to the object store: its lane
//! stays entered until both the log and the file are there, however long that takes. The caller waits
//! for a bounded time and is then told that the outcome is unknown. Nothing is deleted.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::carried::carried;
use super::flights::Flight;
use super::lanes::Entered;
use super::{Catalog, Error, Result};
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::progress::Progress;
use slateberg_base::retry::Backoff;
use slateberg_model::text::Text;
use slateberg_objects::{self as objects, metadata_file};
use slateberg_store::keys::{PublicationKey, TabularKey, space};
use slateberg_store::read::{Range, Read};
use slateberg_store::txn::Accepted;
use slateberg_telemetry::commits::{CommitMetrics, Phase};
use slateberg_telemetry::traces::{Span, Trace};

/// The first wait before a metadata file is tried again, and the longest.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(50);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

/// A metadata file that is to be written.
#[derive(Debug, Clone)]
pub struct MetadataFile {
    /// The warehouse that it belongs to.
    pub warehouse: Uuid,
    /// Where it goes.
    pub location: String,
    /// Its text.
    pub text: Text,
}

/// Everything that has to be there before an accepted change may be told.
pub struct Landing {
    /// The accepted transaction.
    pub accepted: Accepted,
    /// The files that it promises.
    pub files: Vec<MetadataFile>,
    /// The versions that are on their way.
    pub flight: Flight,
    /// The lanes that stay entered until then.
    pub lanes: Entered,
    /// Where in the trace of a request it is.
    pub trace: Trace,
}

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

/// What is done where a metadata file has another content already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfTaken {
    Fail,
    Replace,
}

/// How the wait for a publication ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    Written { replaced: bool },
    Failed,
    Late,
}

/// A part of a commit that is under way. It ends when this is dropped.
#[must_use = "a part of a commit ends when this is dropped"]
pub(super) struct Part {
    metrics: Arc<CommitMetrics>,
    phase: Phase,
    began: Instant,
    _span: Span,
}

impl Drop for Part {
    fn drop(&mut self) {
        self.metrics.phase(self.phase, self.began);
    }
}

impl Catalog {
    /// Carries an accepted change to its end, and waits for that: for a bounded time, after which the
    /// outcome is unknown to the caller, and the change is carried on all the same. Whoever waited to the
    /// end gets the lanes back, to leave them.
    pub(super) async fn land(&self, landing: Landing) -> Result<Entered> {
        let catalog = self.clone();
        let landed = async move {
            let Landing { accepted, files, flight, lanes, trace } = landing;
            let durable = async {
                let _part = catalog.phase(&trace, Phase::Wal);
                accepted.durable().await
            };
            let (publishing, at) = (&catalog, &trace);
            let published = files.iter().map(|file| async move {
                let _part = publishing.phase(at, Phase::Metadata);
                publishing.publish(file, IfTaken::Fail).await
            });
            let (durable, published) = tokio::join!(durable, futures::future::join_all(published));
            durable?;
            published.into_iter().collect::<Result<Vec<_>>>()?;
            for key in flight.keys() {
                catalog.store().landed(*key);
            }
            drop(flight);
            Ok(lanes)
        };
        let late = "the commit has not landed within its deadline";
        carried(self.settings().commit_deadline(), late, landed).await
    }

    /// Begins a part of a commit.
    pub(super) fn phase(&self, trace: &Trace, phase: Phase) -> Part {
        let metrics = Arc::clone(&self.inner.commits);
        let span = trace.span(phase.span());
        Part { metrics, phase, began: Instant::now(), _span: span }
    }

    /// Writes a metadata file, and retries until it is there or the store is closed. Errors at once if
    /// another file has its name and must not be replaced: the name holds a fresh UUID, so something else
    /// writes into the warehouse. Returns whether a file was replaced.
    async fn publish(&self, file: &MetadataFile, if_taken: IfTaken) -> Result<bool> {
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
                Err(error) if self.store().check_open().is_err() => {
                    tracing::warn!(location, %error, "publication is left to the next start");
                    return Err(Error::unknown(error));
                }
                Err(error) => {
                    tracing::warn!(location, %error, "metadata file not written: retrying");
                    let is_full = matches!(error, objects::Error::Full { .. });
                    let wait = || self.inner.space.wait(*warehouse, error.to_string());
                    space = is_full.then(|| space.unwrap_or_else(wait));
                }
            }
            backoff.wait().await;
        }
    }

    /// Finishes the publications that an earlier process left: writes each file from its record, and removes
    /// the marker. A file of that name with another content is damaged, since the record is the truth and
    /// its name holds a UUID that this catalog chose: it is replaced. Publications of a warehouse that is no
    /// longer configured stay. A warehouse whose store does not take a file within `patience` is waited for
    /// no longer: its files are retried beside the requests, and requests for their tables return 503 until
    /// then.
    pub async fn finish_publications(
        &self,
        patience: Duration,
        progress: &Progress,
    ) -> Result<FinishedPublications> {
        self.finish_publications_of(None, patience, progress).await
    }

    /// The same for one warehouse alone, if there is one.
    pub(super) async fn finish_publications_of(
        &self,
        warehouse: Option<Uuid>,
        patience: Duration,
        progress: &Progress,
    ) -> Result<FinishedPublications> {
        let store = self.store().latest();
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
            self.store().landed(*key);
            outcome.finished += 1;
        }
        self.check_open()?;
        if !markers.is_empty() {
            self.forget_landed().await?;
        }
        Ok(outcome)
    }

    /// Carries one publication to its end, and waits for that at most `at_most`.
    async fn finish_publication(
        &self,
        key: PublicationKey,
        file: MetadataFile,
        at_most: Duration,
    ) -> Result<Finish> {
        // As with a change that is made now: no reader gets the version before its file is there, and no
        // later version is begun.
        let flight = self.inner.flights.register(vec![key]);
        let lanes = self.inner.lanes.enter(vec![key.id]).await?;
        let (catalog, location) = (self.clone(), file.location.clone());
        let publishing = tokio::spawn(async move {
            let published = catalog.publish(&file, IfTaken::Replace).await;
            if published.is_ok() {
                catalog.store().landed(key);
            }
            drop((flight, lanes));
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

    /// Takes the markers of landed publications out of the store, should no other batch come along.
    pub async fn forget_landed(&self) -> Result<()> {
        let permit = Permit::for_task(Task::Publication);
        let ((), accepted) = self
            .store()
            .transact("forget_landed", &permit, |_| async { Ok::<_, Error>(()) })
            .await?;
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

//! [`Pipeline`]: executes all changes that requests make to the catalog.
//!
//! 1. A mutation runs detached from its request, so it continues if the client disconnects. It runs
//!    at most once for each `Idempotency-Key` ([`request`]).
//! 2. It enters the lanes of the tables and views that it changes ([`lanes`]). The caller's
//!    permissions are checked. The mutation is evaluated outside of any transaction, against the
//!    accepted state (the state after all committed transactions, durable or not).
//! 3. One serializable transaction checks that the state is still the same. It writes the changed
//!    records, the entries of the change log, and the responses for repeated `Idempotency-Key`s
//!    ([`records`]). It also writes a marker for each metadata file that must be published.
//! 4. The metadata files are written while the write-ahead log becomes durable ([`publications`]).
//!    The mutation stays in its lanes until the files exist and the write-ahead log is durable.
//!    Files on a local file system are synced later, many of them together ([`file_sync`]).
//! 5. The caller gets the response. If step 4 takes longer than
//!    [`commit_deadline`](crate::settings::Settings::commit_deadline), the caller gets an error
//!    that reports an unknown outcome, and step 4 continues.
//!
//! Steps 3 to 5 are [`Pipeline::commit`] and [`Pipeline::commit_if_current`]. The store accepts a
//! transaction of a request only with [`RequestRecords`], so no change can omit the change log.

pub(crate) mod file;
mod file_sync;
pub(crate) mod idempotency;
pub(crate) mod lanes;
pub(crate) mod pending;
pub(crate) mod publications;
pub(crate) mod records;
pub(crate) mod request;
pub(crate) mod response;
mod sync_queue;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{Instrument, Span};

use self::file::{WarehouseFile, WriteMode};
use self::lanes::{LaneGuard, Lanes};
use self::pending::{PendingPublication, PendingPublications};
use self::sync_queue::{Room, SyncQueue};
use super::detached::detached;
use super::disk_space::DiskSpace;
use super::version_cache::{CachedVersion, VersionCache};
use super::warehouses::registry::WarehouseRegistry;
use super::{Error, Result};
use slateberg_authz::action::Action;
use slateberg_authz::permit::Permit;
use slateberg_base::clock::Clock;
use slateberg_store::keys::PublicationKey;
use slateberg_store::records::ChangeAction;
use slateberg_store::txn::{AcceptedTransaction, RequestRecords, Transaction};
use slateberg_store::{self as store, Store};
use slateberg_telemetry::commits::{CommitMetrics, CommitPhase};

/// The commit pipeline, with the state that all changes of the catalog share.
pub(crate) struct Pipeline {
    store: Store,
    warehouses: Arc<WarehouseRegistry>,
    /// One lane for each table or view that is being changed.
    pub(crate) lanes: Lanes,
    /// One lane for each `Idempotency-Key` in progress.
    request_lanes: Lanes,
    pub(crate) pending: PendingPublications,
    pub(crate) versions: VersionCache,
    pub(crate) space: DiskSpace,
    sync_queue: SyncQueue,
    /// Whether jobs delete files. They do not in a clone.
    deletes_files: bool,
    pub(crate) metrics: Arc<CommitMetrics>,
    clock: Arc<dyn Clock>,
    deadline: Duration,
    idempotency_lifetime: Duration,
}

/// Arguments of [`Pipeline::new`].
pub(crate) struct PipelineParts<'a> {
    pub(crate) store: Store,
    pub(crate) warehouses: Arc<WarehouseRegistry>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: &'a super::settings::Settings,
    pub(crate) deletes_files: bool,
}

/// A change that was evaluated in its lanes and can be written.
pub(crate) struct Write<'a, A: Action> {
    /// Kind of the change. The name of the transaction in logs and metrics.
    pub(crate) action: ChangeAction,
    /// The permit of the request.
    pub(crate) permit: &'a Permit<A>,
    /// The lanes of the tables and views that the change has entered.
    pub(crate) lanes: LaneGuard,
    /// The versions of tables and views that the change writes.
    pub(crate) versions: Vec<NewFile>,
}

/// A version of a table or view that a change writes.
pub(crate) struct NewFile {
    /// The version.
    pub(crate) key: PublicationKey,
    /// The metadata file of the version and its manifest lists, without files that already exist.
    pub(crate) files: Vec<WarehouseFile>,
    /// The version for the cache. `None` if the metadata was not parsed.
    pub(crate) cached: Option<CachedVersion>,
}

/// A change that is durable, with its metadata files in the warehouse.
pub(crate) struct Committed<T> {
    /// The value that the transaction returned.
    pub(crate) value: T,
    /// The lanes of the changed tables and views. Dropping the guard leaves these lanes.
    pub(crate) lanes: LaneGuard,
}

/// An accepted change that is not complete yet.
struct PendingCommit {
    accepted: AcceptedTransaction,
    files: Vec<(PublicationKey, WarehouseFile)>,
    pending: PendingPublication,
    lanes: LaneGuard,
    /// Room for the metadata files, until they are synced.
    room: Option<Room>,
}

/// Reason why a transaction was not written.
enum NotWritten {
    /// The state has changed since the change was evaluated.
    Stale,
    Failed(Error),
}

impl From<store::Error> for NotWritten {
    fn from(error: store::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl<'a, A: Action> Write<'a, A> {
    /// Creates a change of records for which there is neither a lane nor a metadata file.
    pub(crate) fn of_records(action: ChangeAction, permit: &'a Permit<A>) -> Self {
        Self { action, permit, lanes: LaneGuard::default(), versions: Vec::new() }
    }
}

impl Pipeline {
    pub(crate) fn new(parts: PipelineParts<'_>) -> Self {
        let PipelineParts { store, warehouses, clock, settings, deletes_files } = parts;
        let deadline = settings.commit_deadline();
        let lanes = || Lanes::new(settings.commit_lane_depth_max, deadline);
        Self {
            store,
            warehouses,
            lanes: lanes(),
            request_lanes: lanes(),
            pending: PendingPublications::default(),
            versions: VersionCache::new(settings.version_cache_bytes()),
            space: DiskSpace::default(),
            sync_queue: SyncQueue::default(),
            deletes_files,
            metrics: Arc::default(),
            clock,
            deadline,
            idempotency_lifetime: settings.idempotency_lifetime(),
        }
    }

    /// Writes a change, and waits until the change is durable and its metadata files are published.
    ///
    /// # Errors
    /// Returns the errors of `work` and of the store. Returns [`Error::CommitStateUnknown`] if the
    /// change is not complete within the deadline; its completion continues in the background.
    pub(crate) async fn commit<A, T, F, W>(
        self: &Arc<Self>,
        write: Write<'_, A>,
        work: W,
    ) -> Result<T>
    where
        A: Action,
        F: Future<Output = Result<(T, RequestRecords)>> + Send,
        W: Fn(Arc<Transaction>) -> F + Send,
    {
        let work = move |t| {
            let working = work(t);
            async move { working.await.map(Some) }
        };
        let committed = self.commit_if_current(write, work).await?;
        let unwritten = || {
            Error::internal(
                "the pipeline reported a change as stale, although this change cannot be stale",
            )
        };
        committed.map(|committed| committed.value).ok_or_else(unwritten)
    }

    /// Writes a change like [`commit`](Self::commit), but only if the state is still the one on
    /// which the change was evaluated. Otherwise, `work` returns `None`, nothing is written, and
    /// this function also returns `None`.
    ///
    /// # Errors
    /// See [`commit`](Self::commit).
    pub(crate) async fn commit_if_current<A, T, F, W>(
        self: &Arc<Self>,
        write: Write<'_, A>,
        work: W,
    ) -> Result<Option<Committed<T>>>
    where
        A: Action,
        F: Future<Output = Result<Option<(T, RequestRecords)>>> + Send,
        W: Fn(Arc<Transaction>) -> F + Send,
    {
        let Write { action, permit, lanes, versions } = write;
        let room = self.room(&versions).await?;
        // The versions are registered before the transaction, because no reader may get a version
        // whose metadata file is missing.
        let pending = self.pending.register(versions.iter().map(|version| version.key).collect());
        let applying = self.phase(CommitPhase::Apply);
        let work = move |t| {
            let working = work(t);
            async move { working.await.map_err(NotWritten::Failed)?.ok_or(NotWritten::Stale) }
        };
        let written = self.store.transact_for_request(action.as_str(), permit, work).await;
        drop(applying);
        let (value, accepted) = match written {
            Ok(written) => written,
            Err(NotWritten::Stale) => return Ok(None),
            Err(NotWritten::Failed(error)) => return Err(error),
        };
        let mut files = Vec::new();
        for NewFile { key, files: new, cached } in versions {
            if let Some(cached) = cached {
                self.versions.insert((key.id, key.version), cached);
            }
            files.extend(new.into_iter().map(|file| (key, file)));
        }
        let commit = PendingCommit { accepted, files, pending, lanes, room };
        let lanes = self.complete(commit).await?;
        Ok(Some(Committed { value, lanes }))
    }

    /// Completes an accepted change and returns its lanes. If this takes longer than the deadline,
    /// returns `CommitStateUnknown`, and the completion continues.
    async fn complete(self: &Arc<Self>, commit: PendingCommit) -> Result<LaneGuard> {
        let pipeline = Arc::clone(self);
        let completing = async move {
            let PendingCommit { accepted, files, pending, lanes, room } = commit;
            let durable = async {
                let phase = pipeline.phase(CommitPhase::Wal);
                accepted.durable().instrument(phase.span()).await
            };
            let publishing = &pipeline;
            let published = files.iter().map(|(_, file)| async move {
                let phase = publishing.phase(CommitPhase::Metadata);
                publishing.publish(file, WriteMode::Create).instrument(phase.span()).await
            });
            let (durable, published) = tokio::join!(durable, futures::future::join_all(published));
            durable?;
            let complete =
                pipeline.complete_published(pending.keys(), &files, published, room.as_ref());
            drop(pending);
            complete.map(|()| lanes)
        };
        let late = "the change was not complete within the deadline";
        detached(self.deadline, late, completing).await
    }

    /// Starts the timer of a phase, which ends when the returned value is dropped.
    pub(crate) fn phase(&self, phase: CommitPhase) -> PhaseTimer {
        let metrics = Arc::clone(&self.metrics);
        PhaseTimer { metrics, phase, began: Instant::now(), span: phase.span() }
    }
}

/// A phase of a commit in progress.
#[must_use = "a phase of a commit ends when this is dropped"]
pub(crate) struct PhaseTimer {
    metrics: Arc<CommitMetrics>,
    phase: CommitPhase,
    began: Instant,
    span: Span,
}

impl PhaseTimer {
    /// Returns the span of the phase, to instrument a future of this phase.
    fn span(&self) -> Span {
        self.span.clone()
    }
}

impl Drop for PhaseTimer {
    fn drop(&mut self) {
        self.metrics.phase(self.phase, self.began);
    }
}

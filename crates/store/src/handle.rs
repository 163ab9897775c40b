//! [`Store`]: the handle of the open store.

use std::sync::{Arc, Mutex, PoisonError};

use slatedb::config::{CloseOptions, FlushType};
use slatedb::{CloseReason, Db};
use tokio::sync::watch;
use uuid::Uuid;

use super::block_cache::BlockCaches;
use super::cache_eviction::CacheEviction;
use super::change_feed::ChangeFeed;
use super::encryption::UnlockedKeys;
use super::error::Error;
use super::flusher::Flusher;
use super::location::StoreLocation;
use super::metrics::Metrics;
use super::record_cache::RecordCache;
use super::records::PublicationKey;
use super::replication::Replication;
use super::settings::Settings;
use super::status::Status;
use super::unsynced::{UnsyncedFiles, UnsyncedVersion};
use slateberg_base::boxed;
use slateberg_telemetry::audit::AuditLog;
use slateberg_telemetry::cache::CacheUsage;
use slateberg_telemetry::collection::Collection;
use slateberg_wal::JournalLock;

/// The open store. This process is its only writer. A [replica](super::replica) has the only writer
/// of its private copy. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(super) db: Db,
    pub(super) shared: Arc<Shared>,
    pub(super) audit: Arc<AuditLog>,
}

/// State that all clones of a [`Store`] share.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) changes: Arc<ChangeFeed>,
    /// Rows for replicas.
    pub(super) replication: Arc<Replication>,
    /// Whether this is a replica, which accepts no transactions.
    pub(super) is_replica: bool,
    pub(super) published_markers: PublishedMarkers,
    pub(super) unsynced: Arc<UnsyncedFiles>,
    pub(super) flusher: Flusher,
    pub(super) status: Status,
    pub(super) record_cache: RecordCache,
    /// Location of the store, with encryption and decryption if the store is encrypted.
    pub(super) location: StoreLocation,
    pub(super) metrics: Metrics,
    pub(super) caches: BlockCaches,
    pub(super) _eviction: CacheEviction,
    /// Keys of an encrypted store.
    pub(super) unlocked: Option<UnlockedKeys>,
    /// Lock that serializes the creations and deletions of checkpoints.
    pub(super) checkpointing: tokio::sync::Mutex<()>,
    /// The lock of the journal, which is held until the store is closed.
    pub(super) journal: Mutex<Option<JournalLock>>,
}

/// Markers of completed publications. The next transaction removes them.
#[derive(Default)]
pub(super) struct PublishedMarkers(Mutex<Vec<PublicationKey>>);

impl PublishedMarkers {
    pub(super) fn add(&self, key: PublicationKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(key);
    }

    pub(super) fn take(&self) -> Vec<PublicationKey> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn put_back(&self, keys: Vec<PublicationKey>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(keys);
    }
}

impl Store {
    /// Returns the store with an audit log, to which the store writes all its changes.
    #[must_use]
    pub fn with_audit_log(self, audit: Arc<AuditLog>) -> Self {
        Self { audit, ..self }
    }

    /// Returns the audit log.
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// Returns the usage of the record cache.
    pub fn record_cache_usage(&self) -> CacheUsage {
        self.shared.record_cache.record_usage()
    }

    /// Returns the usage of the page cache.
    pub fn page_cache_usage(&self) -> CacheUsage {
        self.shared.record_cache.page_usage()
    }

    /// Returns the number of requests to the record cache and the page cache so far.
    pub fn cache_requests(&self) -> u64 {
        let usages = [self.record_cache_usage(), self.page_cache_usage()];
        usages.iter().map(|usage| usage.hits + usage.misses).sum()
    }

    /// Empties the caches of records, pages and blocks, and in a local directory that of indexes and
    /// filters. In a bucket, these stay, because every read needs some of them.
    pub fn clear_caches(&self) {
        let Shared { record_cache, caches, location, .. } = &*self.shared;
        record_cache.clear();
        caches.clear_blocks();
        if location.is_local() {
            caches.clear_meta();
        }
    }

    /// Reports the metrics.
    pub fn collect(&self, into: &mut Collection) {
        self.shared.metrics.collect(into);
        self.shared.unsynced.collect(into);
        self.shared.caches.collect(into);
        self.shared.location.storage.collect(into);
        self.record_cache_usage().collect(into, "record", "Names and small records");
        self.page_cache_usage().collect(into, "page", "Pages of names");
    }

    /// Registers a version whose metadata file is written but not synced.
    pub fn register_unsynced(&self, key: PublicationKey) -> UnsyncedVersion {
        self.shared.unsynced.register(key)
    }

    /// Returns a receiver that is notified when a transaction waits for a sync of metadata files.
    pub fn sync_needed(&self) -> watch::Receiver<()> {
        self.shared.unsynced.needed()
    }

    /// Notifies the receivers of [`Store::sync_needed`].
    pub fn request_sync(&self) {
        self.shared.unsynced.request_sync();
    }

    /// Whether a table or view has metadata files that are not synced.
    pub fn has_unsynced_files(&self, id: Uuid) -> bool {
        self.shared.unsynced.contains(id)
    }

    /// Waits until all metadata files of a table or view are synced.
    #[boxed]
    pub async fn wait_synced(&self, id: Uuid) -> Result<(), Error> {
        self.shared.unsynced.wait_synced(id).await
    }

    /// Errors if the store currently rejects writes.
    pub fn check_writable(&self) -> Result<(), Error> {
        Ok(self.shared.location.storage.journal().check_writable()?)
    }

    /// Stops waiting for disk space, because the store will be closed.
    pub fn give_up_on_space(&self) {
        self.shared.location.storage.give_up_on_space();
    }

    /// Errors if the store is closed.
    pub fn check_open(&self) -> Result<(), Error> {
        self.shared.status.close_reason().map_or(Ok(()), |reason| Err(closed(Some(reason))))
    }

    /// Waits until the store is closed for any reason. Returns the reason.
    #[boxed]
    pub async fn wait_closed(&self) -> Error {
        closed(self.shared.status.closed().await)
    }

    /// Flushes the memtable to a file of level 0, so that the next start has little to replay.
    #[boxed]
    pub async fn flush(&self) -> Result<(), Error> {
        let options = slatedb::config::FlushOptions { flush_type: FlushType::MemTable };
        Ok(self.db.flush_with_options(options).await?)
    }

    /// Closes the store cleanly: after success, everything that was accepted is durable. Errors if
    /// the store failed before this call. In that case, the newest records are only in its log.
    #[boxed]
    pub async fn close(&self) -> Result<(), Error> {
        self.give_up_on_space();
        let closed = close_in_order(&self.db).await;
        // Nothing is written after this line, even if the close failed. Therefore, the lock of the
        // directory can be released.
        let journal = self.shared.journal.lock().unwrap_or_else(PoisonError::into_inner).take();
        closed?;
        // The journal is deleted, unless a checkpoint that SlateDB created for its own use may need
        // it.
        if let Some(journal) = journal
            && !self.is_log_pinned()
            && let Err(error) = journal.discard(self.db.manifest().replay_after_wal_id())
        {
            tracing::warn!(%error, "failed to delete the journal: the next start replays it");
        }
        Ok(())
    }
}

/// Returns the error of a store that is closed for this reason.
fn closed(reason: Option<CloseReason>) -> Error {
    match reason {
        Some(CloseReason::Fenced) => Error::Fenced,
        _ => Error::Closed,
    }
}

/// Closes the store with all records in sorted runs, so that the log is not needed. The log may be
/// deleted only if this succeeds. SlateDB's own result is not enough: if the database has failed,
/// SlateDB writes nothing but still reports success.
pub(super) async fn close_in_order(db: &Db) -> Result<(), Error> {
    let options = CloseOptions { flush_type: Some(FlushType::MemTable) };
    let closed = db.close_with_options(options).await;
    // The database may have failed at any moment before this call. The status contains the first
    // reason why it was closed.
    match db.status().close_reason {
        Some(CloseReason::Clean) => Ok(closed?),
        Some(CloseReason::Fenced) => Err(Error::Fenced),
        _ => Err(Error::Failed),
    }
}

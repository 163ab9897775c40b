//! The open store, as all of its users share it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use slatedb::config::{CloseOptions, FlushType};
use slatedb::{CloseReason, Db};

use super::block_cache::BlockCaches;
use super::encryption::Unlocked;
use super::error::Error;
use super::flusher::Flusher;
use super::location::Place;
use super::metrics::Metrics;
use super::recent::Recent;
use super::records::PublicationKey;
use super::settings::Settings;
use slateberg_telemetry::audit::AuditLog;
use slateberg_telemetry::cache::CacheUsage;
use slateberg_telemetry::collection::Collection;
use slateberg_wal::Hold;

/// The open store: one writer. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(super) db: Db,
    pub(super) shared: Arc<Shared>,
    pub(super) audit: Arc<AuditLog>,
}

/// What all clones of a [`Store`] have in common.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) next_change: AtomicU64,
    pub(super) landed: Landed,
    pub(super) flusher: Flusher,
    pub(super) recent: Recent,
    /// Where the store is, read and written through its keys if it is encrypted.
    pub(super) place: Place,
    pub(super) metrics: Metrics,
    pub(super) caches: BlockCaches,
    /// The keys, if the store is encrypted.
    pub(super) unlocked: Option<Unlocked>,
    /// Held by whoever makes or deletes a checkpoint.
    pub(super) checkpointing: tokio::sync::Mutex<()>,
    /// Keeps the journal ours until the store is closed.
    pub(super) journal: Mutex<Option<Hold>>,
}

/// Markers of publications that have landed and wait for a batch to take them along.
#[derive(Default)]
pub(super) struct Landed(Mutex<Vec<PublicationKey>>);

impl Landed {
    pub(super) fn add(&self, key: PublicationKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(key);
    }

    pub(super) fn take(&self) -> Vec<PublicationKey> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn give_back(&self, keys: Vec<PublicationKey>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(keys);
    }
}

impl Store {
    /// The same store, whose changes are told to this audit log, too.
    #[must_use]
    pub fn audited(self, audit: Arc<AuditLog>) -> Self {
        Self { audit, ..self }
    }

    /// The audit log.
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// The sequence number that the next entry of the change log will get.
    pub fn next_change(&self) -> u64 {
        self.shared.next_change.load(Ordering::Relaxed)
    }

    /// How the records that are kept in process are used.
    pub fn record_cache_usage(&self) -> CacheUsage {
        self.shared.recent.record_usage()
    }

    /// How the pages of names that are kept in process are used.
    pub fn page_cache_usage(&self) -> CacheUsage {
        self.shared.recent.page_usage()
    }

    /// Reports what is measured.
    pub fn collect(&self, into: &mut Collection) {
        self.shared.metrics.collect(into);
        self.shared.caches.collect(into);
        self.shared.place.storage.collect(into);
        self.record_cache_usage().collect(into, "record", "Names and small records");
        self.page_cache_usage().collect(into, "page", "Pages of names");
    }

    /// Whether the store accepts writes at this moment, or why not.
    pub fn check_writable(&self) -> Result<(), Error> {
        Ok(self.shared.place.storage.journal().check_writable()?)
    }

    /// From now on, what fails for want of space is waited for no longer: the store is about to be closed.
    pub fn give_up_on_space(&self) {
        self.shared.place.storage.give_up_on_space();
    }

    /// Whether the store still answers, or why not.
    pub fn check_open(&self) -> Result<(), Error> {
        match self.db.status().close_reason {
            None => Ok(()),
            Some(CloseReason::Fenced) => Err(Error::Fenced),
            Some(_) => Err(Error::Closed),
        }
    }

    /// Returns when the store has shut, whoever shut it.
    pub async fn closed(&self) -> Error {
        let mut status = self.db.subscribe();
        loop {
            if let Err(error) = self.check_open() {
                return error;
            }
            if status.changed().await.is_err() {
                return Error::Closed;
            }
        }
    }

    /// Turns the log into a file of level 0, so that the next open has little to replay.
    pub async fn flush(&self) -> Result<(), Error> {
        let options = slatedb::config::FlushOptions { flush_type: FlushType::MemTable };
        Ok(self.db.flush_with_options(options).await?)
    }

    /// Closes the store in order: everything accepted is durable before this returns. One that has failed
    /// is closed as well, and says so: its log keeps what it holds.
    pub async fn close(&self) -> Result<(), Error> {
        self.give_up_on_space();
        let closed = close_in_order(&self.db).await;
        // Whatever became of it, nothing writes any more, and the directory is free.
        let journal = self.shared.journal.lock().unwrap_or_else(PoisonError::into_inner).take();
        closed?;
        // Checkpoints that are not ours may need what stands in the journal.
        if let Some(journal) = journal
            && !self.is_log_pinned()
            && let Err(error) = journal.discard(self.db.manifest().replay_after_wal_id())
        {
            tracing::warn!(%error, "the journal is left to the next start");
        }
        Ok(())
    }
}

/// Closes with everything in sorted runs, and nothing left in the log that is needed. Only what this has
/// closed may lose its log: a database that has failed writes nothing at its end, and SlateDB calls that a
/// success.
pub(super) async fn close_in_order(db: &Db) -> Result<(), Error> {
    let options = CloseOptions { flush_type: Some(FlushType::MemTable) };
    let closed = db.close_with_options(options).await;
    // It may have failed at any moment until it was told to close: the first reason stands.
    match db.status().close_reason {
        Some(CloseReason::Clean) => Ok(closed?),
        Some(CloseReason::Fenced) => Err(Error::Fenced),
        _ => Err(Error::Failed),
    }
}

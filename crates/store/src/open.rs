//! Opening the store, and closing it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use slatedb::config::{CloseOptions, FlushType};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::{CloseReason, Db, IterationOrder};
use uuid::Uuid;

use super::block_cache::BlockCaches;
use super::builder::{How, builder};
use super::encryption::{Encryption, Missing, Unlocked, explained, unlock};
use super::error::Error;
use super::files;
use super::flusher::Flusher;
use super::key_space::KeySpace;
use super::keys::{ChangeKey, Key, PublicationKey, StoreKey, WarehouseKey};
use super::loss;
use super::metrics::Metrics;
use super::read::{Durable, Latest, Read};
use super::recent::Recent;
use super::records::{StoreFormat, WarehouseRecord};
use super::separate_log::{self, Log};
use super::settings::Settings;
use super::storage::Storage;
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::Permit;
use slateberg_kms as kms;
use slateberg_telemetry::audit::AuditLog;
use slateberg_telemetry::cache::CacheUsage;
use slateberg_telemetry::collection::Collection;
use slateberg_wal::{self as journal, Hold, Journal};

/// Where the store is.
#[derive(Clone)]
pub struct Place {
    /// The bucket or directory.
    pub object_store: Arc<dyn ObjectStore>,
    /// The path below its root.
    pub path: String,
    /// Whether the object store can replace an object on the condition that it is unchanged (`If-Match`).
    pub conditional_update: bool,
    /// The directory on this machine that it is, if it is one: its log goes to a journal then.
    pub directory: Option<PathBuf>,
    /// Where its log is, if that is another object store.
    pub log: Option<Log>,
    /// With what the store is encrypted; none for a plain one.
    pub encryption: Option<Encryption>,
    /// Records what fails there.
    pub storage: Storage,
}

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
    caches: BlockCaches,
    /// The keys, if the store is encrypted.
    pub(super) unlocked: Option<Unlocked>,
    /// Held by whoever makes or deletes a checkpoint.
    pub(super) checkpointing: tokio::sync::Mutex<()>,
    /// Keeps the journal ours until the store is closed.
    journal: Mutex<Option<Hold>>,
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
    /// Opens the store for writing. Any other process that has it open is fenced; one that has it open
    /// in a local directory makes this fail.
    pub async fn open(place: &Place, settings: Settings) -> Result<Self, Error> {
        let (metrics, caches) = (Metrics::default(), BlockCaches::new(&settings));
        let (db, place, unlocked, journal) = match &place.directory {
            None => {
                let (db, place, unlocked) =
                    open_bucket(place, &settings, &metrics, &caches).await?;
                (db, place, unlocked, None)
            }
            Some(directory) => {
                // The lock of the journal is the ring's lock, too.
                let journal = Journal::open(directory)?;
                let (plain, (place, unlocked)) = (place, unlock(place, Missing::Found).await?);
                let how = How {
                    settings: &settings,
                    unlocked: unlocked.as_ref(),
                    metrics: &metrics,
                    caches: &caches,
                };
                let opened = open_directory(&place, how, journal);
                match opened.await {
                    Ok((db, hold)) => (db, place, unlocked, Some(hold)),
                    Err(error) => return Err(explained(plain, unlocked.as_ref(), error).await),
                }
            }
        };
        let shared = Shared {
            recent: Recent::new(&db, settings.record_cache_bytes, settings.page_cache_bytes),
            settings,
            next_change: AtomicU64::new(0),
            landed: Landed::default(),
            flusher: Flusher::start(db.clone(), metrics.clone()),
            metrics,
            caches,
            place,
            unlocked,
            checkpointing: tokio::sync::Mutex::default(),
            journal: Mutex::new(journal),
        };
        let store = Self { db, shared: Arc::new(shared), audit: Arc::default() };
        store.shared.next_change.store(store.first_free_change().await?, Ordering::Relaxed);
        Ok(store)
    }

    /// The same store, whose changes are told to this audit log, too.
    #[must_use]
    pub fn audited(self, audit: Arc<AuditLog>) -> Self {
        Self { audit, ..self }
    }

    /// The audit log.
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// The durable state.
    pub fn durable(&self) -> Durable<'_> {
        Durable { db: &self.db, shared: &self.shared }
    }

    /// The accepted state.
    pub fn latest(&self) -> Latest<'_> {
        Latest { db: &self.db, shared: &self.shared }
    }

    /// The format that the store has now; none if it is new.
    pub async fn format_version(&self) -> Result<Option<u32>, Error> {
        Ok(self.latest().get(&StoreKey).await?.map(|format| format.format_version))
    }

    /// Brings a new store into being, or refuses one that a newer binary has written. One that an older
    /// binary has written gets this binary's format: from now on, the older one would misread it.
    pub async fn ensure_format(
        &self,
        permit: &Permit<Maintain>,
        catalog_id: Uuid,
        now_ms: i64,
    ) -> Result<StoreFormat, Error> {
        let encrypted_id = self.encrypted_catalog();
        let catalog_id = encrypted_id.unwrap_or(catalog_id);
        let (format, accepted) = self
            .transact("ensure_format", permit, |t| async move {
                let known = t.get(&StoreKey).await?;
                let mut format = known.unwrap_or(StoreFormat {
                    format_version: 0,
                    catalog_id,
                    created_ms: now_ms,
                    clone_of: None,
                    timeline: None,
                });
                if self.shares_objects() && format.clone_of.is_none() {
                    return Err(Error::UnfinishedClone);
                }
                if format.format_version < format.newest() {
                    format.format_version = format.newest();
                    t.put(&StoreKey, &format)?;
                }
                Ok::<_, Error>(format)
            })
            .await?;
        accepted.durable().await?;
        format.check()?;
        if encrypted_id.is_some_and(|id| id != format.catalog_id) {
            let reason = format!("the store is that of catalog {}", format.catalog_id);
            return Err(Error::Encryption(kms::Error::Ring(reason)));
        }
        Ok(format)
    }

    /// Begins a timeline: the versions that come from now on are not those that came elsewhere after the same
    /// state.
    pub async fn begin_timeline(
        &self,
        permit: &Permit<Maintain>,
        timeline: Uuid,
    ) -> Result<(), Error> {
        let ((), accepted) = self
            .transact("begin_timeline", permit, |t| async move {
                if let Some(format) = t.get(&StoreKey).await? {
                    t.put(&StoreKey, &StoreFormat { timeline: Some(timeline), ..format })?;
                }
                Ok::<_, Error>(())
            })
            .await?;
        accepted.durable().await
    }

    /// The record of a configured warehouse, made if it is new, and taken over if it was made at run time.
    /// `id` becomes a new one's identity.
    pub async fn ensure_warehouse(
        &self,
        permit: &Permit<Maintain>,
        name: &str,
        location: &str,
        id: Uuid,
        now_ms: i64,
    ) -> Result<WarehouseRecord, Error> {
        let (record, accepted) = self
            .transact("ensure_warehouse", permit, |t| async move {
                let key = WarehouseKey(name.to_owned());
                let known = t.get(&key).await?;
                let record = WarehouseRecord {
                    id: known.as_ref().map_or(id, |known| known.id),
                    location: location.to_owned(),
                    created_ms: known.as_ref().map_or(now_ms, |known| known.created_ms),
                    definition: None,
                };
                if known.as_ref() != Some(&record) {
                    t.put(&key, &record)?;
                }
                Ok::<_, Error>(record)
            })
            .await?;
        accepted.durable().await?;
        Ok(record)
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

    async fn first_free_change(&self) -> Result<u64, Error> {
        let mut options = super::read::scan_options(slatedb::config::DurabilityLevel::Memory);
        options.order = IterationOrder::Descending;
        let prefix = [KeySpace::Changes.byte()];
        let mut newest_first = self.db.scan_prefix_with_options(prefix, .., &options).await?;
        let newest = newest_first.next().await?;
        Ok(newest.and_then(|entry| ChangeKey::decode(&entry.key)).map_or(0, |key| key.0 + 1))
    }
}

/// Opens a store whose log is in its bucket.
async fn open_bucket(
    place: &Place,
    settings: &Settings,
    metrics: &Metrics,
    caches: &BlockCaches,
) -> Result<(Db, Place, Option<Unlocked>), Error> {
    refuse_left_journal(place).await?;
    let (plain, (place, unlocked)) = (place, unlock(place, Missing::Found).await?);
    separate_log::settle(&place).await?;
    let how = How { settings, unlocked: unlocked.as_ref(), metrics, caches };
    let open = async || builder(&place, how).build().await;
    let db = match (open().await, &unlocked) {
        // The writer before this one may have changed the data key since the ring was read.
        (Err(error), Some(some)) => match some.refresh().await? {
            true => open().await,
            false => Err(error),
        },
        (opened, _) => opened,
    };
    let db = match db {
        Ok(db) => db,
        Err(error) => return Err(explained(plain, unlocked.as_ref(), error).await),
    };
    // From here on it is fenced: what it has written is known, and so is the last key that it used.
    if let Some(unlocked) = &unlocked {
        unlocked.refresh().await?;
    }
    separate_log::check(&place).await?;
    Ok((db, place, unlocked))
}

/// Opens a store whose log is a journal.
async fn open_directory(
    place: &Place,
    how: How<'_>,
    journal: Journal,
) -> Result<(Db, Hold), Error> {
    separate_log::check(place).await?;
    files::refuse_older_manifest(place).await?;
    if journal.is_empty()? {
        take_over_log(place, how).await?;
        refuse_loss(place, how).await?;
    }
    let hold = journal.hold()?;
    let keys = how.unlocked.map(|unlocked| Arc::clone(&unlocked.keys));
    let writer = journal.into_writer(keys, place.storage.journal().clone());
    let db = builder(place, how).with_wal_writer(writer).build().await?;
    Ok((db, hold))
}

/// Closes with everything in sorted runs, and nothing left in the log that is needed. Only what this has
/// closed may lose its log: a database that has failed writes nothing at its end, and SlateDB calls that a
/// success.
async fn close_in_order(db: &Db) -> Result<(), Error> {
    let options = CloseOptions { flush_type: Some(FlushType::MemTable) };
    let closed = db.close_with_options(options).await;
    // It may have failed at any moment until it was told to close: the first reason stands.
    match db.status().close_reason {
        Some(CloseReason::Clean) => Ok(closed?),
        Some(CloseReason::Fenced) => Err(Error::Fenced),
        _ => Err(Error::Failed),
    }
}

/// Refuses a store that was a local directory and is not one now, while its journal holds anything.
async fn refuse_left_journal(place: &Place) -> Result<(), Error> {
    let prefix = Path::from(place.path.as_str()).join(journal::DIRECTORY);
    let mut left = place.object_store.list(Some(&prefix));
    while let Some(object) = left.next().await {
        let object = object.map_err(|error| Error::Unavailable(error.to_string()))?;
        if journal::is_segment(object.location.as_ref()) {
            return Err(Error::JournalLeft);
        }
    }
    Ok(())
}

/// Refuses a store whose journal is empty and should not be, before SlateDB writes a manifest.
async fn refuse_loss(place: &Place, how: How<'_>) -> Result<(), Error> {
    let Some(directory) = &place.directory else { return Ok(()) };
    let keys = how.unlocked.map(|unlocked| unlocked.keys.as_ref());
    let checked = journal::check(directory, loss::replayed(place).await?, keys)?;
    checked.damaged.map_or(Ok(()), |file| Err(Error::DamagedFile(file)))
}

/// Turns what a log of objects still holds into sorted runs: a directory that comes from a bucket, or from
/// a slateberg that had no journal.
async fn take_over_log(place: &Place, how: How<'_>) -> Result<(), Error> {
    let with_log = place.directory.as_ref().filter(|directory| journal::has_object_log(directory));
    let Some(log) = with_log.map(|directory| directory.join("wal")) else { return Ok(()) };
    let without_journal = Place { directory: None, ..place.clone() };
    let db = builder(&without_journal, how).build().await?;
    close_in_order(&db).await?;
    let removed = std::fs::remove_dir_all(&log);
    removed.map_err(|error| Error::Unavailable(format!("{}: {error}", log.display())))
}

#[cfg(test)]
mod tests;

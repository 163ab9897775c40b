//! Opening the store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use slatedb::object_store::path::Path;
use slatedb::{Db, IterationOrder};
use uuid::Uuid;

use super::block_cache::BlockCaches;
use super::builder::{How, builder};
use super::encryption::{Missing, Unlocked, unlock};
use super::error::Error;
use super::explanation::explained;
use super::files;
use super::flusher::Flusher;
use super::handle::{Landed, Shared, Store, close_in_order};
use super::key_space::KeySpace;
use super::keys::{ChangeKey, Key, StoreKey, WarehouseKey};
pub use super::location::Place;
use super::loss;
use super::metrics::Metrics;
use super::read::{Read, scan_options};
use super::recent::Recent;
use super::records::{StoreFormat, WarehouseRecord};
use super::separate_log;
use super::settings::Settings;
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::Permit;
use slateberg_base::error_chain::Cause;
use slateberg_kms as kms;
use slateberg_wal::{self as journal, Hold, Journal};

impl Store {
    /// Opens the store for writing. Fences any other process that has it open. Errors if another
    /// process has opened it in a local directory.
    pub async fn open(place: &Place, settings: Settings) -> Result<Self, Error> {
        let (metrics, caches) = (Metrics::default(), BlockCaches::new(&settings));
        let (db, place, unlocked, journal) = match &place.directory {
            None => {
                let (db, place, unlocked) =
                    open_bucket(place, &settings, &metrics, &caches).await?;
                (db, place, unlocked, None)
            }
            Some(directory) => {
                // The lock of the journal also protects the ring.
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

    /// Returns the format of the store. `None` if it is new.
    pub async fn format_version(&self) -> Result<Option<u32>, Error> {
        Ok(self.latest().get(&StoreKey).await?.map(|format| format.format_version))
    }

    /// Initializes a new store, and rejects a newer format. A store with an older format gets this
    /// binary's, because the older binary would misread it from now on.
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

    /// Starts a timeline: later versions differ from versions elsewhere that follow the same state.
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

    /// Creates the record of a configured warehouse with `id`, or returns the existing one.
    /// Converts a warehouse that was created at run time.
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

    async fn first_free_change(&self) -> Result<u64, Error> {
        let mut options = scan_options(slatedb::config::DurabilityLevel::Memory);
        options.order = IterationOrder::Descending;
        let prefix = [KeySpace::Changes.byte()];
        let mut newest_first = self.db.scan_prefix_with_options(prefix, .., &options).await?;
        let newest = newest_first.next().await?;
        Ok(newest.and_then(|entry| ChangeKey::decode(&entry.key)).map_or(0, |key| key.0 + 1))
    }
}

/// Opens a store with its log in its bucket.
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
        // The previous writer may have changed the data key after the ring was read.
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
    // The previous writer is fenced from here on: all its writes are known, and so is its last key.
    if let Some(unlocked) = &unlocked {
        unlocked.refresh().await?;
    }
    separate_log::check(&place).await?;
    Ok((db, place, unlocked))
}

/// Opens a store with a journal.
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

/// Rejects a former local directory with records in its journal.
async fn refuse_left_journal(place: &Place) -> Result<(), Error> {
    let prefix = Path::from(place.path.as_str()).join(journal::DIRECTORY);
    let mut left = place.object_store.list(Some(&prefix));
    while let Some(object) = left.next().await {
        let object = object.map_err(Error::unavailable)?;
        if journal::is_segment(object.location.as_ref()) {
            return Err(Error::JournalLeft);
        }
    }
    Ok(())
}

/// Rejects a store with a journal that is empty but should not be, before SlateDB writes a
/// manifest.
async fn refuse_loss(place: &Place, how: How<'_>) -> Result<(), Error> {
    let Some(directory) = &place.directory else { return Ok(()) };
    let keys = how.unlocked.map(|unlocked| unlocked.keys.as_ref());
    let checked = journal::check(directory, loss::replayed(place).await?, keys)?;
    checked.damaged.map_or(Ok(()), |file| Err(Error::DamagedFile(file)))
}

/// Flushes a log of objects to sorted runs: in a directory from a bucket, or from a slateberg
/// without journals.
async fn take_over_log(place: &Place, how: How<'_>) -> Result<(), Error> {
    let with_log = place.directory.as_ref().filter(|directory| journal::has_object_log(directory));
    let Some(log) = with_log.map(|directory| directory.join("wal")) else { return Ok(()) };
    let without_journal = Place { directory: None, ..place.clone() };
    let db = builder(&without_journal, how).build().await?;
    close_in_order(&db).await?;
    let removed = std::fs::remove_dir_all(&log);
    removed.map_err(|error| Error::Unavailable(Cause::about(log.display(), error)))
}

#[cfg(test)]
mod tests;

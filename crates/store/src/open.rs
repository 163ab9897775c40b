//! Opens the store for writing: in a bucket, or in a local directory with a journal.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use slatedb::Db;
use slatedb::object_store::path::Path;
use uuid::Uuid;

use super::block_cache::BlockCaches;
use super::builder::{OpenContext, Purpose, bucket_log, builder};
use super::cache_eviction::CacheEviction;
use super::change_feed::ChangeFeed;
use super::change_log::first_free_change;
use super::checkpoints::admin;
use super::encryption::{IfMissing, SharedKeys, UnlockedKeys, unlock, unlock_again};
use super::error::Error;
use super::explanation::explain;
use super::files;
use super::flusher::{Durable, Flusher};
use super::handle::{PublishedMarkers, Shared, Store, close_in_order};
use super::keys::{StoreKey, WarehouseKey};
pub use super::location::StoreLocation;
use super::loss;
use super::metrics::Metrics;
use super::read::StoreRead;
use super::record_cache::RecordCache;
use super::records::{StoreFormat, WarehouseRecord};
use super::replica::start_replication;
use super::replication::Replication;
use super::separate_log;
use super::settings::Settings;
use super::status::Status;
use super::unsynced::UnsyncedFiles;
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_base::error_chain::Cause;
use slateberg_kms as kms;
use slateberg_wal::bucket::PUTS_MAX;
use slateberg_wal::{self as journal, Journal, JournalLock, LogFlusher};

impl Store {
    /// Opens the store for writing. In a bucket, this fences any other process that has the store
    /// open. In a local directory, it errors if another process has the store open.
    #[boxed]
    pub async fn open(location: &StoreLocation, settings: Settings) -> Result<Self, Error> {
        Self::open_for(Purpose::Write, location, settings).await
    }

    /// Opens the store as the elected writer of a cluster, which has replicas
    /// ([`Store::subscribe`]). With `previous_epoch`, errors with [`Error::Fenced`] if another
    /// writer has opened the store since [`Store::writer_epoch`] returned this epoch.
    #[boxed]
    pub async fn take_over(
        location: &StoreLocation,
        settings: Settings,
        previous_epoch: Option<u64>,
    ) -> Result<Self, Error> {
        Self::open_for(Purpose::Lead { previous_epoch }, location, settings).await
    }

    /// Unlocks the keys of the store. Returns `None` if neither the settings nor the store have
    /// encryption, and errors if only one of them has.
    #[boxed]
    pub async fn unlock(
        location: &StoreLocation,
        if_missing: IfMissing,
    ) -> Result<Option<SharedKeys>, Error> {
        let (_, unlocked) = unlock(location, if_missing).await?;
        Ok(unlocked.map(UnlockedKeys::into_shared))
    }

    /// Returns the epoch of the last writer that opened the store, or 0 if the store is new. Each
    /// writer increments the epoch, which fences all earlier writers. Does not open the store.
    #[boxed]
    pub async fn writer_epoch(location: &StoreLocation) -> Result<u64, Error> {
        let (location, _) = unlock_again(location).await?;
        let manifest = admin(&location).read_manifest(None).await?;
        Ok(manifest.map_or(0, |manifest| manifest.writer_epoch()))
    }

    pub(super) async fn open_for(
        purpose: Purpose,
        location: &StoreLocation,
        settings: Settings,
    ) -> Result<Self, Error> {
        let (metrics, caches) = (Metrics::default(), BlockCaches::new(&settings));
        let (db, log, location, unlocked, journal) = match &location.directory {
            None => {
                let (db, log, location, unlocked) =
                    open_bucket(location, &settings, &metrics, &caches, purpose).await?;
                (db, log, location, unlocked, None)
            }
            Some(directory) => {
                // The lock of the journal also protects the ring.
                let journal = Journal::open(directory)?;
                let (raw_location, (location, unlocked)) =
                    (location, unlock(location, IfMissing::Create).await?);
                let context = OpenContext {
                    settings: &settings,
                    unlocked: unlocked.as_ref(),
                    metrics: &metrics,
                    caches: &caches,
                    purpose,
                };
                let opened = open_directory(&location, context, journal);
                match opened.await {
                    Ok((db, log, lock)) => (db, log, location, unlocked, Some(lock)),
                    Err(error) => return Err(explain(raw_location, unlocked.as_ref(), error).await),
                }
            }
        };
        let changes = Arc::new(ChangeFeed::new(first_free_change(&db).await?));
        let replication = Arc::new(match purpose {
            Purpose::Lead { .. } => start_replication(&db).await?,
            Purpose::Write | Purpose::Replicate => Replication::default(),
        });
        let status = Status::new(&db);
        let durable = Durable {
            log,
            status: status.clone(),
            changes: Arc::clone(&changes),
            replication: Arc::clone(&replication),
        };
        let flushes_max = if journal.is_some() { 1 } else { PUTS_MAX as u32 };
        let shared = Shared {
            record_cache: RecordCache::new(
                status.clone(),
                settings.record_cache_bytes,
                settings.page_cache_bytes,
            ),
            settings,
            is_replica: purpose == Purpose::Replicate,
            published_markers: PublishedMarkers::default(),
            unsynced: Arc::new(UnsyncedFiles::default()),
            flusher: Flusher::start(durable, flushes_max, metrics.clone()),
            _eviction: CacheEviction::start(db.clone(), &status),
            status,
            replication,
            changes,
            metrics,
            caches,
            location,
            unlocked,
            checkpointing: tokio::sync::Mutex::default(),
            journal: Mutex::new(journal),
        };
        Ok(Self { db, shared: Arc::new(shared), audit: Arc::default() })
    }

    /// Returns the format of the store. `None` if it is new.
    #[boxed]
    pub async fn format_version(&self) -> Result<Option<u32>, Error> {
        Ok(self.latest().get(&StoreKey).await?.map(|format| format.format_version))
    }

    /// Initializes a new store, and rejects a store with a newer format. Raises an older format to
    /// the format of this binary, because older binaries would misread the records that this binary
    /// writes.
    #[boxed]
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
                let existing = t.get(&StoreKey).await?;
                let mut format = existing.unwrap_or(StoreFormat {
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
            let reason = format!("the store belongs to catalog {}", format.catalog_id);
            return Err(Error::Encryption(kms::Error::Ring(Cause::new(reason))));
        }
        Ok(format)
    }

    /// Starts a new timeline. Another copy of this state may later create versions with the same
    /// numbers, but that copy has another timeline.
    #[boxed]
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

    /// Returns the record of a configured warehouse. Creates it with `id` if it does not exist. A
    /// warehouse that was created at run time becomes a configured one.
    #[boxed]
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
                let existing = t.get(&key).await?;
                let record = WarehouseRecord {
                    id: existing.as_ref().map_or(id, |existing| existing.id),
                    location: location.to_owned(),
                    created_ms: existing.as_ref().map_or(now_ms, |existing| existing.created_ms),
                    definition: None,
                };
                if existing.as_ref() != Some(&record) {
                    t.put(&key, &record)?;
                }
                Ok::<_, Error>(record)
            })
            .await?;
        accepted.durable().await?;
        Ok(record)
    }
}

/// Opens a store whose log consists of objects in a bucket.
async fn open_bucket(
    location: &StoreLocation,
    settings: &Settings,
    metrics: &Metrics,
    caches: &BlockCaches,
    purpose: Purpose,
) -> Result<(Db, LogFlusher, StoreLocation, Option<UnlockedKeys>), Error> {
    reject_leftover_journal(location).await?;
    let if_missing = match purpose {
        Purpose::Write => IfMissing::Create,
        // The members of a cluster have unlocked or created the ring at their start.
        Purpose::Lead { .. } | Purpose::Replicate => IfMissing::Reject,
    };
    let (raw_location, (location, unlocked)) = (location, unlock(location, if_missing).await?);
    separate_log::ensure_pair(&location).await?;
    let unlocked_keys = unlocked.as_ref();
    let context = OpenContext { settings, unlocked: unlocked_keys, metrics, caches, purpose };
    let open = async || {
        let (writer, log) = bucket_log(&location, unlocked_keys).into_writer();
        let db = builder(&location, context).with_wal_writer(writer).build().await;
        db.map(|db| (db, log))
    };
    let opened = match (open().await, &unlocked) {
        // The previous writer may have changed the data key after the ring was read.
        (Err(error), Some(some)) => match some.refresh().await? {
            true => open().await,
            false => Err(error),
        },
        (opened, _) => opened,
    };
    let (db, log) = match opened {
        Ok(opened) => opened,
        Err(error) => return Err(explain(raw_location, unlocked.as_ref(), error).await),
    };
    // The previous writer is fenced now. It may have written with a newer key, so the ring is read
    // again.
    if let Some(unlocked) = &unlocked {
        unlocked.refresh().await?;
    }
    separate_log::check(&location).await?;
    Ok((db, log, location, unlocked))
}

/// Opens a store with a journal.
async fn open_directory(
    location: &StoreLocation,
    context: OpenContext<'_>,
    journal: Journal,
) -> Result<(Db, LogFlusher, JournalLock), Error> {
    separate_log::check(location).await?;
    files::reject_older_manifest(location).await?;
    if journal.is_empty()? {
        take_over_log(location, context).await?;
        reject_loss(location, context).await?;
    }
    let lock = journal.share_lock()?;
    let keys = context.unlocked.map(|unlocked| Arc::clone(&unlocked.keys));
    let (writer, log) = journal.into_writer(keys, location.storage.journal().clone());
    let db = builder(location, context).with_wal_writer(writer).build().await?;
    Ok((db, log, lock))
}

/// Rejects a bucket that contains a journal of a local directory, because only the journal has the
/// newest records.
async fn reject_leftover_journal(location: &StoreLocation) -> Result<(), Error> {
    let prefix = Path::from(location.path.as_str()).join(journal::DIRECTORY);
    let mut left = location.object_store.list(Some(&prefix));
    while let Some(object) = left.next().await {
        let object = object.map_err(Error::unavailable)?;
        if journal::is_segment(object.location.as_ref()) {
            return Err(Error::JournalLeft);
        }
    }
    Ok(())
}

/// Rejects a store if its journal is empty but should contain records. Must run before SlateDB
/// writes a manifest.
async fn reject_loss(location: &StoreLocation, context: OpenContext<'_>) -> Result<(), Error> {
    let Some(directory) = &location.directory else { return Ok(()) };
    let keys = context.unlocked.map(|unlocked| unlocked.keys.as_ref());
    let checked = journal::check(directory, loss::replayed(location).await?, keys)?;
    checked.damaged.map_or(Ok(()), |file| Err(Error::DamagedFile(file)))
}

/// Flushes a log that consists of objects to sorted runs, and deletes the log. A directory has such
/// a log if it was copied from a bucket, or written by a version of slateberg without journals.
async fn take_over_log(location: &StoreLocation, context: OpenContext<'_>) -> Result<(), Error> {
    let with_log =
        location.directory.as_ref().filter(|directory| journal::has_object_log(directory));
    let Some(log) = with_log.map(|directory| directory.join("wal")) else { return Ok(()) };
    let without_journal = StoreLocation { directory: None, ..location.clone() };
    let (writer, _) = bucket_log(&without_journal, context.unlocked).into_writer();
    let db = builder(&without_journal, context).with_wal_writer(writer).build().await?;
    close_in_order(&db).await?;
    let removed = std::fs::remove_dir_all(&log);
    removed.map_err(|error| Error::Unavailable(Cause::about(log.display(), error)))
}

#[cfg(test)]
mod tests;

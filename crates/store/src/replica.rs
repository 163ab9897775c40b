//! Replicas: private copies of the store, which follow the writer.
//!
//! A replica is opened from the bucket of the writer, through an
//! [overlay](super::overlay::OverlayObjectStore) that keeps all its writes in memory. It shares the
//! sorted runs in the bucket, replays the log up to its end, and then applies the rows that the
//! writer sends ([`replication`](super::replication)), with the writer's sequence numbers. So the
//! durable state of a replica with the sequence number `n` is that of the writer with this number,
//! and readers and caches work as they do in the writer.
//!
//! The writer does not know which sorted runs a replica uses, and deletes obsolete ones after some
//! time. It also compacts the rows that a replica keeps in memory. So a replica is replaced by a
//! new one from time to time ([`Store::manifest_id`]).

use std::sync::Arc;

use slatedb::config::{DurabilityLevel, WriteOptions};
use slatedb::object_store::path::Path;
use slatedb::{Db, WriteBatch};

use super::builder::{Purpose, bucket_log};
use super::checkpoints::admin;
use super::encryption::unlock_again;
use super::error::Error;
use super::handle::Store;
use super::key_space::KeySpace;
use super::keys::PublicationKey;
use super::location::StoreLocation;
use super::log_tail::LogTail;
use super::overlay::{Moment, OverlayObjectStore, newest_manifest};
use super::read::{KeyRange, SnapshotView, StoreRead, read_options};
use super::replication::{Replication, Row, RowGroup, Subscription};
use super::settings::Settings;
use slateberg_base::boxed;

impl Store {
    /// Opens a replica of the store. Writes nothing to the bucket. Its state is at least that of
    /// the writer at the time of this call. Also returns a reader of later files of the log, for a
    /// replica that the writer sends nothing.
    #[boxed]
    pub async fn open_replica(
        location: &StoreLocation,
        settings: Settings,
    ) -> Result<(Self, LogTail), Error> {
        let path = Path::from(location.path.as_str());
        let bucket = &location.object_store;
        // The manifest is read before the log, so that the log is not older.
        let manifest_id = newest_manifest(bucket, &path).await.map_err(Error::unavailable)?;
        // A new data key is in the key ring before it is used. So this ring has the key of the manifest.
        let (readable, unlocked) = unlock_again(location).await?;
        let manifest = admin(&readable).read_manifest(Some(manifest_id)).await?;
        let manifest = manifest.ok_or_else(|| Error::unavailable("the manifest is gone"))?;
        let replay_after = manifest.replay_after_wal_id();
        let log = bucket_log(&readable, unlocked.as_ref());
        let moment = Moment::now(&log, &path, manifest_id, replay_after).await;
        let moment = moment.map_err(Error::unavailable)?;
        let overlay = |bucket| Arc::new(OverlayObjectStore::new(bucket, &moment)) as _;
        let location = StoreLocation {
            object_store: overlay(Arc::clone(bucket)),
            log: location.log.as_ref().map(|log| log.within(overlay(log.store()))),
            ..location.clone()
        };
        let replica = Self::open_for(Purpose::Replicate, &location, settings).await?;
        let sequences = (manifest.last_l0_seq(), replica.sequence()?);
        let tail = LogTail::new(log, unlocked, (&moment, replay_after), sequences).await?;
        Ok((replica, tail))
    }

    /// Begins to send the rows of the writer to a replica. `None` if this store has no replicas, or
    /// if the outcome of one of its transactions is unknown. Subscribe before you open the replica.
    pub fn subscribe(&self) -> Option<Subscription> {
        self.shared.replication.subscribe()
    }

    /// Returns a sequence number. No reader of the durable state has seen a transaction with a greater
    /// number before this call. All rows up to this number are sent to replicas soon.
    #[boxed]
    pub async fn visible_sequence(&self) -> Result<u64, Error> {
        // SlateDB shows a durable transaction to readers before it reports the transaction's sequence
        // number. So also look for those transactions that are not reported.
        let unreleased = self.shared.replication.unreleased();
        let durable = self.durable_sequence();
        self.shared.replication.mark_durable(durable);
        let (mut visible, mut is_hidden) = (durable, false);
        for (sequence, key) in unreleased {
            // If a transaction is not visible, the later ones are not visible either.
            let is_skipped = sequence.is_some_and(|number| is_hidden || number <= durable);
            if is_skipped {
                continue;
            }
            let options = read_options(DurabilityLevel::Remote);
            let found = self.db.get_key_value_with_options(&key, &options).await?;
            visible = visible.max(found.map_or(0, |found| found.seq));
            is_hidden = sequence.is_some_and(|number| number > visible);
        }
        Ok(visible)
    }

    /// Returns the sequence number of the newest transaction that SlateDB has reported as durable.
    pub fn durable_sequence(&self) -> u64 {
        self.shared.status.durable_sequence()
    }

    /// Returns the versions whose metadata files may be missing.
    pub async fn publications(&self) -> Result<Vec<PublicationKey>, Error> {
        let range = KeyRange::all(KeySpace::Publications);
        let markers = self.durable().scan::<PublicationKey>(&range, None).await?;
        Ok(markers.into_iter().map(|(key, _)| key).collect())
    }

    /// Returns the sequence number of the newest accepted transaction.
    pub fn sequence(&self) -> Result<u64, Error> {
        Ok(self.db.snapshot()?.seq())
    }

    /// Whether this is a replica.
    pub fn is_replica(&self) -> bool {
        self.shared.is_replica
    }

    /// Returns the id of the manifest in use.
    pub fn manifest_id(&self) -> u64 {
        self.db.manifest().id()
    }

    /// Applies transactions of the writer to a replica, in the order of their sequence numbers, and
    /// skips those that the replica already contains. Readers see either all of these transactions
    /// or none.
    #[boxed]
    pub async fn apply(&self, groups: &[RowGroup]) -> Result<(), Error> {
        let contained = self.sequence()?;
        let groups = || groups.iter().filter(|group| group.sequence > contained);
        let Some(seqnum) = groups().map(|group| group.sequence).max() else { return Ok(()) };
        let rows = || groups().flat_map(|group| &group.rows);
        let mut batch = WriteBatch::new();
        for Row { key, value } in rows() {
            match value {
                Some(value) => batch.put_bytes(key.clone(), value.clone()),
                None => batch.delete(key),
            }
        }
        let pending = self.shared.record_cache.begin(rows().map(|row| row.key.as_ref()));
        let options = WriteOptions { seqnum };
        let written = self.db.write_with_options(batch, &options).await?;
        pending.accept(written.seqnum());
        self.shared.flusher.join().durable().await
    }
}

/// Starts to collect rows for replicas of a store that was just opened.
pub(super) async fn start_replication(db: &Db) -> Result<Replication, Error> {
    let snapshot = db.snapshot()?;
    let opened_at = snapshot.seq();
    let range = KeyRange::all(KeySpace::Publications);
    let markers = SnapshotView(snapshot).scan::<PublicationKey>(&range, None).await?;
    Ok(Replication::start(opened_at, markers.into_iter().map(|(key, _)| key)))
}

#[cfg(test)]
mod tests;

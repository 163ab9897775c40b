//! Checkpoints: states of the whole store that stay readable until they are deleted.
//!
//! A checkpoint is an entry in SlateDB's manifest that pins an earlier manifest and its sorted
//! runs: nothing is copied, and garbage collection skips pinned files. Before a checkpoint is
//! created, all accepted writes are flushed to sorted runs. Therefore a checkpoint and its readers
//! need no log, neither SlateDB's nor the journal.
//!
//! SlateDB has its own checkpoints, such as those of a running compaction. A name prefix
//! distinguishes ours. A checkpoint that keeps the files of a clone ([`super::clones`]) is a *pin*.

use std::time::Duration;

use slatedb::admin::Admin;
use slatedb::config::{CheckpointOptions, CheckpointScope, DbReaderOptions};
use slatedb::{Checkpoint as Pinned, DbReader, DbReaderMode};
use uuid::Uuid;

use super::builder::sealed_blocks;
use super::encryption::Unlocked;
use super::error::Error;
use super::handle::Store;
use super::location::Place;
use super::read::Offline;
use slateberg_authz::action::Action;
use slateberg_authz::permit::Permit;

/// Prefix of our checkpoints' names in SlateDB's manifest.
const OURS: &str = "slateberg/";
/// Prefix of the names of pins for clones.
pub(super) const PINS: &str = "slateberg-clone/";
/// Maximum number of checkpoints. Every manifest contains all of them.
pub(super) const CHECKPOINTS_MAX: usize = 256;
/// Poll interval for readers of a checkpoint, which never need newer manifests.
pub(super) const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A preserved state of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Id of the checkpoint.
    pub id: Uuid,
    /// Unique name, if it has one.
    pub name: Option<String>,
    /// Time of its creation.
    pub created_ms: i64,
    /// Expiry. `None`: it does not expire.
    pub expires_ms: Option<i64>,
    /// Whether it keeps the files of a clone. Its state is then that of an earlier checkpoint, not
    /// that at its creation.
    pub for_clone: bool,
}

impl Checkpoint {
    /// Converts one of our checkpoints. `None` for one of SlateDB's own.
    fn of(pinned: &Pinned) -> Option<Self> {
        let told = pinned.name.as_deref()?;
        let pin = told.strip_prefix(PINS);
        let name = pin.or_else(|| told.strip_prefix(OURS))?;
        Some(Self {
            for_clone: pin.is_some(),
            id: pinned.id,
            name: (!name.is_empty()).then(|| name.to_owned()),
            created_ms: pinned.create_time.timestamp_millis(),
            expires_ms: pinned.expire_time.map(|time| time.timestamp_millis()),
        })
    }

    /// Returns its name, or its id if it has none.
    pub fn called(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.id.to_string())
    }

    /// Whether this is its id or its name.
    pub fn is_called(&self, word: &str) -> bool {
        self.name.as_deref() == Some(word) || Uuid::parse_str(word) == Ok(self.id)
    }
}

/// Parameters of a new checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewCheckpoint {
    /// Name of the checkpoint.
    pub name: Option<String>,
    /// Lifetime. `None`: it does not expire.
    pub lifetime: Option<Duration>,
}

/// Result of the creation of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// The checkpoint was created.
    Checkpoint(Checkpoint),
    /// Another checkpoint has the name.
    Taken(Checkpoint),
    /// The number of checkpoints is at its maximum.
    TooMany(usize),
}

impl Store {
    /// Creates a checkpoint. It contains every change that was accepted before this call, and
    /// therefore every acknowledged one.
    pub async fn create_checkpoint<A: Action>(
        &self,
        _permit: &Permit<A>,
        wanted: &NewCheckpoint,
        now_ms: i64,
    ) -> Result<Made, Error> {
        let _alone = self.shared.checkpointing.lock().await;
        let known = self.checkpoints(now_ms).await?;
        if known.len() >= CHECKPOINTS_MAX {
            return Ok(Made::TooMany(CHECKPOINTS_MAX));
        }
        if let Some(name) = &wanted.name
            && let Some(taken) = known.into_iter().find(|known| known.name.as_ref() == Some(name))
        {
            return Ok(Made::Taken(taken));
        }
        let options = CheckpointOptions {
            lifetime: wanted.lifetime,
            source: None,
            name: Some(format!("{OURS}{}", wanted.name.as_deref().unwrap_or_default())),
        };
        let made = self.db.create_checkpoint(CheckpointScope::All, &options).await?;
        let found = self.checkpoints(now_ms).await?.into_iter().find(|known| known.id == made.id);
        let lost = || Error::internal(format!("checkpoint {} is gone already", made.id));
        found.map(Made::Checkpoint).ok_or_else(lost)
    }

    /// Returns the unexpired checkpoints, the oldest first.
    pub async fn checkpoints(&self, now_ms: i64) -> Result<Vec<Checkpoint>, Error> {
        listed(&self.shared.place, now_ms).await
    }

    /// Deletes a checkpoint. Data that only it references is garbage-collected. Returns whether it
    /// existed.
    pub async fn delete_checkpoint<A: Action>(
        &self,
        _permit: &Permit<A>,
        id: Uuid,
    ) -> Result<bool, Error> {
        let _alone = self.shared.checkpointing.lock().await;
        let is_there = listed(&self.shared.place, i64::MIN).await?.iter().any(|it| it.id == id);
        if is_there {
            admin(&self.shared.place).delete_checkpoint(id).await?;
        }
        Ok(is_there)
    }

    /// Opens the state of a checkpoint.
    pub async fn at_checkpoint(&self, id: Uuid) -> Result<Offline, Error> {
        read_at(&self.shared.place, self.shared.unlocked.as_ref(), id).await
    }

    /// Whether a reader of some checkpoint needs the log.
    pub(super) fn is_log_pinned(&self) -> bool {
        self.db.manifest().checkpoints().iter().any(|pinned| Checkpoint::of(pinned).is_none())
    }
}

/// Returns the checkpoints in the store's newest manifest, the oldest first, without expired ones,
/// which may be deleted at any moment.
pub(super) async fn listed(place: &Place, now_ms: i64) -> Result<Vec<Checkpoint>, Error> {
    let mut all = admin(place).list_checkpoints(None).await?;
    // Times are whole seconds. Of equal ones, the later checkpoint pins a later manifest.
    all.sort_by_key(|pinned| (pinned.create_time, pinned.manifest_id));
    let mut ours: Vec<_> = all.iter().filter_map(Checkpoint::of).collect();
    ours.retain(|ours| ours.expires_ms.is_none_or(|at_ms| at_ms > now_ms));
    Ok(ours)
}

/// Opens a checkpoint for reading.
pub(super) async fn read_at(
    place: &Place,
    unlocked: Option<&Unlocked>,
    id: Uuid,
) -> Result<Offline, Error> {
    let options = DbReaderOptions {
        manifest_poll_interval: NEVER,
        skip_wal_replay: true,
        ..DbReaderOptions::default()
    };
    let builder = DbReader::builder(place.path.clone(), place.object_store.clone())
        .with_reader_mode(DbReaderMode::Checkpoint(id))
        .with_options(options);
    let builder = match &place.log {
        Some(log) => builder.with_wal_object_store(log.store()),
        None => builder,
    };
    let builder = match unlocked {
        Some(unlocked) => builder.with_block_transformer(sealed_blocks(unlocked)),
        None => builder,
    };
    Ok(Offline { reader: builder.build().await? })
}

/// Returns an administrator of a store's manifest. It needs the log's object store, because SlateDB
/// compares it with the manifest.
pub(super) fn admin(place: &Place) -> Admin {
    let builder = Admin::builder(place.path.clone(), place.object_store.clone());
    match &place.log {
        Some(log) => builder.with_wal_object_store(log.store()).build(),
        None => builder.build(),
    }
}

#[cfg(test)]
mod tests;

//! Checkpoints: states of the whole store that stay readable until somebody deletes them.
//!
//! A checkpoint is an entry in SlateDB's manifest that pins an earlier manifest, and with it the sorted runs
//! that this one names: nothing is copied, and garbage collection passes by what is pinned. Before one is
//! made, everything that was accepted goes into sorted runs. So a checkpoint needs no log, neither SlateDB's
//! nor the journal, and whoever reads one reads none.
//!
//! SlateDB has checkpoints of its own, such as those of a compaction under way. Ours are told from them by
//! what their names begin with. One that keeps what a clone needs ([`super::clones`]) is a *pin*.

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

/// What the names of our checkpoints begin with in SlateDB's manifest.
const OURS: &str = "slateberg/";
/// What the names of those begin with there that keep what a clone needs.
pub(super) const PINS: &str = "slateberg-clone/";
/// So many may there be: every manifest that is written lists them all.
pub(super) const CHECKPOINTS_MAX: usize = 256;
/// Whoever reads a checkpoint has no reason to look for newer manifests.
pub(super) const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A state of the store that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its identity.
    pub id: Uuid,
    /// Unique name, if it has one.
    pub name: Option<String>,
    /// When it was made.
    pub created_ms: i64,
    /// From when on it may be forgotten, if ever.
    pub expires_ms: Option<i64>,
    /// Whether it keeps what a clone needs. Its state is that of an earlier checkpoint then, and not that of
    /// the time at which it was made.
    pub for_clone: bool,
}

impl Checkpoint {
    /// One of ours; none for one of SlateDB's own.
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

/// A checkpoint that somebody wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewCheckpoint {
    /// What it is to be called.
    pub name: Option<String>,
    /// How long it is kept; for ever if this says nothing.
    pub lifetime: Option<Duration>,
}

/// What came of wanting one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// It is there.
    Checkpoint(Checkpoint),
    /// Another has its name.
    Taken(Checkpoint),
    /// There are as many as there may be.
    TooMany(usize),
}

impl Store {
    /// Makes a checkpoint. It holds every change that was accepted before this was called, and so every one
    /// that anybody was told of.
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

    /// The checkpoints that are kept at a time, from the oldest on.
    pub async fn checkpoints(&self, now_ms: i64) -> Result<Vec<Checkpoint>, Error> {
        listed(&self.shared.place, now_ms).await
    }

    /// Deletes a checkpoint. Data that only it references is garbage-collected. Returns whether it existed.
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

    /// The state that a checkpoint has kept.
    pub async fn at_checkpoint(&self, id: Uuid) -> Result<Offline, Error> {
        read_at(&self.shared.place, self.shared.unlocked.as_ref(), id).await
    }

    /// Whether a reader of some checkpoint needs the log.
    pub(super) fn is_log_pinned(&self) -> bool {
        self.db.manifest().checkpoints().iter().any(|pinned| Checkpoint::of(pinned).is_none())
    }
}

/// The checkpoints of a store, as its newest manifest has them, from the oldest on. Those whose time is over
/// are not told: they may go at any moment.
pub(super) async fn listed(place: &Place, now_ms: i64) -> Result<Vec<Checkpoint>, Error> {
    let mut all = admin(place).list_checkpoints(None).await?;
    // Of one second, the later one pins a later manifest.
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

/// Works on a store's manifest. The log's object store is named because SlateDB compares it with what the
/// manifest says.
pub(super) fn admin(place: &Place) -> Admin {
    let builder = Admin::builder(place.path.clone(), place.object_store.clone());
    match &place.log {
        Some(log) => builder.with_wal_object_store(log.store()).build(),
        None => builder.build(),
    }
}

#[cfg(test)]
mod tests;

//! Checkpoints: states of the whole store that stay readable until they are deleted.
//!
//! A checkpoint is an entry in SlateDB's manifest that pins an earlier manifest and its sorted
//! runs. Nothing is copied: garbage collection skips the pinned files. Before a checkpoint is
//! created, all accepted writes are flushed to sorted runs. Therefore a reader of a checkpoint
//! needs no log, neither SlateDB's log nor the journal.
//!
//! SlateDB creates checkpoints of its own, for example while a compaction runs. A name prefix
//! distinguishes slateberg's checkpoints. A checkpoint that keeps the files of a clone
//! ([`super::clones`]) is a *pin*.

use std::time::Duration;

use slatedb::admin::Admin;
use slatedb::config::{CheckpointOptions, CheckpointScope, DbReaderOptions};
use slatedb::{Checkpoint as Pinned, DbReader, DbReaderMode};
use uuid::Uuid;

use super::builder::sealed_blocks;
use super::encryption::UnlockedKeys;
use super::error::Error;
use super::filters;
use super::handle::Store;
use super::location::StoreLocation;
use super::read::OfflineView;
use slateberg_authz::action::Action;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;

/// Prefix of the names of slateberg's checkpoints in SlateDB's manifest.
const NAME_PREFIX: &str = "slateberg/";
/// Prefix of the names of pins for clones.
pub(super) const PIN_NAME_PREFIX: &str = "slateberg-clone/";
/// Maximum number of checkpoints. Every manifest contains all of them.
pub(super) const CHECKPOINTS_MAX: usize = 256;
/// Interval at which a reader of a checkpoint looks for new manifests. The pinned manifest is all
/// that such a reader needs, so the interval is as long as a year.
pub(super) const NO_MANIFEST_POLL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A preserved state of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Id of the checkpoint.
    pub id: Uuid,
    /// Unique name of the checkpoint, if it has a name.
    pub name: Option<String>,
    /// Time of its creation.
    pub created_ms: i64,
    /// Time at which the checkpoint expires. `None` if it does not expire.
    pub expires_ms: Option<i64>,
    /// Whether the checkpoint is the pin of a clone. A pin has the state of an earlier checkpoint,
    /// so its state is older than `created_ms`.
    pub for_clone: bool,
}

impl Checkpoint {
    /// Converts a checkpoint that slateberg created. Returns `None` for a checkpoint that SlateDB
    /// created for its own use.
    fn of(pinned: &Pinned) -> Option<Self> {
        let full_name = pinned.name.as_deref()?;
        let pin = full_name.strip_prefix(PIN_NAME_PREFIX);
        let name = pin.or_else(|| full_name.strip_prefix(NAME_PREFIX))?;
        Some(Self {
            for_clone: pin.is_some(),
            id: pinned.id,
            name: (!name.is_empty()).then(|| name.to_owned()),
            created_ms: pinned.create_time.timestamp_millis(),
            expires_ms: pinned.expire_time.map(|time| time.timestamp_millis()),
        })
    }

    /// Returns the checkpoint's name, or its id if it has no name.
    pub fn name_or_id(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.id.to_string())
    }

    /// Whether the checkpoint has this id or name.
    pub fn has_name_or_id(&self, name_or_id: &str) -> bool {
        self.name.as_deref() == Some(name_or_id) || Uuid::parse_str(name_or_id) == Ok(self.id)
    }
}

/// Parameters of a new checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewCheckpoint {
    /// Name of the checkpoint.
    pub name: Option<String>,
    /// Lifetime of the checkpoint. `None` if it does not expire.
    pub lifetime: Option<Duration>,
}

/// Result of the creation of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointOutcome {
    /// The checkpoint was created.
    Checkpoint(Checkpoint),
    /// Another checkpoint has the name.
    NameTaken(Checkpoint),
    /// The number of checkpoints is at its maximum.
    TooMany(usize),
}

impl Store {
    /// Creates a checkpoint. It contains every change that was accepted before this call, and
    /// therefore every change that was acknowledged before this call.
    pub async fn create_checkpoint<A: Action>(
        &self,
        _permit: &Permit<A>,
        request: &NewCheckpoint,
        now_ms: i64,
    ) -> Result<CheckpointOutcome, Error> {
        let _guard = self.shared.checkpointing.lock().await;
        let existing = self.checkpoints(now_ms).await?;
        if existing.len() >= CHECKPOINTS_MAX {
            return Ok(CheckpointOutcome::TooMany(CHECKPOINTS_MAX));
        }
        if let Some(name) = &request.name
            && let Some(taken) =
                existing.into_iter().find(|existing| existing.name.as_ref() == Some(name))
        {
            return Ok(CheckpointOutcome::NameTaken(taken));
        }
        let options = CheckpointOptions {
            lifetime: request.lifetime,
            source: None,
            name: Some(format!("{NAME_PREFIX}{}", request.name.as_deref().unwrap_or_default())),
        };
        let created = self.db.create_checkpoint(CheckpointScope::All, &options).await?;
        let found =
            self.checkpoints(now_ms).await?.into_iter().find(|existing| existing.id == created.id);
        let lost = || Error::internal(format!("checkpoint {} no longer exists", created.id));
        found.map(CheckpointOutcome::Checkpoint).ok_or_else(lost)
    }

    /// Returns the unexpired checkpoints, the oldest first.
    #[boxed]
    pub async fn checkpoints(&self, now_ms: i64) -> Result<Vec<Checkpoint>, Error> {
        list_checkpoints(&self.shared.location, now_ms).await
    }

    /// Deletes a checkpoint, and returns whether it existed. Garbage collection then removes the
    /// data that only this checkpoint referenced.
    pub async fn delete_checkpoint<A: Action>(
        &self,
        _permit: &Permit<A>,
        id: Uuid,
    ) -> Result<bool, Error> {
        let _guard = self.shared.checkpointing.lock().await;
        let is_there =
            list_checkpoints(&self.shared.location, i64::MIN).await?.iter().any(|it| it.id == id);
        if is_there {
            admin(&self.shared.location).delete_checkpoint(id).await?;
        }
        Ok(is_there)
    }

    /// Opens the state of a checkpoint for reading.
    #[boxed]
    pub async fn at_checkpoint(&self, id: Uuid) -> Result<OfflineView, Error> {
        open_view(&self.shared.location, self.shared.unlocked.as_ref(), id).await
    }

    /// Whether a checkpoint exists that SlateDB created for its own use. Only such a checkpoint may
    /// require files of the log.
    pub(super) fn is_log_pinned(&self) -> bool {
        self.db.manifest().checkpoints().iter().any(|pinned| Checkpoint::of(pinned).is_none())
    }
}

/// Returns the checkpoints in the store's newest manifest, the oldest first. Leaves out expired
/// checkpoints, because they may be deleted at any moment.
pub(super) async fn list_checkpoints(
    location: &StoreLocation,
    now_ms: i64,
) -> Result<Vec<Checkpoint>, Error> {
    let mut all = admin(location).list_checkpoints(None).await?;
    // Creation times are whole seconds. Among checkpoints with equal times, a later checkpoint pins
    // a later manifest.
    all.sort_by_key(|pinned| (pinned.create_time, pinned.manifest_id));
    let mut ours: Vec<_> = all.iter().filter_map(Checkpoint::of).collect();
    ours.retain(|ours| ours.expires_ms.is_none_or(|at_ms| at_ms > now_ms));
    Ok(ours)
}

/// Opens a checkpoint for reading.
pub(super) async fn open_view(
    location: &StoreLocation,
    unlocked: Option<&UnlockedKeys>,
    id: Uuid,
) -> Result<OfflineView, Error> {
    let options = DbReaderOptions {
        manifest_poll_interval: NO_MANIFEST_POLL,
        skip_wal_replay: true,
        ..DbReaderOptions::default()
    };
    let builder = DbReader::builder(location.path.clone(), location.object_store.clone())
        .with_reader_mode(DbReaderMode::Checkpoint(id))
        .with_options(options)
        .with_filter_policies(filters::policies());
    let builder = match &location.log {
        Some(log) => builder.with_wal_object_store(log.store()),
        None => builder,
    };
    let builder = match unlocked {
        Some(unlocked) => builder.with_block_transformer(sealed_blocks(unlocked)),
        None => builder,
    };
    Ok(OfflineView { reader: builder.build().await? })
}

/// Returns the SlateDB interface that reads and changes the store's manifest. If the log has its
/// own object store, SlateDB needs that object store as well, because SlateDB compares it with the
/// manifest.
pub(super) fn admin(location: &StoreLocation) -> Admin {
    let builder = Admin::builder(location.path.clone(), location.object_store.clone());
    match &location.log {
        Some(log) => builder.with_wal_object_store(log.store()).build(),
        None => builder.build(),
    }
}

#[cfg(test)]
mod tests;

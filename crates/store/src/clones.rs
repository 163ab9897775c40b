//! A clone is a store that starts with a state of another store, its parent. It references the
//! parent's sorted runs instead of copying them.
//!
//! Both stores are in one bucket, or on one machine. A clone's manifest references the sorted runs
//! of its parent. These files exist while the parent has a *pin*: a checkpoint that makes the
//! parent's garbage collection skip them. Each store owns the files that it writes afterwards.
//!
//! A clone is created in these steps, and a crash may occur after each of them:
//! 1. The state is pinned in the parent ([`Store::pin`]).
//! 2. The clone of an encrypted store gets a key ring. The ring contains the parent's keys (for
//!    reading) and a new key of the clone (for writing).
//! 3. The clone gets a manifest ([`Store::share`]). It is now a store that shares objects but is
//!    not marked as a clone. Only the command that creates the clone opens a store in this state.
//! 4. One transaction makes the clone an independent catalog, with a record about its parent
//!    ([`Store::become_clone`]).
//!
//! If the creation is repeated, it continues after the completed steps
//! ([`Store::find_unfinished_clone`]). No step changes a record of the parent, and only the first
//! step changes the parent's manifest.
//!
//! The pinned state is completely in sorted runs, so the log is never cloned.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use slatedb::admin::Admin;
use slatedb::bytes::Bytes;
use slatedb::config::CheckpointOptions;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::wal::{WalAdmin, WalError, WalFileRange, WalGc};
use slatedb::{CloneSourceSpec, VersionedManifest};
use uuid::Uuid;

use super::checkpoints::{
    CHECKPOINTS_MAX, CheckpointOutcome, PIN_NAME_PREFIX, admin, list_checkpoints,
};
use super::encryption::{IfMissing, UnlockedKeys, unlock};
use super::error::Error;
use super::handle::Store;
use super::jobs::JobWork;
use super::key_ring::RingLocation;
use super::key_space::{CloneRule, KeySpace};
use super::keys::{JobKey, Key, StoreKey};
use super::location::StoreLocation;
use super::read::{KeyRange, StoreRead};
use super::records::{Change, CloneOf, FORMAT_OF_CLONES, StoreFormat};
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_base::ids::PROBE_PREFIX;
use slateberg_kms::keys::Keys;
use slateberg_kms::sealed_objects::{Access, SealedObjects};

/// A clone that may not be complete yet.
struct PartialClone {
    /// Reads the clone's objects with the clone's keys and the parent's objects with the parent's
    /// keys.
    object_store: Arc<dyn ObjectStore>,
    /// Manifest of the clone. `None` if it was not written yet.
    manifest: Option<VersionedManifest>,
}

impl Store {
    /// Returns the pin of an unfinished clone at `target`. Returns `None` if the creation has not
    /// started, or was interrupted before the manifest was written. Errors if `target` contains a
    /// complete clone or anything else. Writes nothing.
    #[boxed]
    pub async fn find_unfinished_clone(
        parent: &StoreLocation,
        target: &StoreLocation,
    ) -> Result<Option<Uuid>, Error> {
        let (_, unlocked) = unlock(parent, IfMissing::Reject).await?;
        let partial = find_partial_clone(parent, unlocked.as_ref(), target).await?;
        let Some(manifest) = partial.and_then(|partial| partial.manifest) else { return Ok(None) };
        if manifest.initialized() {
            let store = Self::open_offline(target).await?;
            if store.get(&StoreKey).await?.is_some_and(|format| format.clone_of.is_some()) {
                return Err(Error::NotEmpty);
            }
        }
        source(&manifest, parent).map(|(pin, _)| Some(pin))
    }

    /// Pins the state of a checkpoint for a clone. A server may be using the parent at the same
    /// time.
    #[boxed]
    pub async fn pin(
        parent: &StoreLocation,
        of: Uuid,
        name: &str,
        now_ms: i64,
    ) -> Result<CheckpointOutcome, Error> {
        let (parent, _) = unlock(parent, IfMissing::Reject).await?;
        let existing = list_checkpoints(&parent, now_ms).await?;
        if existing.len() >= CHECKPOINTS_MAX {
            return Ok(CheckpointOutcome::TooMany(CHECKPOINTS_MAX));
        }
        if let Some(taken) = existing.into_iter().find(|existing| existing.has_name_or_id(name)) {
            return Ok(CheckpointOutcome::NameTaken(taken));
        }
        let options = CheckpointOptions {
            lifetime: None,
            source: Some(of),
            name: Some(format!("{PIN_NAME_PREFIX}{name}")),
        };
        let created = admin(&parent).create_detached_checkpoint(&options).await?;
        let lost = || Error::internal(format!("checkpoint {} no longer exists", created.id));
        let found = list_checkpoints(&parent, now_ms)
            .await?
            .into_iter()
            .find(|existing| existing.id == created.id);
        found.map(CheckpointOutcome::Checkpoint).ok_or_else(lost)
    }

    /// Whether two checkpoints pin the same state.
    #[boxed]
    pub async fn is_same_state(
        parent: &StoreLocation,
        one: Uuid,
        other: Uuid,
    ) -> Result<bool, Error> {
        let (parent, _) = unlock(parent, IfMissing::Reject).await?;
        let pinned = admin(&parent).list_checkpoints(None).await?;
        let state = |id| pinned.iter().find(|pinned| pinned.id == id).map(|it| it.manifest_id);
        Ok(state(one).is_some() && state(one) == state(other))
    }

    /// Creates a store at `target` with the state of a pin, or continues an earlier attempt. Errors
    /// if the pin does not exist.
    #[boxed]
    pub async fn share(
        parent: &StoreLocation,
        pin: Uuid,
        target: &StoreLocation,
    ) -> Result<(), Error> {
        let raw_location = parent;
        let (parent, unlocked) = unlock(raw_location, IfMissing::Reject).await?;
        let partial = match find_partial_clone(raw_location, unlocked.as_ref(), target).await? {
            Some(partial) => partial,
            None => {
                let keys = match &unlocked {
                    Some(unlocked) => {
                        Some(unlocked.create_clone_ring(&raw_location.path, target).await?)
                    }
                    None => None,
                };
                partial_clone(raw_location, unlocked.as_ref(), target, keys).await?
            }
        };
        let clone = Admin::builder(target.path.clone(), partial.object_store)
            .with_wal_admin(Arc::new(NoLog))
            .build();
        if !partial.manifest.is_some_and(|manifest| manifest.initialized()) {
            let source: CloneSourceSpec<(Bound<Bytes>, Bound<Bytes>)> = CloneSourceSpec {
                path: Path::from(raw_location.path.as_str()),
                checkpoint: Some(pin),
                projection_range: None,
            };
            clone.create_clone_builder_from_source(source).build().await?;
        }
        // SlateDB pins the same state again, without a name. The pin without a name is deleted
        // here, because nothing else would delete it: users see only the named pin. SlateDB deletes
        // its own pin only when it detaches a clone from its parent, and detaching is turned off.
        let manifest = clone.read_manifest(None).await?;
        let manifest = manifest.ok_or_else(|| Error::internal("the clone has no manifest"))?;
        if let (_, Some(second)) = source(&manifest, raw_location)? {
            admin(&parent).delete_checkpoint(second).await?;
        }
        if !list_checkpoints(&parent, i64::MIN).await?.iter().any(|existing| existing.id == pin) {
            return Err(Error::unavailable(format!("checkpoint {pin} was deleted concurrently")));
        }
        Ok(())
    }

    /// Makes a store with shared objects an independent catalog that is marked as a clone. Rejects
    /// a store that is already marked. [`CloneRule`] describes what happens to each key space. The
    /// clone does not get the responses that the parent stored for repeated requests. It does not
    /// get the parent's signing keys either, because a holder of these keys can sign tokens for the
    /// parent.
    #[boxed]
    pub async fn become_clone(
        &self,
        permit: &Permit<Maintain>,
        catalog_id: Uuid,
        clone_of: &CloneOf,
        entry: &Change,
    ) -> Result<(), Error> {
        // If the clone is encrypted, it keeps the id that was created with its key ring. Encrypted
        // or not, it gets a new timeline, so that `ETag`s of the parent do not match versions of
        // the clone.
        let timeline = Some(catalog_id);
        let catalog_id = self.encrypted_catalog().unwrap_or(catalog_id);
        let (mut excluded, mut jobs) = (Vec::new(), Vec::new());
        for &space in KeySpace::ALL {
            let range = KeyRange::all(space);
            match space.rules().clone {
                // No record is deleted. The transaction below replaces the store's record and adds
                // an entry to the change log.
                CloneRule::Share | CloneRule::NewIdentity | CloneRule::Append => {}
                CloneRule::LeaveOut => {
                    let mut entries = self.latest().iterate(&range).await?;
                    while let Some(entry) = entries.next().await? {
                        excluded.push(entry.key.to_vec());
                    }
                }
                CloneRule::Cancel => jobs = self.latest().scan::<JobKey>(&range, None).await?,
            }
        }
        let (excluded, jobs) = (&excluded, &jobs);
        let ((), accepted) = self
            .transact("clone", permit, |t| async move {
                if t.get(&StoreKey).await?.is_some_and(|format| format.clone_of.is_some()) {
                    return Err(Error::NotEmpty);
                }
                let format = StoreFormat {
                    format_version: FORMAT_OF_CLONES,
                    catalog_id,
                    created_ms: clone_of.cloned_ms,
                    clone_of: Some(clone_of.clone()),
                    timeline,
                };
                t.put(&StoreKey, &format)?;
                excluded.iter().try_for_each(|key| t.delete_at(key.clone()))?;
                for (key, job) in jobs {
                    t.delete_at(key.encode())?;
                    if let JobWork::ReachableFrom { id, .. } = job.work {
                        t.delete_document(id).await?;
                    }
                }
                t.log(entry);
                Ok::<_, Error>(())
            })
            .await?;
        accepted.durable().await
    }

    /// Whether a clone can reference objects below a path. SlateDB encodes the path twice, so the
    /// path must not contain characters that need encoding.
    pub fn can_share(path: &str) -> bool {
        !path.is_empty() && Path::from(path).as_ref() == path
    }

    /// Whether this store references objects of another store.
    pub(super) fn shares_objects(&self) -> bool {
        !self.db.manifest().external_dbs().is_empty()
    }
}

/// Opens an unfinished clone. Returns `None` if nothing exists at `target`. Errors if `target`
/// contains anything other than an unfinished clone of this parent.
async fn find_partial_clone(
    parent: &StoreLocation,
    unlocked: Option<&UnlockedKeys>,
    target: &StoreLocation,
) -> Result<Option<PartialClone>, Error> {
    let path = Path::from(target.path.as_str());
    let is_probe = |it: &Path| {
        let mut below = it.prefix_match(&path).into_iter().flatten();
        below.next().is_some_and(|name| name.as_ref().starts_with(PROBE_PREFIX))
    };
    let mut objects = target.object_store.list(Some(&path));
    loop {
        match objects.next().await {
            None => return Ok(None),
            Some(Ok(found)) if is_probe(&found.location) => {}
            Some(Ok(_)) => break,
            Some(Err(error)) => return Err(Error::unavailable(error)),
        }
    }
    drop(objects);
    let keys = match unlocked {
        Some(unlocked) => match unlocked.keys_of_clone(&parent.path, target).await? {
            Some(keys) => Some(keys),
            None => return Err(Error::NotEmpty),
        },
        None => match RingLocation::of(target).read().await {
            Ok(None) => None,
            Ok(Some(_)) | Err(Error::Encryption(_)) => return Err(Error::NotEmpty),
            Err(error) => return Err(error),
        },
    };
    // If there is only a ring, the creation was interrupted after step 2, before the manifest was
    // written.
    let may_lack_manifest = keys.is_some();
    let partial = partial_clone(parent, unlocked, target, keys).await?;
    match &partial.manifest {
        Some(manifest) => source(manifest, parent).map(|_| Some(partial)),
        None if may_lack_manifest => Ok(Some(partial)),
        None => Err(Error::NotEmpty),
    }
}

/// Opens the objects of a clone with these keys. `keys` is `None` if and only if the parent is not
/// encrypted.
async fn partial_clone(
    parent: &StoreLocation,
    unlocked: Option<&UnlockedKeys>,
    target: &StoreLocation,
    keys: Option<Keys>,
) -> Result<PartialClone, Error> {
    let inner = Arc::clone(&target.object_store);
    let object_store: Arc<dyn ObjectStore> = match (unlocked, keys) {
        (Some(unlocked), Some(keys)) => {
            let path = |location: &StoreLocation| Path::from(location.path.as_str());
            let own = SealedObjects::new(inner, path(target), Arc::new(keys));
            Arc::new(own.sharing(path(parent), Arc::clone(&unlocked.keys), Access::Write))
        }
        _ => inner,
    };
    let admin = Admin::builder(target.path.clone(), Arc::clone(&object_store)).build();
    Ok(PartialClone { object_store, manifest: admin.read_manifest(None).await? })
}

/// Returns the pin from which a clone of this parent was created, and SlateDB's own pin.
fn source(
    manifest: &VersionedManifest,
    parent: &StoreLocation,
) -> Result<(Uuid, Option<Uuid>), Error> {
    let path = Path::from(parent.path.as_str());
    match manifest.external_dbs().as_slice() {
        [one] if one.path == path.as_ref() => {
            Ok((one.source_checkpoint_id, one.final_checkpoint_id))
        }
        _ => Err(Error::NotEmpty),
    }
}

/// The log of a clone. It is empty, because a pinned state is completely in sorted runs.
struct NoLog;

#[async_trait]
impl WalGc for NoLog {
    async fn collect(
        &self,
        _referenced: Vec<WalFileRange>,
        _min_age: Duration,
        _dry_run: bool,
    ) -> Result<(), WalError> {
        Ok(())
    }
}

#[async_trait]
impl WalAdmin for NoLog {
    fn garbage_collector(&self, _path: &Path) -> Arc<dyn WalGc> {
        Arc::new(Self)
    }

    async fn delete_wal(&self, _path: &Path, _dry_run: bool) -> Result<Vec<String>, WalError> {
        Ok(Vec::new())
    }

    async fn is_empty(&self, _path: &Path, _after: u64, _last: u64) -> Result<bool, WalError> {
        Ok(true)
    }

    async fn clone_wal(
        &self,
        _from: &Path,
        manifest: VersionedManifest,
        _to: &Path,
    ) -> Result<(u64, u64), WalError> {
        // Nothing is replayed. The numbers of the clone's log files follow those of the parent, as in
        // an unfinished clone: a start of the unfinished clone may have put files already.
        let after = manifest.replay_after_wal_id();
        Ok((after, after))
    }
}

#[cfg(test)]
mod tests;

//! Clones: a second store that starts with a state of this one, and shares its sorted runs instead
//! of copying them.
//!
//! Both are in one bucket, or on one machine. A clone's manifest references the sorted runs of its
//! parent. They exist as long as the parent has a *pin*, a checkpoint that makes the parent's
//! garbage collection skip them. Each of the two stores owns its later writes.
//!
//! Each step of the creation may be the last before a crash:
//! 1. The state is pinned in the parent ([`Store::pin`]).
//! 2. The clone of an encrypted store gets a ring, with the parent's keys to read and its own key
//!    to write.
//! 3. The clone gets a manifest ([`Store::share`]). It is then a store that shares objects but is
//!    not marked as a clone, and only the command that creates it opens it.
//! 4. One transaction makes the clone an independent catalog, with a record about its parent
//!    ([`Store::become_clone`]).
//!
//! A repeated creation continues after the completed steps ([`Store::begun_clone`]). No step
//! changes a record of the parent, and only the pin changes its manifest.
//!
//! A pinned state is completely in sorted runs, so no log is ever cloned.

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

use super::checkpoints::{CHECKPOINTS_MAX, Made, PINS, admin, listed};
use super::encryption::{Missing, Unlocked, unlock};
use super::error::Error;
use super::handle::Store;
use super::jobs::Work;
use super::key_ring::RingPlace;
use super::key_space::{CloneRule, KeySpace};
use super::keys::{JobKey, Key, StoreKey};
use super::location::Place;
use super::read::{Range, Read};
use super::records::{Change, CloneOf, FORMAT_OF_CLONES, StoreFormat};
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::Permit;
use slateberg_base::ids::PROBES;
use slateberg_kms::keys::Keys;
use slateberg_kms::sealed_objects::{Access, SealedObjects};

/// A clone as far as it was created.
struct Half {
    /// The clone's objects, through its keys, and the parent's objects through the parent's.
    object_store: Arc<dyn ObjectStore>,
    /// Manifest of the clone. `None` if it has none yet.
    manifest: Option<VersionedManifest>,
}

impl Store {
    /// Returns the pin of an unfinished clone at `target`. `None` if it has no pin yet, or was
    /// never started. Rejects a complete clone and anything else at `target`. Only reads.
    pub async fn begun_clone(parent: &Place, target: &Place) -> Result<Option<Uuid>, Error> {
        let (_, unlocked) = unlock(parent, Missing::Refuse).await?;
        let half = half(parent, unlocked.as_ref(), target).await?;
        let Some(manifest) = half.and_then(|half| half.manifest) else { return Ok(None) };
        if manifest.initialized() {
            let store = Self::open_offline(target).await?;
            if store.get(&StoreKey).await?.is_some_and(|format| format.clone_of.is_some()) {
                return Err(Error::NotEmpty);
            }
        }
        source(&manifest, parent).map(|(pin, _)| Some(pin))
    }

    /// Pins the state of a checkpoint for a clone. Works while a server runs.
    pub async fn pin(parent: &Place, of: Uuid, name: &str, now_ms: i64) -> Result<Made, Error> {
        let (parent, _) = unlock(parent, Missing::Refuse).await?;
        let known = listed(&parent, now_ms).await?;
        if known.len() >= CHECKPOINTS_MAX {
            return Ok(Made::TooMany(CHECKPOINTS_MAX));
        }
        if let Some(taken) = known.into_iter().find(|known| known.is_called(name)) {
            return Ok(Made::Taken(taken));
        }
        let options = CheckpointOptions {
            lifetime: None,
            source: Some(of),
            name: Some(format!("{PINS}{name}")),
        };
        let made = admin(&parent).create_detached_checkpoint(&options).await?;
        let lost = || Error::internal(format!("checkpoint {} is gone already", made.id));
        let found = listed(&parent, now_ms).await?.into_iter().find(|known| known.id == made.id);
        found.map(Made::Checkpoint).ok_or_else(lost)
    }

    /// Whether two checkpoints have the same state.
    pub async fn is_same_state(parent: &Place, one: Uuid, other: Uuid) -> Result<bool, Error> {
        let (parent, _) = unlock(parent, Missing::Refuse).await?;
        let pinned = admin(&parent).list_checkpoints(None).await?;
        let state = |id| pinned.iter().find(|pinned| pinned.id == id).map(|it| it.manifest_id);
        Ok(state(one).is_some() && state(one) == state(other))
    }

    /// Creates a store at `target` with the state of a pin, or continues an earlier attempt. Errors
    /// if the pin does not exist.
    pub async fn share(parent: &Place, pin: Uuid, target: &Place) -> Result<(), Error> {
        let plain = parent;
        let (parent, unlocked) = unlock(plain, Missing::Refuse).await?;
        let half = match half(plain, unlocked.as_ref(), target).await? {
            Some(half) => half,
            None => {
                let keys = match &unlocked {
                    Some(unlocked) => Some(unlocked.found_clone(&plain.path, target).await?),
                    None => None,
                };
                half_with(plain, unlocked.as_ref(), target, keys).await?
            }
        };
        let clone = Admin::builder(target.path.clone(), half.object_store)
            .with_wal_admin(Arc::new(NoLog))
            .build();
        if !half.manifest.is_some_and(|manifest| manifest.initialized()) {
            let source: CloneSourceSpec<(Bound<Bytes>, Bound<Bytes>)> = CloneSourceSpec {
                path: Path::from(plain.path.as_str()),
                checkpoint: Some(pin),
                projection_range: None,
            };
            clone.create_clone_builder_from_source(source).build().await?;
        }
        // SlateDB pins the same state again, without a name. One pin is enough, and users can see
        // ours; a clone never deletes SlateDB's by itself.
        let manifest = clone.read_manifest(None).await?;
        let manifest = manifest.ok_or_else(|| Error::internal("the clone is gone"))?;
        if let (_, Some(second)) = source(&manifest, plain)? {
            admin(&parent).delete_checkpoint(second).await?;
        }
        if !listed(&parent, i64::MIN).await?.iter().any(|known| known.id == pin) {
            return Err(Error::unavailable(format!("the checkpoint {pin} was deleted meanwhile")));
        }
        Ok(())
    }

    /// Makes a store with shared objects an independent catalog that is marked as a clone. Rejects
    /// a store that is marked already. [`CloneRule`] has the effect on each key space: outcomes of
    /// requests to the parent are left out, and so are token keys, because their holder can sign
    /// tokens for the parent.
    pub async fn become_clone(
        &self,
        permit: &Permit<Maintain>,
        catalog_id: Uuid,
        clone_of: &CloneOf,
        entry: &Change,
    ) -> Result<(), Error> {
        // An encrypted store got its id with its keys; this timeline is new in any case.
        let timeline = Some(catalog_id);
        let catalog_id = self.encrypted_catalog().unwrap_or(catalog_id);
        let (mut left_out, mut jobs) = (Vec::new(), Vec::new());
        for &space in KeySpace::ALL {
            let range = Range::all(space);
            match space.rules().clone {
                // The transaction writes the store's record and the entry of the change log.
                CloneRule::Share | CloneRule::NewIdentity | CloneRule::Append => {}
                CloneRule::LeaveOut => {
                    let mut entries = self.latest().iterate(&range).await?;
                    while let Some(entry) = entries.next().await? {
                        left_out.push(entry.key.to_vec());
                    }
                }
                CloneRule::Cancel => jobs = self.latest().scan::<JobKey>(&range, None).await?,
            }
        }
        let (left_out, jobs) = (&left_out, &jobs);
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
                left_out.iter().try_for_each(|key| t.delete_at(key.clone()))?;
                for (key, job) in jobs {
                    t.delete_at(key.encode())?;
                    if let Work::ReachableFrom { id, .. } = job.work {
                        t.delete_document(id).await?;
                    }
                }
                t.log(entry)
            })
            .await?;
        accepted.durable().await
    }

    /// Whether a clone can reference objects below a path. SlateDB encodes paths twice, so paths
    /// with encoded characters become wrong.
    pub fn can_share(path: &str) -> bool {
        !path.is_empty() && Path::from(path).as_ref() == path
    }

    /// Whether this store references objects of another one.
    pub(super) fn shares_objects(&self) -> bool {
        !self.db.manifest().external_dbs().is_empty()
    }
}

/// Opens an unfinished clone. `None` if nothing exists. Rejects a store of another parent.
async fn half(
    parent: &Place,
    unlocked: Option<&Unlocked>,
    target: &Place,
) -> Result<Option<Half>, Error> {
    let path = Path::from(target.path.as_str());
    let is_probe = |it: &Path| {
        let mut below = it.prefix_match(&path).into_iter().flatten();
        below.next().is_some_and(|name| name.as_ref().starts_with(PROBES))
    };
    let mut listed = target.object_store.list(Some(&path));
    loop {
        match listed.next().await {
            None => return Ok(None),
            Some(Ok(found)) if is_probe(&found.location) => {}
            Some(Ok(_)) => break,
            Some(Err(error)) => return Err(Error::unavailable(error)),
        }
    }
    drop(listed);
    let keys = match unlocked {
        Some(unlocked) => match unlocked.keys_of_clone(&parent.path, target).await? {
            Some(keys) => Some(keys),
            None => return Err(Error::NotEmpty),
        },
        None => match RingPlace::of(target).read().await {
            Ok(None) => None,
            Ok(Some(_)) | Err(Error::Encryption(_)) => return Err(Error::NotEmpty),
            Err(error) => return Err(error),
        },
    };
    // A store with only a ring is at the first step.
    let may_lack_manifest = keys.is_some();
    let half = half_with(parent, unlocked, target, keys).await?;
    match &half.manifest {
        Some(manifest) => source(manifest, parent).map(|_| Some(half)),
        None if may_lack_manifest => Ok(Some(half)),
        None => Err(Error::NotEmpty),
    }
}

/// Opens a clone with these keys, which exist if the parent has keys.
async fn half_with(
    parent: &Place,
    unlocked: Option<&Unlocked>,
    target: &Place,
    keys: Option<Keys>,
) -> Result<Half, Error> {
    let inner = Arc::clone(&target.object_store);
    let object_store: Arc<dyn ObjectStore> = match (unlocked, keys) {
        (Some(unlocked), Some(keys)) => {
            let path = |place: &Place| Path::from(place.path.as_str());
            let own = SealedObjects::new(inner, path(target), Arc::new(keys));
            Arc::new(own.sharing(path(parent), Arc::clone(&unlocked.keys), Access::Write))
        }
        _ => inner,
    };
    let admin = Admin::builder(target.path.clone(), Arc::clone(&object_store)).build();
    Ok(Half { object_store, manifest: admin.read_manifest(None).await? })
}

/// Returns the pin from which a clone of this parent was created, and SlateDB's own pin.
fn source(manifest: &VersionedManifest, parent: &Place) -> Result<(Uuid, Option<Uuid>), Error> {
    let path = Path::from(parent.path.as_str());
    match manifest.external_dbs().as_slice() {
        [one] if one.path == path.as_ref() => {
            Ok((one.source_checkpoint_id, one.final_checkpoint_id))
        }
        _ => Err(Error::NotEmpty),
    }
}

/// The empty log of a clone: a pinned state is completely in sorted runs.
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
        _manifest: VersionedManifest,
        _to: &Path,
    ) -> Result<(u64, u64), WalError> {
        // Nothing is replayed, and the clone's first log file is the first of all.
        Ok((0, 0))
    }
}

#[cfg(test)]
mod tests;

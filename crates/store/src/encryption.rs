//! Encryption of an open store: unlocks its keys, and changes its key ring.
//!
//! A store is encrypted from its first byte, or not at all. A key ring is created only for a new
//! store, and the settings must state whether the store is encrypted. So an attacker who removes
//! the ring cannot make a server write or read plain text.

use std::sync::Arc;

use futures::StreamExt;
use slatedb::object_store::path::Path;
use slatedb::object_store::{Error as ObjectError, ObjectStore, ObjectStoreExt};

use super::error::Error;
use super::key_ring::{RingLocation, StoredRing, WriteOutcome};
use super::location::StoreLocation;
pub use super::location::{Encryption, SharedKeys};
use slateberg_kms as kms;
use slateberg_kms::keys::{Keys, looks_sealed};
use slateberg_kms::ring::Ring;
use slateberg_kms::sealed_objects::{Access, SealedObjects};

/// Maximum number of attempts to change the ring.
const CHANGE_ATTEMPTS_MAX: usize = 8;

/// Keys of an open store, and the location of its ring.
pub(super) struct UnlockedKeys {
    pub(super) encryption: Encryption,
    ring: RingLocation,
    pub(super) keys: Arc<Keys>,
    /// Keys for the objects that a clone shares with its parent.
    pub(super) inherited: Option<InheritedKeys>,
    /// Serializes changes of the ring.
    ring_lock: tokio::sync::Mutex<()>,
}

/// Keys of a clone's parent, and the location of its objects.
pub(super) struct InheritedKeys {
    pub(super) below: Path,
    pub(super) keys: Arc<Keys>,
}

/// Behavior if the store does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// A new key ring is created.
    Create,
    /// It is an error.
    Reject,
}

/// Returns the location of the store, with encryption and decryption if the store is encrypted.
pub(super) async fn unlock(
    location: &StoreLocation,
    if_missing: IfMissing,
) -> Result<(StoreLocation, Option<UnlockedKeys>), Error> {
    let ring = RingLocation::of(location);
    let Some(encryption) = location.encryption.clone() else {
        return match ring.read().await {
            Ok(None) => Ok((location.clone(), None)),
            // Even an unreadable ring proves that the store is encrypted.
            Ok(Some(_)) | Err(Error::Encryption(_)) => Err(Error::Encrypted),
            Err(error) => Err(error),
        };
    };
    let (keys, inherited) = match ring.read().await? {
        Some(found) => open_ring(&found.ring, &encryption).await?,
        None => (create_ring(location, &encryption, &ring, if_missing).await?, None),
    };
    if let Some(shared) = &encryption.shared {
        shared.own.take_over(&keys)?;
    }
    let keys = Arc::new(keys);
    let sealed = |inner| -> Arc<dyn ObjectStore> {
        let own = SealedObjects::new(inner, Path::from(location.path.as_str()), Arc::clone(&keys));
        Arc::new(match &inherited {
            None => own,
            Some(InheritedKeys { below, keys }) => {
                own.sharing(below.clone(), Arc::clone(keys), Access::Read)
            }
        })
    };
    let object_store = sealed(Arc::clone(&location.object_store));
    let log = location.log.as_ref().map(|log| log.within(sealed(log.store())));
    let location = StoreLocation { object_store, log, ..location.clone() };
    let ring_lock = tokio::sync::Mutex::default();
    let unlocked = UnlockedKeys { encryption, ring, keys, inherited, ring_lock };
    Ok((location, Some(unlocked)))
}

/// Returns the location of an existing store, with decryption if the store is encrypted. Sends no
/// request if the settings have no encryption, because the start of the process has checked this.
pub(super) async fn unlock_again(
    location: &StoreLocation,
) -> Result<(StoreLocation, Option<UnlockedKeys>), Error> {
    match location.encryption {
        None => Ok((location.clone(), None)),
        Some(_) => unlock(location, IfMissing::Reject).await,
    }
}

/// Decrypts the keys of a ring. Returns the store's own keys and, for a clone, those of its parent.
async fn open_ring(
    ring: &Ring,
    encryption: &Encryption,
) -> Result<(Keys, Option<InheritedKeys>), Error> {
    let (kms, shared) = (encryption.kms.as_ref(), encryption.shared.as_ref());
    let keys = ring.unlock_with(kms, shared.map(|shared| shared.own.as_ref())).await?;
    let inherited = shared.and_then(|shared| shared.inherited.as_deref());
    let inherited = match (ring.inherited(), ring.unlock_inherited(kms, inherited).await?) {
        (Some(inherited), Some(keys)) => {
            let below = Path::from(inherited.path.as_str());
            Some(InheritedKeys { below, keys: Arc::new(keys) })
        }
        _ => None,
    };
    Ok((keys, inherited))
}

/// Creates the ring of a new store.
async fn create_ring(
    location: &StoreLocation,
    encryption: &Encryption,
    ring: &RingLocation,
    if_missing: IfMissing,
) -> Result<Keys, Error> {
    match any_manifest(location).await? {
        Some(manifest) if looks_sealed(&manifest) => return Err(Error::RingMissing),
        Some(_) => return Err(Error::NotEncrypted),
        None if if_missing == IfMissing::Reject => return Err(Error::RingMissing),
        None => {}
    }
    let kms = encryption.kms.as_ref();
    let now_ms = encryption.clock.now_ms();
    let (new_ring, keys) = Ring::create(kms, encryption.ids.random(), now_ms).await?;
    match ring.create(&new_ring).await? {
        WriteOutcome::Done => Ok(keys),
        // Another process created the ring at the same time, so the keys of that ring are used.
        WriteOutcome::Conflict => match ring.read().await? {
            Some(found) => Ok(found.ring.unlock(kms).await?),
            None => Err(Error::RingMissing),
        },
    }
}

/// Returns the first bytes of any manifest of the store, as stored in the bucket.
pub(super) async fn any_manifest(location: &StoreLocation) -> Result<Option<Vec<u8>>, Error> {
    let unavailable = |error: ObjectError| Error::unavailable(error);
    let prefix = Path::from(location.path.as_str()).join("manifest");
    let first = location.object_store.list(Some(&prefix)).next().await;
    let Some(first) = first.transpose().map_err(unavailable)? else { return Ok(None) };
    let bytes = location.object_store.get_range(&first.location, 0..first.size.min(64)).await;
    bytes.map(|bytes| Some(bytes.to_vec())).map_err(unavailable)
}

impl UnlockedKeys {
    /// Returns the keys for later openings of the store by this process.
    pub(super) fn into_shared(self) -> SharedKeys {
        let inherited = self.inherited.map(|inherited| inherited.keys);
        SharedKeys { own: self.keys, inherited }
    }

    /// Returns the last decryption failure.
    pub(super) fn failure(&self) -> Option<kms::Error> {
        let inherited = self.inherited.as_ref().and_then(|inherited| inherited.keys.failure());
        self.keys.failure().or(inherited)
    }

    /// Returns the keys of an unfinished clone of this store at `target`. Returns `None` if the
    /// clone has no ring yet. Errors if `target` has the ring of another store. `path` is the path
    /// of this store.
    pub(super) async fn keys_of_clone(
        &self,
        path: &str,
        target: &StoreLocation,
    ) -> Result<Option<Keys>, Error> {
        let Some(found) = RingLocation::of(target).read().await? else { return Ok(None) };
        let is_ours = found
            .ring
            .inherited()
            .is_some_and(|it| it.path == path && it.catalog == self.keys.catalog());
        if !is_ours {
            return Err(Error::NotEmpty);
        }
        Ok(Some(found.ring.unlock(self.encryption.kms.as_ref()).await?))
    }

    /// Creates the ring of a clone at `target`. `path` is the path of this store.
    pub(super) async fn create_clone_ring(
        &self,
        path: &str,
        target: &StoreLocation,
    ) -> Result<Keys, Error> {
        let Encryption { kms, clock, ids, .. } = &self.encryption;
        let own = self.read().await?.ring;
        let (ring, keys) = own.cloned(kms.as_ref(), path, ids.random(), clock.now_ms()).await?;
        match RingLocation::of(target).create(&ring).await? {
            WriteOutcome::Done => Ok(keys),
            WriteOutcome::Conflict => Err(Error::NotEmpty),
        }
    }

    /// Reads the ring again, because another process may have changed it, and returns whether it
    /// has changed.
    pub(super) async fn refresh(&self) -> Result<bool, Error> {
        let found = self.read().await?;
        if found.ring.active() == self.keys.active() {
            return Ok(false);
        }
        self.take_over(&found.ring).await?;
        Ok(true)
    }

    pub(super) async fn read(&self) -> Result<StoredRing, Error> {
        self.ring.read().await?.ok_or(Error::RingMissing)
    }

    async fn take_over(&self, ring: &Ring) -> Result<(), Error> {
        let kms = self.encryption.kms.as_ref();
        let keys = ring.unlock_with(kms, Some(&self.keys)).await?;
        Ok(self.keys.take_over(&keys)?)
    }

    /// Creates a new data key, which encrypts all later writes.
    pub(super) async fn rotate(&self) -> Result<Ring, Error> {
        let (encryption, keys) = (&self.encryption, &self.keys);
        let rotated = self.change(|ring| async move {
            let now_ms = encryption.clock.now_ms();
            let (ring, _) = ring.rotate(encryption.kms.as_ref(), keys, now_ms).await?;
            Ok(ring)
        });
        rotated.await
    }

    /// Changes the ring, and retries after concurrent changes. A new key is stored in the ring
    /// before it is used. So a crash cannot lose a key with which data was encrypted.
    pub(super) async fn change<C, F>(&self, change: C) -> Result<Ring, Error>
    where
        C: Fn(Ring) -> F,
        F: Future<Output = Result<Ring, kms::Error>>,
    {
        let _guard = self.ring_lock.lock().await;
        for _ in 0..CHANGE_ATTEMPTS_MAX {
            let found = self.read().await?;
            self.take_over(&found.ring).await?;
            let ring = change(found.ring.clone()).await?;
            if self.ring.replace(&found, &ring).await? == WriteOutcome::Done {
                self.take_over(&ring).await?;
                return Ok(ring);
            }
        }
        Err(Error::Contended { name: "key_ring", attempts: CHANGE_ATTEMPTS_MAX as u32 })
    }
}

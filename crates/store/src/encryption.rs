//! Encryption of an open store: whether it is encrypted, with which keys, and changes of the keys.
//!
//! A store is encrypted from its first byte on or not at all: a ring is created only for a new
//! store, and the settings have to state whether the store is encrypted. So an attacker cannot make
//! a server write or read plain text by removing the ring.

use std::sync::Arc;

use futures::StreamExt;
use slatedb::object_store::path::Path;
use slatedb::object_store::{Error as ObjectError, ObjectStore, ObjectStoreExt};

use super::error::Error;
use super::key_ring::{Found, RingPlace, Written};
pub use super::location::Encryption;
use super::location::Place;
use slateberg_kms::keys::{Keys, looks_sealed};
use slateberg_kms::ring::Ring;
use slateberg_kms::sealed_objects::{Access, SealedObjects};
use slateberg_kms::{self as kms, Kms};

/// Maximum number of attempts of a change of the ring.
const CHANGE_ATTEMPTS_MAX: usize = 8;

/// Keys of an open store, and the location of its ring.
pub(super) struct Unlocked {
    pub(super) encryption: Encryption,
    ring: RingPlace,
    pub(super) keys: Arc<Keys>,
    /// Keys for the objects that a clone shares with its parent.
    pub(super) inherited: Option<Inherited>,
    /// Serializes changes of the ring.
    changing: tokio::sync::Mutex<()>,
}

/// Keys of a clone's parent, and the location of its objects.
pub(super) struct Inherited {
    pub(super) below: Path,
    pub(super) keys: Arc<Keys>,
}

/// Behaviour for a store that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Found,
    Refuse,
}

/// Returns a location that reads and writes through the keys, if the store is encrypted.
pub(super) async fn unlock(
    place: &Place,
    missing: Missing,
) -> Result<(Place, Option<Unlocked>), Error> {
    let ring = RingPlace::of(place);
    let Some(encryption) = place.encryption.clone() else {
        return match ring.read().await {
            // Even an unreadable ring proves that the store is encrypted.
            Ok(None) => Ok((place.clone(), None)),
            Ok(Some(_)) | Err(Error::Encryption(_)) => Err(Error::Encrypted),
            Err(error) => Err(error),
        };
    };
    let (keys, inherited) = match ring.read().await? {
        Some(found) => open_ring(&found.ring, encryption.kms.as_ref()).await?,
        None => (found_ring(place, &encryption, &ring, missing).await?, None),
    };
    let keys = Arc::new(keys);
    let sealed = |inner| -> Arc<dyn ObjectStore> {
        let own = SealedObjects::new(inner, Path::from(place.path.as_str()), Arc::clone(&keys));
        Arc::new(match &inherited {
            None => own,
            Some(Inherited { below, keys }) => {
                own.sharing(below.clone(), Arc::clone(keys), Access::Read)
            }
        })
    };
    let object_store = sealed(Arc::clone(&place.object_store));
    let log = place.log.as_ref().map(|log| log.within(sealed(log.store())));
    let place = Place { object_store, log, ..place.clone() };
    let changing = tokio::sync::Mutex::default();
    let unlocked = Unlocked { encryption, ring, keys, inherited, changing };
    Ok((place, Some(unlocked)))
}

/// Opens a ring: its keys, and those of a clone's parent.
async fn open_ring(ring: &Ring, kms: &dyn Kms) -> Result<(Keys, Option<Inherited>), Error> {
    let keys = ring.unlock(kms).await?;
    let inherited = match (ring.inherited(), ring.unlock_inherited(kms).await?) {
        (Some(inherited), Some(keys)) => {
            let below = Path::from(inherited.path.as_str());
            Some(Inherited { below, keys: Arc::new(keys) })
        }
        _ => None,
    };
    Ok((keys, inherited))
}

/// Creates the ring of a new store.
async fn found_ring(
    place: &Place,
    encryption: &Encryption,
    ring: &RingPlace,
    missing: Missing,
) -> Result<Keys, Error> {
    match any_manifest(place).await? {
        Some(manifest) if looks_sealed(&manifest) => return Err(Error::RingMissing),
        Some(_) => return Err(Error::NotEncrypted),
        None if missing == Missing::Refuse => return Err(Error::RingMissing),
        None => {}
    }
    let kms = encryption.kms.as_ref();
    let now_ms = encryption.clock.now_ms();
    let (founded, keys) = Ring::found(kms, encryption.ids.random(), now_ms).await?;
    match ring.create(&founded).await? {
        Written::Done => Ok(keys),
        // A concurrent start has created the ring.
        Written::Outrun => match ring.read().await? {
            Some(found) => Ok(found.ring.unlock(kms).await?),
            None => Err(Error::RingMissing),
        },
    }
}

/// Returns the beginning of a manifest of the store, as stored in the bucket.
pub(super) async fn any_manifest(place: &Place) -> Result<Option<Vec<u8>>, Error> {
    let unavailable = |error: ObjectError| Error::unavailable(error);
    let prefix = Path::from(place.path.as_str()).join("manifest");
    let first = place.object_store.list(Some(&prefix)).next().await;
    let Some(first) = first.transpose().map_err(unavailable)? else { return Ok(None) };
    let bytes = place.object_store.get_range(&first.location, 0..first.size.min(64)).await;
    bytes.map(|bytes| Some(bytes.to_vec())).map_err(unavailable)
}

impl Unlocked {
    /// Returns the last decryption failure.
    pub(super) fn failure(&self) -> Option<kms::Error> {
        let inherited = self.inherited.as_ref().and_then(|inherited| inherited.keys.failure());
        self.keys.failure().or(inherited)
    }

    /// Returns the keys of an unfinished clone at `target`. `None` if it has no ring. Rejects the
    /// ring of another store.
    pub(super) async fn keys_of_clone(
        &self,
        path: &str,
        target: &Place,
    ) -> Result<Option<Keys>, Error> {
        let Some(found) = RingPlace::of(target).read().await? else { return Ok(None) };
        let is_ours = found
            .ring
            .inherited()
            .is_some_and(|it| it.path == path && it.catalog == self.keys.catalog());
        if !is_ours {
            return Err(Error::NotEmpty);
        }
        Ok(Some(found.ring.unlock(self.encryption.kms.as_ref()).await?))
    }

    /// Creates the ring of a clone at `path`.
    pub(super) async fn found_clone(&self, path: &str, target: &Place) -> Result<Keys, Error> {
        let Encryption { kms, clock, ids } = &self.encryption;
        let own = self.read().await?.ring;
        let (ring, keys) = own.cloned(kms.as_ref(), path, ids.random(), clock.now_ms()).await?;
        match RingPlace::of(target).create(&ring).await? {
            Written::Done => Ok(keys),
            Written::Outrun => Err(Error::NotEmpty),
        }
    }

    /// Reads changes of the ring by other processes. Returns whether there were any.
    pub(super) async fn refresh(&self) -> Result<bool, Error> {
        let found = self.read().await?;
        if found.ring.active() == self.keys.active() {
            return Ok(false);
        }
        self.take_over(&found.ring).await?;
        Ok(true)
    }

    pub(super) async fn read(&self) -> Result<Found, Error> {
        self.ring.read().await?.ok_or(Error::RingMissing)
    }

    async fn take_over(&self, ring: &Ring) -> Result<(), Error> {
        let kms = self.encryption.kms.as_ref();
        let keys = ring.unlock_with(kms, Some(&self.keys)).await?;
        Ok(self.keys.take_over(&keys)?)
    }

    /// Changes the ring, and retries after concurrent changes. The new ring is written before any
    /// of its keys is used, so that a crash cannot lose a key that encrypted anything.
    pub(super) async fn change<C, F>(&self, change: C) -> Result<Ring, Error>
    where
        C: Fn(Ring) -> F,
        F: Future<Output = Result<Ring, kms::Error>>,
    {
        let _changing = self.changing.lock().await;
        for _ in 0..CHANGE_ATTEMPTS_MAX {
            let found = self.read().await?;
            self.take_over(&found.ring).await?;
            let ring = change(found.ring.clone()).await?;
            if self.ring.replace(&found, &ring).await? == Written::Done {
                self.take_over(&ring).await?;
                return Ok(ring);
            }
        }
        Err(Error::Contended { name: "key_ring", attempts: CHANGE_ATTEMPTS_MAX as u32 })
    }
}

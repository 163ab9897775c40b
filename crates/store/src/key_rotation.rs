//! Changes of the keys of an open store.

use uuid::Uuid;

use super::error::Error;
use super::handle::Store;
use slateberg_authz::action::ManageEncryption;
use slateberg_authz::permit::Permit;
use slateberg_kms::ring::Ring;

impl Store {
    /// The catalog's id that an encrypted store is bound to.
    pub fn encrypted_catalog(&self) -> Option<Uuid> {
        self.shared.unlocked.as_ref().map(|unlocked| unlocked.keys.catalog())
    }

    /// The key ring, as it is kept at this moment; none of a store that is not encrypted.
    pub async fn key_ring(
        &self,
        _permit: &Permit<ManageEncryption>,
    ) -> Result<Option<Ring>, Error> {
        match &self.shared.unlocked {
            None => Ok(None),
            Some(unlocked) => Ok(Some(unlocked.read().await?.ring)),
        }
    }

    /// Seals what is written from now on with a new data key. None for a store that is not encrypted.
    pub async fn rotate_data_key(
        &self,
        _permit: &Permit<ManageEncryption>,
    ) -> Result<Option<Ring>, Error> {
        let Some(unlocked) = &self.shared.unlocked else { return Ok(None) };
        let (encryption, keys) = (&unlocked.encryption, &unlocked.keys);
        let rotated = unlocked.change(|ring| async move {
            let now_ms = encryption.clock.now_ms();
            let (ring, _) = ring.rotated(encryption.kms.as_ref(), keys, now_ms).await?;
            Ok(ring)
        });
        rotated.await.map(Some)
    }

    /// Has all data keys wrapped anew: by this wrapping key, or by the one of the settings. None for a
    /// store that is not encrypted.
    pub async fn rewrap_data_keys(
        &self,
        _permit: &Permit<ManageEncryption>,
        wrapping_key: Option<&str>,
    ) -> Result<Option<Ring>, Error> {
        let Some(unlocked) = &self.shared.unlocked else { return Ok(None) };
        let (encryption, keys) = (&unlocked.encryption, &unlocked.keys);
        let inherited = unlocked.inherited.as_ref().map(|inherited| inherited.keys.as_ref());
        let rewrapped = unlocked.change(|ring| async move {
            let now_ms = encryption.clock.now_ms();
            let known = (keys.as_ref(), inherited);
            ring.rewrapped(encryption.kms.as_ref(), known, wrapping_key, now_ms).await
        });
        rewrapped.await.map(Some)
    }
}

//! Changes the keys of an open store: creates new data keys, and wraps existing data keys again.

use uuid::Uuid;

use super::error::Error;
use super::handle::Store;
use slateberg_authz::action::ManageEncryption;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_kms::ring::Ring;

impl Store {
    /// Returns the catalog id to which the keys of an encrypted store are bound. Returns `None` if
    /// the store is not encrypted.
    pub(crate) fn encrypted_catalog(&self) -> Option<Uuid> {
        self.shared.unlocked.as_ref().map(|unlocked| unlocked.keys.catalog())
    }

    /// Reads the current key ring. Returns `None` if the store is not encrypted.
    #[boxed]
    pub async fn key_ring(
        &self,
        _permit: &Permit<ManageEncryption>,
    ) -> Result<Option<Ring>, Error> {
        match &self.shared.unlocked {
            None => Ok(None),
            Some(unlocked) => Ok(Some(unlocked.read().await?.ring)),
        }
    }

    /// Creates a new data key, which encrypts all later writes. Returns `None` if the store is not
    /// encrypted.
    #[boxed]
    pub async fn rotate_data_key(
        &self,
        _permit: &Permit<ManageEncryption>,
    ) -> Result<Option<Ring>, Error> {
        match &self.shared.unlocked {
            None => Ok(None),
            Some(unlocked) => unlocked.rotate().await.map(Some),
        }
    }

    /// Wraps all data keys again with `wrapping_key`. If that is `None`, uses the wrapping key in
    /// the settings. Returns `None` if the store is not encrypted.
    #[boxed]
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
            ring.rewrap(encryption.kms.as_ref(), known, wrapping_key, now_ms).await
        });
        rewrapped.await.map(Some)
    }
}

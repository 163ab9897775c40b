//! The key ring: the object beside a store that contains the wrapped data keys.
//!
//! The ring is JSON. The ring need not be secret, but it is protected against changes: a MAC covers
//! the whole ring. The key of this MAC is derived from the active data key. In addition, the KMS
//! binds each data key to the catalog and to the key's number. Data keys are never removed, so that
//! all data ever written stays readable.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::data_key::DataKey;
use super::error::Error;
use super::keys::{Keys, extract};
use super::mac_key::MacKey;
use super::{Binding, Kms, WrappedBytes};
use slateberg_base::error_chain::Cause;

/// The format of the ring of a store that is not a clone.
const FORM: u32 = 1;
/// The format of the ring of a clone, which also contains keys of another catalog. A binary that
/// does not know this format rejects the ring.
const FORM_OF_CLONES: u32 = 2;

/// A key ring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ring {
    form: u32,
    catalog: Uuid,
    /// Increases with each change.
    revision: u64,
    /// The number of the data key with which new data is sealed.
    active: u32,
    data_keys: Vec<WrappedKey>,
    /// The keys of a clone's parent. `None` if the store is not a clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inherited: Option<InheritedKeys>,
    /// HMAC-SHA-256 of the ring without this field, in base64.
    mac: String,
}

/// The keys for the objects that a clone shares with its parent. They are used only to open data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InheritedKeys {
    /// The parent's catalog, to which these keys and the objects are bound.
    pub catalog: Uuid,
    /// The parent's path in the bucket or on the machine. Objects below it belong to the parent.
    pub path: String,
    /// The parent's data keys at the time of cloning.
    data_keys: Vec<WrappedKey>,
}

/// A wrapped data key in the ring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrappedKey {
    /// The number of the key.
    pub number: u32,
    /// Creation time, in milliseconds since 1970.
    pub created_ms: i64,
    /// The kind of KMS that holds the wrapping key.
    pub kms: String,
    /// The name of the wrapping key.
    pub wrapping_key: String,
    /// Time of wrapping, in milliseconds since 1970.
    pub wrapped_ms: i64,
    /// The wrapped key, in base64.
    wrapped: String,
}

impl WrappedKey {
    async fn wrap(
        kms: &dyn Kms,
        data_key: &DataKey,
        binding: &Binding,
        wrapping_key: Option<&str>,
        now_ms: i64,
    ) -> Result<Self, Error> {
        let wrapped = kms.wrap(data_key, binding, wrapping_key).await?;
        Ok(Self {
            number: binding.data_key,
            created_ms: now_ms,
            kms: kms.kind().to_owned(),
            wrapping_key: wrapped.wrapping_key,
            wrapped_ms: now_ms,
            wrapped: STANDARD.encode(wrapped.bytes),
        })
    }

    async fn unwrap(&self, kms: &dyn Kms, catalog: Uuid) -> Result<(u32, DataKey), Error> {
        if self.kms != kms.kind() {
            return Err(Error::Setting(format!(
                "encryption.kms: data key {} is wrapped by KMS \"{}\", but the configured KMS is \"{}\"",
                self.number,
                self.kms,
                kms.kind()
            )));
        }
        let bytes = STANDARD.decode(&self.wrapped);
        let bytes = bytes.map_err(|error| {
            Error::Ring(Cause::about(format_args!("data key {}", self.number), error))
        })?;
        let wrapped = WrappedBytes { wrapping_key: self.wrapping_key.clone(), bytes };
        let binding = Binding { catalog, data_key: self.number };
        Ok((self.number, kms.unwrap(&wrapped, &binding).await?))
    }
}

impl Ring {
    /// Creates the ring of a new store, with one data key.
    pub async fn create(kms: &dyn Kms, catalog: Uuid, now_ms: i64) -> Result<(Self, Keys), Error> {
        let (data_key, binding) = (DataKey::random(), Binding { catalog, data_key: 1 });
        let wrapped = WrappedKey::wrap(kms, &data_key, &binding, None, now_ms).await?;
        let keys = Keys::new(catalog, BTreeMap::from([(1, data_key)]), 1)?;
        let ring = Self {
            form: FORM,
            catalog,
            revision: 1,
            active: 1,
            data_keys: vec![wrapped],
            inherited: None,
            mac: String::new(),
        };
        Ok((ring.sign(&keys)?, keys))
    }

    /// Creates the ring for a clone. `self` is the ring of the parent, and `path` is the path of
    /// the parent. The number of the clone's own data key is greater than all numbers of the
    /// parent, so that each number identifies one key.
    pub async fn cloned(
        &self,
        kms: &dyn Kms,
        path: &str,
        catalog: Uuid,
        now_ms: i64,
    ) -> Result<(Self, Keys), Error> {
        if self.inherited.is_some() {
            return Err(Error::Ring(Cause::new("a clone cannot be cloned")));
        }
        let number = self.next_number()?;
        let (data_key, binding) = (DataKey::random(), Binding { catalog, data_key: number });
        let with = self.wrapped(self.active).map(|active| active.wrapping_key.as_str());
        let wrapped = WrappedKey::wrap(kms, &data_key, &binding, with, now_ms).await?;
        let keys = Keys::new(catalog, BTreeMap::from([(number, data_key)]), number)?;
        let inherited = InheritedKeys {
            catalog: self.catalog,
            path: path.to_owned(),
            data_keys: self.data_keys.clone(),
        };
        let ring = Self {
            form: FORM_OF_CLONES,
            catalog,
            revision: 1,
            active: number,
            data_keys: vec![wrapped],
            inherited: Some(inherited),
            mac: String::new(),
        };
        Ok((ring.sign(&keys)?, keys))
    }

    /// Unwraps all data keys and verifies that the ring is unchanged.
    pub async fn unlock(&self, kms: &dyn Kms) -> Result<Keys, Error> {
        self.unlock_with(kms, None).await
    }

    /// Like [`unlock`](Self::unlock), but requests only those data keys from the KMS that are not
    /// in `known`.
    pub async fn unlock_with(&self, kms: &dyn Kms, known: Option<&Keys>) -> Result<Keys, Error> {
        if let Some(known) = known
            && known.catalog() != self.catalog
        {
            return Err(Error::Ring(Cause::new(format!(
                "it belongs to another catalog, {}",
                self.catalog
            ))));
        }
        let data_keys = unwrap_all(&self.data_keys, self.catalog, kms, known).await?;
        let keys = Keys::new(self.catalog, data_keys, self.active)?;
        if !self.mac_key(&keys)?.verify(&self.unsigned_bytes()?, self.mac.as_bytes()) {
            return Err(Error::Ring(Cause::new("its MAC does not match")));
        }
        Ok(keys)
    }

    /// Returns the keys of a clone's parent. `None` if the store is not a clone. Requests only those
    /// keys from the KMS that are not in `known`. The ring must be unlocked first, which verifies
    /// that it is unchanged.
    pub async fn unlock_inherited(
        &self,
        kms: &dyn Kms,
        known: Option<&Keys>,
    ) -> Result<Option<Keys>, Error> {
        let Some(InheritedKeys { catalog, data_keys, .. }) = &self.inherited else {
            return Ok(None);
        };
        let data_keys = unwrap_all(data_keys, *catalog, kms, known).await?;
        let newest = data_keys.keys().next_back().copied().unwrap_or_default();
        Keys::new(*catalog, data_keys, newest).map(Some)
    }

    /// Returns the ring with a new data key, wrapped by the current wrapping key. New data is
    /// sealed with this data key from now on.
    pub async fn rotate(
        &self,
        kms: &dyn Kms,
        known: &Keys,
        now_ms: i64,
    ) -> Result<(Self, Keys), Error> {
        let before = self.unlock_with(kms, Some(known)).await?;
        let (number, active) = (self.next_number()?, self.wrapped(self.active));
        let (data_key, binding) =
            (DataKey::random(), Binding { catalog: self.catalog, data_key: number });
        let with = active.map(|active| active.wrapping_key.as_str());
        let wrapped = WrappedKey::wrap(kms, &data_key, &binding, with, now_ms).await?;
        let mut data_keys: BTreeMap<_, _> = self
            .data_keys
            .iter()
            .filter_map(|known| Some((known.number, before.data_key(known.number)?)))
            .collect();
        data_keys.insert(number, data_key);
        let keys = Keys::new(self.catalog, data_keys, number)?;
        let mut ring = Self { revision: self.revision + 1, active: number, ..self.clone() };
        ring.data_keys.push(wrapped);
        Ok((ring.sign(&keys)?, keys))
    }

    /// Returns the ring with newly wrapped data keys, including those of a clone's parent. They are
    /// wrapped with `wrapping_key` or, if it is `None`, with the configured wrapping key. The old
    /// wrapping key is not needed, because the data keys are in memory.
    pub async fn rewrap(
        &self,
        kms: &dyn Kms,
        (known, parents): (&Keys, Option<&Keys>),
        wrapping_key: Option<&str>,
        now_ms: i64,
    ) -> Result<Self, Error> {
        let known_keys = self.unlock_with(kms, Some(known)).await?;
        let rewrap_all = async |all: &[WrappedKey], keys: &Keys| {
            let wrapping = all.iter().map(|known| async {
                let binding = Binding { catalog: keys.catalog(), data_key: known.number };
                let data_key = keys.data_key(known.number);
                let data_key = data_key.ok_or(Error::UnknownDataKey(known.number))?;
                let wrapped = WrappedKey::wrap(kms, &data_key, &binding, wrapping_key, now_ms);
                Ok(WrappedKey { created_ms: known.created_ms, ..wrapped.await? })
            });
            try_join_all(wrapping).await
        };
        let data_keys = rewrap_all(&self.data_keys, &known_keys).await?;
        let inherited = match (&self.inherited, parents) {
            (Some(inherited), Some(parents)) => {
                let data_keys = rewrap_all(&inherited.data_keys, parents).await?;
                Some(InheritedKeys { data_keys, ..inherited.clone() })
            }
            (Some(_), None) => {
                return Err(Error::Ring(Cause::new(
                    "the keys of the clone's parent are not unlocked",
                )));
            }
            (None, _) => None,
        };
        let ring = Self { revision: self.revision + 1, data_keys, inherited, ..self.clone() };
        // The caller replaces the current ring with this new ring. So the KMS first unwraps all
        // keys of the new ring, which proves that the new ring can be unlocked.
        let ring = ring.sign(&known_keys)?;
        ring.unlock(kms).await?;
        ring.unlock_inherited(kms, None).await?;
        Ok(ring)
    }

    /// Returns the catalog of the ring.
    pub fn catalog(&self) -> Uuid {
        self.catalog
    }

    /// Returns the revision, which increases with each change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the number of the data key with which new data is sealed.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Returns the data keys, oldest first: the keys of a clone's parent, then the store's own
    /// keys.
    pub fn data_keys(&self) -> impl Iterator<Item = &WrappedKey> {
        self.inherited.iter().flat_map(|inherited| &inherited.data_keys).chain(&self.data_keys)
    }

    /// Returns the keys of a clone's parent. `None` if the store is not a clone.
    pub fn inherited(&self) -> Option<&InheritedKeys> {
        self.inherited.as_ref()
    }

    /// Returns the ring in its stored form.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let text = serde_json::to_vec_pretty(self);
        text.map_err(|error| Error::Ring(Cause::new(error)))
    }

    /// Parses the stored form of a ring.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let ring: Self =
            serde_json::from_slice(bytes).map_err(|error| Error::Ring(Cause::new(error)))?;
        let known = if ring.inherited.is_some() { FORM_OF_CLONES } else { FORM };
        if ring.form != known {
            return Err(Error::Ring(Cause::new(format!(
                "it has format {}, but this slateberg supports only format {FORM}, or {FORM_OF_CLONES} for clones",
                ring.form
            ))));
        }
        if ring.to_bytes()? != bytes {
            return Err(Error::Ring(Cause::new(
                "its JSON differs from the form that slateberg writes",
            )));
        }
        Ok(ring)
    }

    /// Returns an unused key number, greater than all numbers of the store and its parent.
    fn next_number(&self) -> Result<u32, Error> {
        let newest = self.data_keys().map(|known| known.number).max().unwrap_or(0);
        newest.checked_add(1).ok_or_else(|| Error::Ring(Cause::new("all key numbers are used")))
    }

    fn wrapped(&self, number: u32) -> Option<&WrappedKey> {
        self.data_keys.iter().find(|known| known.number == number)
    }

    fn sign(self, keys: &Keys) -> Result<Self, Error> {
        let mac = self.mac_key(keys)?.sign(&self.unsigned_bytes()?);
        Ok(Self { mac, ..self })
    }

    fn unsigned_bytes(&self) -> Result<Vec<u8>, Error> {
        Self { mac: String::new(), ..self.clone() }.to_bytes()
    }

    fn mac_key(&self, keys: &Keys) -> Result<MacKey, Error> {
        let data_key = keys.data_key(self.active).ok_or(Error::UnknownDataKey(self.active))?;
        MacKey::derive(&extract(&data_key, self.catalog.as_bytes()), b"slateberg key ring")
    }
}

/// Returns the data keys of a catalog. Requests only those from the KMS that are not in `known`.
async fn unwrap_all(
    wrapped: &[WrappedKey],
    catalog: Uuid,
    kms: &dyn Kms,
    known: Option<&Keys>,
) -> Result<BTreeMap<u32, DataKey>, Error> {
    let unwrapping = wrapped.iter().map(|wrapped| async {
        match known.and_then(|known| known.data_key(wrapped.number)) {
            Some(data_key) => Ok((wrapped.number, data_key)),
            None => wrapped.unwrap(kms, catalog).await,
        }
    });
    Ok(try_join_all(unwrapping).await?.into_iter().collect())
}

#[cfg(test)]
mod tests;

//! The data keys of an open store, in memory, and the format of the data that they seal.
//!
//! Format of sealed data; numbers are big-endian:
//!
//! | bytes | content |
//! |---|---|
//! | 1 | format: 1 |
//! | 4 | the data key's number |
//! | 16 | the salt of the session key |
//! | 8 | the counter that is the nonce |
//! | as long as the plain text | cipher text of AES-256-GCM |
//! | 16 | its tag |
//!
//! A process generates a salt when it opens the store and when the data key is rotated. It derives
//! a session key from the data key and the salt with HKDF-SHA-256, and uses a counter as the nonce.
//! So no session key is used twice with the same nonce. AES-GCM's limit of 2^32 messages per key
//! applies only to random nonces. So the cipher never requires a rotation of the data key.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use uuid::Uuid;

use super::data_key::DataKey;
use super::error::Error;
use super::mac_key::MacKey;
use slateberg_base::secret::random_bytes;

/// The format version of sealed data.
const FORM: u8 = 1;
const SALT: usize = 16;
const COUNTER: usize = 8;
const TAG: usize = 16;
/// Number of bytes before the cipher text.
const HEADER: usize = 1 + 4 + SALT + COUNTER;
/// Difference in length between sealed and plain data, in bytes.
pub const OVERHEAD: usize = HEADER + TAG;
/// Maximum number of cached session keys of other processes.
const SESSIONS_MAX: usize = 4096;

/// The purpose of sealed data. Data that was sealed for one purpose, position and catalog cannot be
/// opened for any other purpose, position or catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// A block of SlateDB, whose position is not known.
    Block,
    /// A frame of the local WAL.
    Frame {
        /// The frame's number.
        number: u64,
        /// The epoch of the frame's writer.
        epoch: u64,
    },
    /// A chunk of an object.
    Chunk {
        /// The object's path, relative to the store's path.
        path: &'a str,
        /// The chunk's index in the object, counted from 0.
        index: u64,
        /// Whether it is the object's last chunk.
        is_last: bool,
    },
}

impl Purpose<'_> {
    /// Returns the data that is authenticated together with the cipher text.
    fn associated_data(&self, catalog: Uuid) -> Vec<u8> {
        let mut data = Vec::with_capacity(64);
        data.extend_from_slice(catalog.as_bytes());
        match self {
            Self::Block => data.push(1),
            Self::Frame { number, epoch } => {
                data.push(2);
                data.extend_from_slice(&number.to_be_bytes());
                data.extend_from_slice(&epoch.to_be_bytes());
            }
            Self::Chunk { path, index, is_last } => {
                data.push(3);
                data.extend_from_slice(&index.to_be_bytes());
                data.push(u8::from(*is_last));
                data.extend_from_slice(path.as_bytes());
            }
        }
        data
    }

    fn name(&self) -> String {
        match self {
            Self::Block => "a block".to_owned(),
            Self::Frame { number, .. } => format!("frame {number} of the journal"),
            Self::Chunk { path, .. } => format!("the object {path}"),
        }
    }

    fn tampered(&self, reason: &'static str) -> Error {
        Error::Tampered { what: self.name(), reason }
    }
}

/// The data keys of an open store. They are zeroized when the last handle is dropped.
pub struct Keys {
    catalog: Uuid,
    state: RwLock<State>,
    /// The last error of opening data.
    failure: Mutex<Option<Error>>,
}

struct State {
    data_keys: BTreeMap<u32, DataKey>,
    active: Arc<Session>,
    /// Cached session keys of other processes.
    sessions: HashMap<(u32, [u8; SALT]), Arc<LessSafeKey>>,
}

/// A session key with which this process seals.
struct Session {
    data_key: u32,
    salt: [u8; SALT],
    key: LessSafeKey,
    next: AtomicU64,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl Keys {
    /// Creates the keys of a catalog. New data is sealed with the key `active`.
    pub(super) fn new(
        catalog: Uuid,
        data_keys: BTreeMap<u32, DataKey>,
        active: u32,
    ) -> Result<Self, Error> {
        let active = Arc::new(Session::begin(&data_keys, active, catalog)?);
        let state = State { data_keys, active, sessions: HashMap::new() };
        Ok(Self { catalog, state: RwLock::new(state), failure: Mutex::default() })
    }

    /// Returns the catalog to which all sealed data is bound.
    pub fn catalog(&self) -> Uuid {
        self.catalog
    }

    /// Returns the number of the data key with which new data is sealed.
    pub fn active(&self) -> u32 {
        self.session().data_key
    }

    /// Whether the header of sealed data contains the number of one of these keys.
    pub fn knows(&self, sealed: &[u8]) -> bool {
        let number = SealedParts::parse(sealed).map(|parts| parts.data_key);
        number.is_some_and(|number| self.read().data_keys.contains_key(&number))
    }

    /// Returns a data key by its number.
    pub(super) fn data_key(&self, number: u32) -> Option<DataKey> {
        self.read().data_keys.get(&number).cloned()
    }

    /// Derives a key for message authentication codes with this purpose from the oldest data key. A
    /// ring keeps all data keys, so the result stays the same when the data key is rotated.
    pub fn mac_key(&self, purpose: &[u8]) -> Result<MacKey, Error> {
        let state = self.read();
        let (_, oldest) = state.data_keys.first_key_value().ok_or(Error::UnknownDataKey(1))?;
        MacKey::derive(&extract(oldest, self.catalog.as_bytes()), purpose)
    }

    /// Adds the keys of another ring of this catalog. From now on, the active key of that ring
    /// seals new data. The existing keys stay.
    pub fn take_over(&self, others: &Self) -> Result<(), Error> {
        let (keys, active) = {
            let others = others.read();
            (others.data_keys.clone(), others.active.data_key)
        };
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.data_keys.extend(keys);
        if state.active.data_key != active {
            state.active = Arc::new(Session::begin(&state.data_keys, active, self.catalog)?);
        }
        Ok(())
    }

    /// Seals data.
    pub(crate) fn seal(&self, purpose: Purpose<'_>, plain: &[u8]) -> Result<Vec<u8>, Error> {
        let mut sealed = Vec::with_capacity(plain.len() + OVERHEAD);
        self.seal_into(purpose, plain, &mut sealed)?;
        Ok(sealed)
    }

    /// Seals data and appends it to a buffer.
    pub fn seal_into(
        &self,
        purpose: Purpose<'_>,
        plain: &[u8],
        sealed: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let session = self.session();
        let counter = session.next.fetch_add(1, Ordering::Relaxed);
        sealed.push(FORM);
        sealed.extend_from_slice(&session.data_key.to_be_bytes());
        sealed.extend_from_slice(&session.salt);
        sealed.extend_from_slice(&counter.to_be_bytes());
        let begin = sealed.len();
        sealed.extend_from_slice(plain);
        let data = Aad::from(purpose.associated_data(self.catalog));
        let text = &mut sealed[begin..];
        let tag = session.key.seal_in_place_separate_tag(nonce(counter), data, text);
        let tag =
            tag.map_err(|_| Error::Setting(format!("encryption: {} is too long", purpose.name())))?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// Opens data that was sealed for the same purpose.
    pub fn open(&self, purpose: Purpose<'_>, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let mut plain = Vec::with_capacity(sealed.len().saturating_sub(OVERHEAD));
        self.open_into(purpose, sealed, &mut plain)?;
        Ok(plain)
    }

    /// Opens data that was sealed for the same purpose, and appends it to a buffer.
    pub(crate) fn open_into(
        &self,
        purpose: Purpose<'_>,
        sealed: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let opened = self.try_open_into(purpose, sealed, plain);
        if let Err(error) = &opened {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            *failure = Some(error.clone());
        }
        opened
    }

    /// Returns the last error of opening data, if any. The error is recorded here, because a caller
    /// such as SlateDB may report the failure without its reason.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn try_open_into(
        &self,
        purpose: Purpose<'_>,
        sealed: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let parts =
            SealedParts::parse(sealed).ok_or_else(|| purpose.tampered("it is not sealed"))?;
        let key = self.session_key(parts.data_key, parts.salt)?;
        let data = Aad::from(purpose.associated_data(self.catalog));
        let begin = plain.len();
        plain.resize(begin + parts.text.len(), 0);
        let (nonce, out) = (nonce(parts.counter), &mut plain[begin..]);
        let opened = key.open_separate_gather(nonce, data, parts.text, parts.tag, out);
        opened.map_err(|_| {
            plain.truncate(begin);
            purpose.tampered("its tag does not match")
        })
    }

    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.read().active)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session key with which data was sealed.
    fn session_key(&self, number: u32, salt: [u8; SALT]) -> Result<Arc<LessSafeKey>, Error> {
        if let Some(known) = self.read().sessions.get(&(number, salt)) {
            return Ok(Arc::clone(known));
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let data_key = state.data_keys.get(&number).ok_or(Error::UnknownDataKey(number))?;
        let key = Arc::new(derive(data_key, &salt, self.catalog)?);
        if state.sessions.len() >= SESSIONS_MAX {
            state.sessions.clear();
        }
        state.sessions.insert((number, salt), Arc::clone(&key));
        Ok(key)
    }
}

impl Session {
    fn begin(keys: &BTreeMap<u32, DataKey>, number: u32, catalog: Uuid) -> Result<Self, Error> {
        let salt = random_bytes();
        let data_key = keys.get(&number).ok_or(Error::UnknownDataKey(number))?;
        let key = derive(data_key, &salt, catalog)?;
        Ok(Self { data_key: number, salt, key, next: AtomicU64::new(0) })
    }
}

/// Sealed data, split into its parts.
struct SealedParts<'a> {
    data_key: u32,
    salt: [u8; SALT],
    counter: u64,
    text: &'a [u8],
    tag: &'a [u8],
}

impl<'a> SealedParts<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (form, rest) = bytes.split_first()?;
        let (data_key, rest) = rest.split_first_chunk()?;
        let (salt, rest) = rest.split_first_chunk()?;
        let (counter, rest) = rest.split_first_chunk()?;
        let (text, tag) = rest.split_at_checked(rest.len().checked_sub(TAG)?)?;
        (*form == FORM).then_some(Self {
            data_key: u32::from_be_bytes(*data_key),
            salt: *salt,
            counter: u64::from_be_bytes(*counter),
            text,
            tag,
        })
    }
}

/// Whether the first bytes are those of sealed data.
pub fn looks_sealed(bytes: &[u8]) -> bool {
    bytes.len() >= OVERHEAD && bytes[0] == FORM && bytes[1..3] == [0, 0]
}

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - COUNTER..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// Derives a session key from a data key and a salt.
fn derive(data_key: &DataKey, salt: &[u8], catalog: Uuid) -> Result<LessSafeKey, Error> {
    let defect = |_| Error::Setting("encryption: a session key cannot be derived".to_owned());
    let info = [b"slateberg session key".as_slice(), catalog.as_bytes()];
    let secret = extract(data_key, salt);
    let key = UnboundKey::from(secret.expand(&info, &AES_256_GCM).map_err(defect)?);
    Ok(LessSafeKey::new(key))
}

/// Returns the pseudorandom key from which keys for different purposes are derived.
pub(super) fn extract(data_key: &DataKey, salt: &[u8]) -> Prk {
    Salt::new(HKDF_SHA256, salt).extract(data_key.reveal())
}

#[cfg(test)]
mod tests;

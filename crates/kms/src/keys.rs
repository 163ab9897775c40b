//! The data keys of an open store, in memory, and what they seal and open.
//!
//! Something sealed, numbers in big-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | form: 1 |
//! | 4 | the data key's number |
//! | 16 | the salt of the session key |
//! | 8 | the counter that is the nonce |
//! | as long as the plain text | cipher text of AES-256-GCM |
//! | 16 | its tag |
//!
//! A process draws a salt when it opens the store and when the data key is rotated, derives a session key
//! from both with HKDF-SHA-256, and counts. So a key sees each nonce once, and the bound of 2^32 messages
//! that random nonces of 96 bits have does not arise: no rotation is ever due for the sake of the cipher.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use uuid::Uuid;

use super::data_key::DataKey;
use super::error::Error;
use slateberg_base::secret::random_bytes;

/// The form of what is sealed.
const FORM: u8 = 1;
const SALT: usize = 16;
const COUNTER: usize = 8;
const TAG: usize = 16;
/// Bytes in front of the cipher text.
const HEADER: usize = 1 + 4 + SALT + COUNTER;
/// Bytes by which what is sealed is longer than what was plain.
pub const OVERHEAD: usize = HEADER + TAG;
/// Session keys of earlier processes that are remembered.
const SESSIONS_MAX: usize = 4096;

/// What is sealed: one cannot pass for another, nor at another place or in another catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// A block of SlateDB, which does not say where it lies.
    Block,
    /// A frame of the journal.
    Frame {
        /// Its number.
        number: u64,
        /// The epoch of its writer.
        epoch: u64,
    },
    /// A piece of an object.
    Chunk {
        /// The object's path below that of the store.
        path: &'a str,
        /// The chunk's number in the object, from 0.
        index: u64,
        /// Whether it is the object's last.
        is_last: bool,
    },
}

impl Purpose<'_> {
    /// What is authenticated beside the cipher text.
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

/// The data keys of an open store. They are overwritten when the last handle is dropped.
pub struct Keys {
    catalog: Uuid,
    state: RwLock<State>,
    /// The last thing that could not be opened.
    failure: Mutex<Option<Error>>,
}

struct State {
    data_keys: BTreeMap<u32, DataKey>,
    active: Arc<Session>,
    /// The session keys that others have sealed with, as far as they were met.
    sessions: HashMap<(u32, [u8; SALT]), Arc<LessSafeKey>>,
}

/// A session key that this process seals with.
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
    /// The keys of a catalog, of which this one seals.
    pub(super) fn new(
        catalog: Uuid,
        data_keys: BTreeMap<u32, DataKey>,
        active: u32,
    ) -> Result<Self, Error> {
        let active = Arc::new(Session::begin(&data_keys, active, catalog)?);
        let state = State { data_keys, active, sessions: HashMap::new() };
        Ok(Self { catalog, state: RwLock::new(state), failure: Mutex::default() })
    }

    /// The catalog that all of it is bound to.
    pub fn catalog(&self) -> Uuid {
        self.catalog
    }

    /// The number of the data key that seals.
    pub fn active(&self) -> u32 {
        self.session().data_key
    }

    /// Whether something sealed says that it was sealed with one of these.
    pub fn knows(&self, sealed: &[u8]) -> bool {
        let number = Sealed::parse(sealed).map(|parts| parts.data_key);
        number.is_some_and(|number| self.read().data_keys.contains_key(&number))
    }

    /// A data key by its number.
    pub(super) fn data_key(&self, number: u32) -> Option<DataKey> {
        self.read().data_keys.get(&number).cloned()
    }

    /// Takes over the keys of another ring of this catalog; from now on, its active one seals. Those that
    /// are known stay.
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

    /// Seals a text.
    pub fn seal(&self, purpose: Purpose<'_>, plain: &[u8]) -> Result<Vec<u8>, Error> {
        let mut sealed = Vec::with_capacity(plain.len() + OVERHEAD);
        self.seal_into(purpose, plain, &mut sealed)?;
        Ok(sealed)
    }

    /// Seals a text, and puts it at the end of a buffer.
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

    /// Opens what was sealed for the same purpose.
    pub fn open(&self, purpose: Purpose<'_>, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let mut plain = Vec::with_capacity(sealed.len().saturating_sub(OVERHEAD));
        self.open_into(purpose, sealed, &mut plain)?;
        Ok(plain)
    }

    /// Opens what was sealed for the same purpose, and puts it at the end of a buffer.
    pub fn open_into(
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

    /// The last thing that could not be opened, if there is any: not everybody in between tells why.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn try_open_into(
        &self,
        purpose: Purpose<'_>,
        sealed: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let parts = Sealed::parse(sealed).ok_or_else(|| purpose.tampered("it is not sealed"))?;
        let key = self.session_key(parts.data_key, parts.salt)?;
        let data = Aad::from(purpose.associated_data(self.catalog));
        let begin = plain.len();
        plain.resize(begin + parts.text.len(), 0);
        let (nonce, out) = (nonce(parts.counter), &mut plain[begin..]);
        let opened = key.open_separate_gather(nonce, data, parts.text, parts.tag, out);
        opened.map_err(|_| {
            plain.truncate(begin);
            purpose.tampered("its tag does not fit")
        })
    }

    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.read().active)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session key that something was sealed with.
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

/// Something sealed, in its parts.
struct Sealed<'a> {
    data_key: u32,
    salt: [u8; SALT],
    counter: u64,
    text: &'a [u8],
    tag: &'a [u8],
}

impl<'a> Sealed<'a> {
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

/// Whether bytes begin as something sealed does.
pub fn looks_sealed(bytes: &[u8]) -> bool {
    bytes.len() >= OVERHEAD && bytes[0] == FORM && bytes[1..3] == [0, 0]
}

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - COUNTER..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// The key that a data key and a salt make.
fn derive(data_key: &DataKey, salt: &[u8], catalog: Uuid) -> Result<LessSafeKey, Error> {
    let defect = |_| Error::Setting("encryption: a session key cannot be derived".to_owned());
    let info = [b"slateberg session key".as_slice(), catalog.as_bytes()];
    let secret = extract(data_key, salt);
    let key = UnboundKey::from(secret.expand(&info, &AES_256_GCM).map_err(defect)?);
    Ok(LessSafeKey::new(key))
}

/// What keys for different ends are derived from.
pub(super) fn extract(data_key: &DataKey, salt: &[u8]) -> Prk {
    Salt::new(HKDF_SHA256, salt).extract(data_key.reveal())
}

#[cfg(test)]
mod tests;

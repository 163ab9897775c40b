//! Index of all API keys in memory, with which requests are authenticated.
//!
//! The server is the only writer of the store, so this index is complete.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use subtle::ConstantTimeEq;
use uuid::Uuid;

use super::key_text::KeyHash;
use slateberg_model::principal::{Identity, IdentityKind, Method};
use slateberg_store::records::{ApiKeyRecord, RevokedKeyRecord};

/// Resolution of the time of the last use of a key, in milliseconds.
const USE_NOTED_MS: i64 = 1000;

/// A key that has not been revoked. It may have expired.
#[derive(Debug)]
pub struct KnownKey {
    /// The stored record.
    pub record: ApiKeyRecord,
    /// The identity of the key.
    pub identity: Arc<Identity>,
    hash: KeyHash,
    last_used_ms: AtomicI64,
}

impl KnownKey {
    /// Creates a key from its record. `None` if the stored hash is invalid.
    pub fn new(record: ApiKeyRecord) -> Option<Self> {
        let hash = KeyHash::from_hex(&record.hash)?;
        let identity = Arc::new(Identity {
            kind: IdentityKind::ServiceAccount,
            id: record.id.to_string(),
            name: record.name.clone(),
            groups: std::collections::BTreeSet::new(),
            roles: record.roles.clone(),
            method: Method::ApiKey,
            warehouses: record.warehouses.clone(),
        });
        Some(Self { record, identity, hash, last_used_ms: AtomicI64::new(0) })
    }

    /// Returns the identity at this time. `None` if the key has expired.
    pub(crate) fn valid_identity(&self, now_ms: i64) -> Option<Arc<Identity>> {
        if self.record.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms) {
            return None;
        }
        // If every request wrote this value, the cores would contend for the cache line.
        if now_ms - self.last_used_ms.load(Ordering::Relaxed) >= USE_NOTED_MS {
            self.last_used_ms.store(now_ms, Ordering::Relaxed);
        }
        Some(Arc::clone(&self.identity))
    }

    /// Returns the time of the last use, accurate to a second. `None` if the key was not used since
    /// the server started.
    pub fn last_used_ms(&self) -> Option<i64> {
        Some(self.last_used_ms.load(Ordering::Relaxed)).filter(|ms| *ms > 0)
    }
}

/// The keys, by id and by hash.
#[derive(Default)]
pub struct KeyIndex(ArcSwap<Tables>);

#[derive(Default, Clone)]
struct Tables {
    by_id: BTreeMap<Uuid, Arc<KnownKey>>,
    /// Keyed by the first half of the hash. The full hash is compared in constant time.
    by_hash: HashMap<u128, Arc<KnownKey>>,
    /// Revoked keys, for listings and for the names of principals.
    revoked: BTreeMap<Uuid, Arc<RevokedKeyRecord>>,
}

impl KeyIndex {
    /// Returns the key with this hash.
    pub(crate) fn by_hash(&self, hash: &KeyHash) -> Option<Arc<KnownKey>> {
        self.with_hash(hash, Arc::clone)
    }

    /// Applies a function to the key with this hash.
    pub(crate) fn with_hash<T>(
        &self,
        hash: &KeyHash,
        told: impl FnOnce(&Arc<KnownKey>) -> T,
    ) -> Option<T> {
        let tables = self.0.load();
        let known = tables.by_hash.get(&first_half(hash))?;
        bool::from(known.hash.0.ct_eq(&hash.0)).then(|| told(known))
    }

    /// Returns the key with this id.
    pub fn by_id(&self, id: Uuid) -> Option<Arc<KnownKey>> {
        self.with_id(id, Arc::clone)
    }

    /// Applies a function to the key with this id.
    pub(crate) fn with_id<T>(&self, id: Uuid, told: impl FnOnce(&Arc<KnownKey>) -> T) -> Option<T> {
        self.0.load().by_id.get(&id).map(told)
    }

    /// Returns all keys in the order of their ids, which is the order of creation.
    pub fn all(&self) -> Vec<Arc<KnownKey>> {
        self.0.load().by_id.values().cloned().collect()
    }

    /// Returns the times of the last uses of keys, for those that were used.
    pub fn last_uses(&self) -> Vec<(Uuid, i64)> {
        let tables = self.0.load();
        let used = |(id, key): (&Uuid, &Arc<KnownKey>)| Some((*id, key.last_used_ms()?));
        tables.by_id.iter().filter_map(used).collect()
    }

    /// Records uses of keys by other processes.
    pub fn add_uses(&self, uses: impl IntoIterator<Item = (Uuid, i64)>) {
        for (id, used_ms) in uses {
            self.with_id(id, |key| key.last_used_ms.fetch_max(used_ms, Ordering::Relaxed));
        }
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.load().by_id.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds keys.
    pub fn add(&self, keys: impl IntoIterator<Item = KnownKey>) {
        let keys: Vec<_> = keys.into_iter().map(Arc::new).collect();
        self.change(|tables| {
            for key in &keys {
                tables.by_hash.insert(first_half(&key.hash), Arc::clone(key));
                tables.by_id.insert(key.record.id, Arc::clone(key));
            }
        });
    }

    /// Moves a key to the revoked keys, and removes the revoked key with the id `forgotten`.
    pub fn revoke(&self, record: &Arc<RevokedKeyRecord>, forgotten: Option<Uuid>) {
        self.change(|tables| {
            if let Some(key) = tables.by_id.remove(&record.key.id) {
                tables.by_hash.remove(&first_half(&key.hash));
            }
            tables.revoked.insert(record.key.id, Arc::clone(record));
            if let Some(id) = forgotten {
                tables.revoked.remove(&id);
            }
        });
    }

    /// Adds keys that were revoked earlier.
    pub(crate) fn add_revoked(&self, keys: impl IntoIterator<Item = RevokedKeyRecord>) {
        let keys: Vec<_> = keys.into_iter().map(Arc::new).collect();
        self.change(|tables| {
            tables.revoked.extend(keys.iter().map(|key| (key.key.id, Arc::clone(key))));
        });
    }

    /// Returns the revoked key with this id.
    pub fn revoked(&self, id: Uuid) -> Option<Arc<RevokedKeyRecord>> {
        self.0.load().revoked.get(&id).cloned()
    }

    /// Returns the revoked keys, in the order of their ids.
    pub(crate) fn all_revoked(&self) -> Vec<Arc<RevokedKeyRecord>> {
        self.0.load().revoked.values().cloned().collect()
    }

    /// Returns the key that was revoked first, if there are at least `max` revoked keys.
    pub(crate) fn first_revoked(&self, max: usize) -> Option<Uuid> {
        let tables = self.0.load();
        let first = tables.revoked.values().min_by_key(|key| (key.revoked_ms, key.key.id));
        first.filter(|_| tables.revoked.len() >= max).map(|key| key.key.id)
    }

    /// Returns the name of a valid or revoked key.
    pub fn name(&self, id: Uuid) -> Option<String> {
        let tables = self.0.load();
        let valid = tables.by_id.get(&id).map(|key| key.record.name.clone());
        valid.or_else(|| tables.revoked.get(&id).map(|key| key.key.name.clone()))
    }

    /// Changes a copy of the tables, and replaces the tables with the copy. So requests never wait
    /// when they read the tables. Copying is acceptable because changes are rare.
    fn change(&self, change: impl Fn(&mut Tables)) {
        self.0.rcu(|tables| {
            let mut tables = Tables::clone(tables);
            change(&mut tables);
            tables
        });
    }
}

fn first_half(hash: &KeyHash) -> u128 {
    let (half, _) = hash.0.split_first_chunk().expect("a hash has 32 bytes");
    u128::from_be_bytes(*half)
}

//! Describes where a store and its log are, and how they are encrypted.

use std::path::PathBuf;
use std::sync::Arc;

use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::object_store::prefix::PrefixStore;
use uuid::Uuid;

use super::storage::Storage;
use slateberg_base::clock::Clock;
use slateberg_base::ids::Ids;
use slateberg_kms::keys::Keys;
use slateberg_kms::mac_key::MacKey;
use slateberg_kms::{self as kms, Kms};

/// Location of a store.
#[derive(Clone)]
pub struct StoreLocation {
    /// The bucket or directory.
    pub object_store: Arc<dyn ObjectStore>,
    /// Path below its root.
    pub path: String,
    /// Whether the object store can replace an object on the condition that it is unchanged
    /// (`If-Match`).
    pub conditional_update: bool,
    /// The directory of a store in a local directory. The log of such a store is a journal.
    pub directory: Option<PathBuf>,
    /// Location of the log, if the log is in a different object store than the rest of the store.
    pub log: Option<Log>,
    /// Encryption. `None` for an unencrypted store.
    pub encryption: Option<Encryption>,
    /// Recorder of failed requests.
    pub storage: Storage,
}

impl StoreLocation {
    /// Whether the store is in a local directory. Linux then has its files in the page cache.
    pub(super) fn is_local(&self) -> bool {
        self.directory.is_some()
    }
}

/// A write-ahead log in an object store of its own.
#[derive(Clone)]
pub struct Log {
    /// The bucket or directory.
    pub object_store: Arc<dyn ObjectStore>,
    /// Path below its root.
    pub path: Path,
    /// Name of the log in messages.
    pub url: String,
    /// Location of the store to which the log belongs, in messages.
    pub state_url: String,
    /// Id of the pair of store and log, if this start creates the pair.
    pub id: Uuid,
}

impl Log {
    /// Returns the object store in the form in which SlateDB expects it: with the log files at the
    /// path of the store.
    pub(super) fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::new(PrefixStore::new(Arc::clone(&self.object_store), self.path.clone()))
    }

    /// Returns the same log, accessed through a wrapper of the object store.
    pub(super) fn within(&self, store: Arc<dyn ObjectStore>) -> Self {
        Self { object_store: store, path: Path::default(), ..self.clone() }
    }
}

/// Encryption of a store.
#[derive(Clone)]
pub struct Encryption {
    /// KMS with the wrapping keys.
    pub kms: Arc<dyn Kms>,
    /// Clock that determines the age of keys.
    pub clock: Arc<dyn Clock>,
    /// Source of the id of a new catalog.
    pub ids: Arc<dyn Ids>,
    /// Keys that this process has unlocked before. The KMS unwraps only the others.
    pub shared: Option<SharedKeys>,
}

/// Keys that a process unlocks once, although it opens the store again and again. So a member of a
/// cluster needs the KMS only at its start, and after a rotation.
#[derive(Clone)]
pub struct SharedKeys {
    pub(super) own: Arc<Keys>,
    /// The keys of a clone's parent.
    pub(super) inherited: Option<Arc<Keys>>,
}

impl SharedKeys {
    /// Derives a key with which processes that have unlocked this store recognize each other. It
    /// stays the same when the data key is rotated.
    pub fn mac_key(&self, purpose: &[u8]) -> Result<MacKey, kms::Error> {
        self.own.mac_key(purpose)
    }
}

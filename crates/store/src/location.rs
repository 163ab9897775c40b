//! Locations of a store, of its log, and of the keys that encrypt them.

use std::path::PathBuf;
use std::sync::Arc;

use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::object_store::prefix::PrefixStore;
use uuid::Uuid;

use super::storage::Storage;
use slateberg_base::clock::Clock;
use slateberg_base::ids::Ids;
use slateberg_kms::Kms;

/// Where the store is.
#[derive(Clone)]
pub struct Place {
    /// The bucket or directory.
    pub object_store: Arc<dyn ObjectStore>,
    /// The path below its root.
    pub path: String,
    /// Whether the object store can replace an object on the condition that it is unchanged (`If-Match`).
    pub conditional_update: bool,
    /// The directory on this machine that it is, if it is one: its log goes to a journal then.
    pub directory: Option<PathBuf>,
    /// Where its log is, if that is another object store.
    pub log: Option<Log>,
    /// With what the store is encrypted; none for a plain one.
    pub encryption: Option<Encryption>,
    /// Records what fails there.
    pub storage: Storage,
}

/// A log that is not where the store is.
#[derive(Clone)]
pub struct Log {
    /// The bucket or directory.
    pub object_store: Arc<dyn ObjectStore>,
    /// The path below its root.
    pub path: Path,
    /// How messages name it.
    pub url: String,
    /// How messages name the store that it belongs to.
    pub state_url: String,
    /// What the pair is told by from others, should it be new.
    pub id: Uuid,
}

impl Log {
    /// The object store that SlateDB gets: it names log files as if they were beside the rest.
    pub(super) fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::new(PrefixStore::new(Arc::clone(&self.object_store), self.path.clone()))
    }

    /// The same log, read and written through an object store around the one that SlateDB would get.
    pub(super) fn within(&self, store: Arc<dyn ObjectStore>) -> Self {
        Self { object_store: store, path: Path::default(), ..self.clone() }
    }
}

/// With what a store is encrypted.
#[derive(Clone)]
pub struct Encryption {
    /// Where the wrapping keys are.
    pub kms: Arc<dyn Kms>,
    /// The time, for the age of keys.
    pub clock: Arc<dyn Clock>,
    /// The id of a new catalog.
    pub ids: Arc<dyn Ids>,
}

//! Stores the key ring of a store in an object below the store's path. The format of the object is
//! in `kms::ring`.
//!
//! In a bucket, a conditional put replaces the object. In a local directory, a lock excludes other
//! processes. There, the ring is written to a new file, which is synced and then renamed. In both
//! cases, exactly one complete ring exists at each moment.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use slatedb::object_store::path::Path;
use slatedb::object_store::{
    Error as ObjectError, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion,
};

use super::error::Error;
use super::location::StoreLocation;
use slateberg_base::error_chain::Cause;
use slateberg_kms::ring::Ring;

/// Directory below the store's path.
const DIRECTORY: &str = "encryption";
const FILE: &str = "ring.json";
/// Name of the file before it is renamed.
const NEW_FILE: &str = "ring.json.new";
/// Maximum size of a ring. A ring with thousands of data keys is smaller.
const BYTES_MAX: u64 = 16 << 20;

/// Location of a store's ring.
pub(super) enum RingLocation {
    Directory(PathBuf),
    Bucket { object_store: Arc<dyn ObjectStore>, path: Path },
}

/// A stored ring.
pub(super) struct StoredRing {
    pub(super) ring: Ring,
    /// Version that the object must still have when it is replaced. `None` in a directory.
    version: Option<UpdateVersion>,
}

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    Done,
    /// Another process wrote the ring first. Nothing was written.
    Conflict,
}

impl RingLocation {
    /// Returns the location of a store's ring.
    pub(super) fn of(location: &StoreLocation) -> Self {
        match &location.directory {
            Some(directory) => Self::Directory(directory.join(DIRECTORY)),
            None => Self::Bucket {
                object_store: Arc::clone(&location.object_store),
                path: Path::from(location.path.as_str()).join(DIRECTORY).join(FILE),
            },
        }
    }

    /// Reads the ring, if it exists.
    pub(super) async fn read(&self) -> Result<Option<StoredRing>, Error> {
        let (bytes, version) = match self {
            Self::Directory(directory) => {
                let file = directory.join(FILE);
                match read_file(&file) {
                    Ok(bytes) => (bytes, None),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(unavailable(file.display(), error)),
                }
            }
            Self::Bucket { object_store, path } => match object_store.get(path).await {
                Ok(result) if result.meta.size > BYTES_MAX => {
                    return Err(unavailable(path, "the object is too long for a key ring"));
                }
                Ok(result) => {
                    let meta = &result.meta;
                    let (e_tag, version) = (meta.e_tag.clone(), meta.version.clone());
                    let bytes = result.bytes().await.map_err(|error| unavailable(path, error))?;
                    (bytes.to_vec(), Some(UpdateVersion { e_tag, version }))
                }
                Err(ObjectError::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(unavailable(path, error)),
            },
        };
        Ok(Some(StoredRing { ring: Ring::from_bytes(&bytes)?, version }))
    }

    /// Creates the ring of a store.
    pub(super) async fn create(&self, ring: &Ring) -> Result<WriteOutcome, Error> {
        let bytes = ring.to_bytes()?;
        match self {
            Self::Directory(directory) => write_file(directory, &bytes),
            Self::Bucket { object_store, path } => {
                put(object_store.as_ref(), path, bytes, PutMode::Create).await
            }
        }
    }

    /// Replaces a ring, unless it has changed since it was read.
    pub(super) async fn replace(
        &self,
        found: &StoredRing,
        ring: &Ring,
    ) -> Result<WriteOutcome, Error> {
        let bytes = ring.to_bytes()?;
        match (self, &found.version) {
            (Self::Directory(directory), _) => write_file(directory, &bytes),
            (Self::Bucket { object_store, path }, Some(version)) => {
                let mode = PutMode::Update(version.clone());
                put(object_store.as_ref(), path, bytes, mode).await
            }
            (Self::Bucket { path, .. }, None) => {
                Err(unavailable(path, "the object has no version"))
            }
        }
    }
}

async fn put(
    object_store: &dyn ObjectStore,
    path: &Path,
    bytes: Vec<u8>,
    mode: PutMode,
) -> Result<WriteOutcome, Error> {
    match object_store.put_opts(path, PutPayload::from(bytes), mode.into()).await {
        Ok(_) => Ok(WriteOutcome::Done),
        Err(ObjectError::AlreadyExists { .. } | ObjectError::Precondition { .. }) => {
            Ok(WriteOutcome::Conflict)
        }
        Err(error) => Err(unavailable(path, error)),
    }
}

fn read_file(file: &FilePath) -> io::Result<Vec<u8>> {
    if fs::metadata(file)?.len() > BYTES_MAX {
        return Err(io::Error::other("the file is too long for a key ring"));
    }
    fs::read(file)
}

fn write_file(directory: &FilePath, bytes: &[u8]) -> Result<WriteOutcome, Error> {
    let (new, file) = (directory.join(NEW_FILE), directory.join(FILE));
    let write = || {
        slateberg_wal::create_directory(directory)?;
        let mut written = OpenOptions::new().create(true).truncate(true).write(true).open(&new)?;
        written.write_all(bytes)?;
        written.sync_all()?;
        fs::rename(&new, &file)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|error: io::Error| unavailable(file.display(), error))?;
    Ok(WriteOutcome::Done)
}

fn unavailable(
    location: impl std::fmt::Display,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::Unavailable(Cause::about(format_args!("the key ring {location}"), cause))
}

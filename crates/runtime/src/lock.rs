//! The lock that ensures that only one server runs on a data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

/// The lock file in the data directory.
const FILE: &str = "lock";

/// The lock of a data directory. The operating system releases it when the process ends, even if
/// the process is killed.
#[derive(Debug)]
pub struct DataDirLock {
    _file: File,
}

/// The data directory cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has the lock.
    #[error("{0} is in use by another slateberg")]
    InUse(String),
    /// The directory is not writable.
    #[error("{path}: {source}")]
    Io {
        /// The path of the lock file.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl DataDirLock {
    /// Locks an existing directory.
    pub fn take(data_dir: &Path) -> Result<Self, LockError> {
        let path = data_dir.join(FILE);
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = opened.map_err(|source| failed(&path, source))?;
        locked(data_dir, file.try_lock())?;
        Ok(Self { _file: file })
    }

    /// Locks the directory for reading. If the lock file is not writable, takes a shared lock,
    /// which also excludes a server. Returns `None` if the directory is not writable and has no
    /// lock file: no server can start on such a directory.
    pub(crate) fn take_for_reading(data_dir: &Path) -> Result<Option<Self>, LockError> {
        match Self::take(data_dir) {
            Err(LockError::Io { source, .. })
                if [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied]
                    .contains(&source.kind()) => {}
            taken => return taken.map(Some),
        }
        let path = data_dir.join(FILE);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(source) if source.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed(&path, source)),
        };
        locked(data_dir, file.try_lock_shared())?;
        Ok(Some(Self { _file: file }))
    }
}

fn locked(data_dir: &Path, locked: Result<(), TryLockError>) -> Result<(), LockError> {
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(LockError::InUse(data_dir.display().to_string())),
        Err(TryLockError::Error(source)) => Err(failed(&data_dir.join(FILE), source)),
    }
}

fn failed(path: &Path, source: std::io::Error) -> LockError {
    LockError::Io { path: path.display().to_string(), source }
}

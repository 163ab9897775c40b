//! One server for one data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

/// The file that is locked, in the data directory.
const FILE: &str = "lock";

/// Held as long as the data directory is ours; goes with the process, however it ends.
#[derive(Debug)]
pub struct DataDirLock {
    _file: File,
}

/// Why the data directory is not ours.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("{0} is in use by another slateberg")]
    InUse(String),
    /// The directory cannot be written.
    #[error("{path}: {source}")]
    Io {
        /// The file that was to be locked.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl DataDirLock {
    /// Takes the directory, which has to be there.
    pub fn take(data_dir: &Path) -> Result<Self, LockError> {
        let path = data_dir.join(FILE);
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = opened.map_err(|source| failed(&path, source))?;
        locked(data_dir, file.try_lock())?;
        Ok(Self { _file: file })
    }

    /// Takes the directory for reading alone. Where its lock file cannot be written, a lock on a file that is
    /// opened for reading keeps a server out as well. Returns `None` if there is no file to lock: no server
    /// can start on a directory that it cannot write either.
    pub fn take_for_reading(data_dir: &Path) -> Result<Option<Self>, LockError> {
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

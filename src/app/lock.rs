//! One server for one data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

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
        let path = data_dir.join("lock");
        let io = |source| LockError::Io { path: path.display().to_string(), source };
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::InUse(data_dir.display().to_string())),
            Err(TryLockError::Error(source)) => Err(io(source)),
        }
    }
}

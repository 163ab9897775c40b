//! Errors of the local WAL, classified by the caller's next step.

use slatedb::wal::WalError;

use super::damage::DamagedFile;

/// An error of the local WAL.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another process writes to the directory.
    #[error("{0} is in use by another slateberg")]
    InUse(String),
    /// The WAL cannot be written at the moment. Nothing was written, and a retry may succeed.
    #[error("{reason}")]
    Stalled {
        /// The WAL and the reason.
        reason: String,
        /// Whether the disk is full or a quota is used up.
        is_full: bool,
    },
    /// The directory does not respond. Nothing was written, and a retry may succeed.
    #[error("the object store is unavailable: {0}")]
    Unavailable(String),
    /// A file of the WAL is missing or damaged.
    #[error(transparent)]
    DamagedFile(#[from] DamagedFile),
    /// Another error of SlateDB.
    #[error(transparent)]
    Log(WalError),
}

impl From<WalError> for Error {
    fn from(error: WalError) -> Self {
        if let WalError::DataError(cause) = &error
            && let Some(file) = cause.downcast_ref::<DamagedFile>()
        {
            return Self::DamagedFile(file.clone());
        }
        Self::Log(error)
    }
}

//! Failures of the journal, by what the caller does next.

use slatedb::wal::WalError;

use super::damage::DamagedFile;

/// A failure of the journal.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another process writes to the same directory.
    #[error("{0} is in use by another slateberg")]
    InUse(String),
    /// The journal cannot be written at this moment: try again later, nothing was written.
    #[error("{reason}")]
    Stalled {
        /// Which journal, and why.
        reason: String,
        /// Whether the disk is full, or a quota is used up.
        is_full: bool,
    },
    /// The directory does not answer: try again later, nothing was written.
    #[error("the object store is unavailable: {0}")]
    Unavailable(String),
    /// A file of the journal is missing or damaged.
    #[error(transparent)]
    DamagedFile(#[from] DamagedFile),
    /// Another failure, as SlateDB names it.
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

//! Errors of the local WAL. The variants differ in how the calling code has to react.

use std::io;
use std::sync::Arc;

use slatedb::wal::WalError;

use super::damage::DamagedFile;
use slateberg_base::error_chain::Cause;

/// An error of the local WAL.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another process writes to the directory.
    #[error("{0} is in use by another slateberg")]
    InUse(String),
    /// The WAL cannot be written at the moment. Nothing was written, and a retry may succeed.
    #[error("{source}")]
    Stalled {
        /// The WAL and the reason.
        source: Cause,
        /// Whether the disk is full or a quota is used up.
        is_full: bool,
    },
    /// The directory does not respond. Nothing was written, and a retry may succeed.
    #[error("the object store is unavailable: {0}")]
    Unavailable(#[source] Cause),
    /// A file of the WAL is missing or damaged.
    #[error(transparent)]
    DamagedFile(#[from] DamagedFile),
    /// Any other error of SlateDB.
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

/// Converts an error of the directory to SlateDB's.
pub(super) fn unavailable(error: io::Error) -> WalError {
    WalError::Unavailable(Arc::new(error))
}

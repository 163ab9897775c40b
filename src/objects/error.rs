//! What can go wrong with a warehouse's files.

/// A failure in the warehouse.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The location is not one that the warehouse may use: 400.
    #[error("{0}")]
    NotAllowed(String),
    /// There is no such file.
    #[error("Failed to open input stream for file: {0}")]
    NotFound(String),
    /// The file is there and is not what it should be.
    #[error("{location}: {reason}")]
    Unreadable {
        /// Which file.
        location: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The name is taken.
    #[error("{0} exists already")]
    Taken(String),
    /// The object store does not answer, or refuses: try again later.
    #[error("{location}: {reason}")]
    Unavailable {
        /// Which file.
        location: String,
        /// What the object store said.
        reason: String,
    },
}

impl Error {
    /// An object store's error about the file at `location`.
    pub(super) fn of(location: &str, error: object_store::Error) -> Self {
        match error {
            object_store::Error::NotFound { .. } => Self::NotFound(location.to_owned()),
            other => Self::Unavailable { location: location.to_owned(), reason: other.to_string() },
        }
    }
}

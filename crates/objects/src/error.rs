//! What can go wrong with a warehouse's files.

use slateberg_base::io_failure::{IoFailure, io_error};

/// The code of S3 for a name that is too long.
const NAME_TOO_LONG: &str = "KeyTooLongError";

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
    /// The disk that the file is to be on has no space left: try again when it has.
    #[error("{location}: {reason}")]
    Full {
        /// Which file.
        location: String,
        /// What the system said.
        reason: String,
    },
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
    /// The location's store takes no name that is as long as one of it.
    pub(super) fn name_too_long(location: &str) -> Self {
        Self::NotAllowed(format!("Location '{location}' has a name that is too long for its store"))
    }

    /// An object store's error about the file at `location`.
    pub(super) fn of(location: &str, error: object_store::Error) -> Self {
        if let Some(io) = io_error(&error)
            && IoFailure::of(io) == IoFailure::Full
        {
            return Self::Full { location: location.to_owned(), reason: io.to_string() };
        }
        match error {
            object_store::Error::NotFound { .. } => Self::NotFound(location.to_owned()),
            // What S3 calls it, and what speaks like S3: no later try will fare better.
            other if other.to_string().contains(NAME_TOO_LONG) => Self::name_too_long(location),
            other => Self::Unavailable { location: location.to_owned(), reason: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_store_takes_is_the_callers_mistake() {
        let of = |text: &str| {
            let source = text.to_owned().into();
            Error::of("s3://b/x", object_store::Error::Generic { store: "S3", source })
        };
        let too_long = "Server returned non-2xx status code: 400: <Code>KeyTooLongError</Code>";
        assert!(matches!(of(too_long), Error::NotAllowed(_)));
        assert!(matches!(of("503 Slow Down"), Error::Unavailable { .. }));
    }
}

//! Errors of access to a warehouse's files.

use slateberg_base::error_chain::Cause;
use slateberg_base::io_failure::{IoFailure, io_error};

/// S3 error code for a key that is too long.
const NAME_TOO_LONG: &str = "KeyTooLongError";

/// Error of access to a file of the warehouse.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The warehouse may not use the location. The server responds with 400.
    #[error("{0}")]
    NotAllowed(String),
    /// The file does not exist.
    #[error("Failed to open input stream for file: {0}")]
    NotFound(String),
    /// The file exists, but its content is not valid.
    #[error("{location}: {source}")]
    Unreadable {
        /// Location of the file.
        location: String,
        /// Reason why the content is not valid.
        source: Cause,
    },
    /// A file with this name exists already.
    #[error("{0} exists already")]
    Taken(String),
    /// The target disk is full. Clients can retry once the disk has space again.
    #[error("{location}: {source}")]
    Full {
        /// Location of the file.
        location: String,
        /// Message of the operating system.
        source: Cause,
    },
    /// The object store does not respond, or rejects the request. Clients can retry later.
    #[error("{location}: {source}")]
    Unavailable {
        /// Location of the file.
        location: String,
        /// Message of the object store.
        source: Cause,
    },
}

impl Error {
    /// Error for a location with a name that is too long for its store.
    pub(super) fn name_too_long(location: &str) -> Self {
        Self::NotAllowed(format!("Location '{location}' has a name that is too long for its store"))
    }

    /// Error for a file whose content is not valid.
    pub(super) fn unreadable(
        location: &str,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unreadable { location: location.to_owned(), source: Cause::new(cause) }
    }

    /// Converts an object store's error about the file at `location`.
    pub(super) fn of(location: &str, error: object_store::Error) -> Self {
        if let Some(io) = io_error(&error)
            && IoFailure::of(io) == IoFailure::Full
        {
            return Self::Full { location: location.to_owned(), source: Cause::new(error) };
        }
        match error {
            object_store::Error::NotFound { .. } => Self::NotFound(location.to_owned()),
            // S3 and compatible stores report this code. A retry would fail as well.
            other if other.to_string().contains(NAME_TOO_LONG) => Self::name_too_long(location),
            other => Self::Unavailable { location: location.to_owned(), source: Cause::new(other) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_too_long_for_all_stores_is_invalid() {
        let of = |text: &str| {
            let source = text.to_owned().into();
            Error::of("s3://b/x", object_store::Error::Generic { store: "S3", source })
        };
        let too_long = "Server returned non-2xx status code: 400: <Code>KeyTooLongError</Code>";
        assert!(matches!(of(too_long), Error::NotAllowed(_)));
        assert!(matches!(of("503 Slow Down"), Error::Unavailable { .. }));
    }
}

//! The error of a file of expectations that is inconsistent.

use std::fmt;

/// Error for an inconsistent file of expectations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidExpectations(pub(super) String);

/// Result of the resolution of a file of expectations.
pub(super) type Result<T> = std::result::Result<T, InvalidExpectations>;

pub(super) fn invalid<T>(message: impl fmt::Display) -> Result<T> {
    Err(InvalidExpectations(message.to_string()))
}

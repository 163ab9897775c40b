//! [`ScanError`]: why a table cannot be scanned as requested.

use crate::refusal::Refusal;

/// A request that can never succeed, or a table whose metadata is damaged. Maps to 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The request is malformed. The reference implementation throws an `IllegalArgumentException`.
    #[error("{0}")]
    IllegalArgument(String),
    /// The request does not fit the table, or the table is damaged. The reference implementation
    /// throws a `ValidationException`.
    #[error("{0}")]
    Validation(String),
}

impl ScanError {
    pub(super) fn argument(message: impl Into<String>) -> Self {
        Self::IllegalArgument(message.into())
    }

    pub(super) fn validation(message: impl Into<String>) -> Self {
        Self::Validation(message.into())
    }
}

impl From<Refusal> for ScanError {
    fn from(refusal: Refusal) -> Self {
        Self::IllegalArgument(refusal.to_string())
    }
}

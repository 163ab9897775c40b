//! The error of a file of expectations that is inconsistent.

use std::fmt;

/// Why a file of expectations says nothing: it does not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub(super) String);

/// A result whose failure is a file that says nothing.
pub(super) type Result<T> = std::result::Result<T, Unusable>;

pub(super) fn unusable<T>(message: impl fmt::Display) -> Result<T> {
    Err(Unusable(message.to_string()))
}

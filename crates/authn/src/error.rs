//! Errors of managing credentials.

use slateberg_store as store;

/// The result of managing credentials.
pub type Result<T> = std::result::Result<T, Error>;

/// Managing a credential failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The caller lacks the privilege.
    #[error("{0}")]
    Forbidden(String),
    /// The key does not exist.
    #[error("API key does not exist: {0}")]
    NoSuchKey(String),
    /// The operation would leave the catalog without a credential that can manage keys.
    #[error("{0}")]
    LastAdmin(String),
    /// The maximum number of keys exists already.
    #[error("There are {0} API keys already: revoke some first")]
    TooMany(usize),
    /// The store failed.
    #[error("{0}")]
    Store(#[from] store::Error),
}

/// The reason for rejecting a credential. Only the log contains it, not the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectionReason(pub &'static str);

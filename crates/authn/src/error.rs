//! What can go wrong when credentials are managed.

use slateberg_store as store;

/// Why a credential is not managed as it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The request is wrong in itself.
    #[error("{0}")]
    Invalid(String),
    /// Not with these rights.
    #[error("{0}")]
    Forbidden(String),
    /// There is no such key.
    #[error("API key does not exist: {0}")]
    NoSuchKey(String),
    /// The catalog would be left without a credential that manages it.
    #[error("{0}")]
    LastAdmin(String),
    /// There are as many keys as there may be.
    #[error("There are {0} API keys already: revoke some first")]
    TooMany(usize),
    /// The store did not do what it was asked.
    #[error("{0}")]
    Store(#[from] store::Error),
}

/// Why a credential is rejected. Only the operator learns the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(pub &'static str);

//! Requests of clients for a signature, and the errors with which they are rejected.

use std::collections::BTreeMap;

use crate::location::Location;
use crate::vend::files::Privileges;
use slateberg_base::error_chain::Cause;

/// Headers, each with its values.
pub type Headers = BTreeMap<String, Vec<String>>;

/// A request that a client wants to send to S3.
#[derive(Debug, Clone, Default)]
pub struct SignRequest {
    /// Its method.
    pub method: String,
    /// AWS region of the request.
    pub region: String,
    /// URI exactly as the client would send it.
    pub uri: String,
    /// Its headers.
    pub headers: Headers,
    /// Body, for operations whose effect depends on it.
    pub body: Option<String>,
}

/// Reason why a request is not signed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SignError {
    /// The server cannot sign such a request.
    #[error("{0}")]
    Invalid(String),
    /// The request exceeds the client's privileges.
    #[error("{0}")]
    NotAllowed(String),
    /// The server has no credentials to sign with. The message is for the operator.
    #[error(transparent)]
    Unavailable(Cause),
}

impl SignError {
    pub(super) fn unavailable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Unavailable(Cause::new(cause))
    }
}

/// Locations that a client may access, and its privileges there.
pub struct Allowed<'a> {
    /// Locations of the table's files.
    pub locations: &'a [Location],
    /// Access at these locations.
    pub privileges: Privileges,
}

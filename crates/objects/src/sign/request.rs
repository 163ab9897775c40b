//! Signing requests of clients, and the errors that reject them.

use std::collections::BTreeMap;

use crate::location::Location;
use crate::vend::files::Rights;

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
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The request is not one that the server can sign.
    #[error("{0}")]
    Invalid(String),
    /// The request exceeds the client's privileges.
    #[error("{0}")]
    NotAllowed(String),
    /// The server has no credentials to sign with. The message is for the operator.
    #[error("{0}")]
    Unavailable(String),
}

/// Locations that a client may access, and how.
pub struct Allowed<'a> {
    /// Locations of the table's files.
    pub places: &'a [Location],
    /// Access at these locations.
    pub rights: Rights,
}

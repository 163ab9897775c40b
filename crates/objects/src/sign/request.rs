//! What a client asks a signature for, and why it gets none.

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
    /// The region that it goes to.
    pub region: String,
    /// Its URI, as it would be sent.
    pub uri: String,
    /// Its headers.
    pub headers: Headers,
    /// Its body, where it says what is to be done.
    pub body: Option<String>,
}

/// Why nothing is signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The request is none that could be signed.
    #[error("{0}")]
    Invalid(String),
    /// The request goes beyond what the client may do.
    #[error("{0}")]
    NotAllowed(String),
    /// There is nothing to sign with. For the operator.
    #[error("{0}")]
    Unavailable(String),
}

/// What a client may do, and where.
pub struct Allowed<'a> {
    /// The places of the table's files.
    pub places: &'a [Location],
    /// What may be done there.
    pub rights: Rights,
}

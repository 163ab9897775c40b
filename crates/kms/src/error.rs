//! Errors of encryption. The variants differ in how the calling code has to react.

use slateberg_base::error_chain::{Cause, chain};

/// A failure of encryption.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A setting, or a file that it names, is invalid.
    #[error("{0}")]
    Setting(String),
    /// The KMS does not respond. A retry may succeed.
    #[error("the KMS cannot be reached: {}", chain(.0))]
    Unavailable(#[source] Cause),
    /// The KMS rejects the request, or has no such key.
    #[error("the KMS rejected the request: {0}")]
    Refused(#[source] Cause),
    /// The data key was wrapped with another wrapping key or for another catalog, or the ring was
    /// tampered with.
    #[error(
        "data key {data_key} cannot be unwrapped with {wrapping_key}: this is not the key that wrapped \
         it, or the key ring belongs to another catalog or was tampered with"
    )]
    WrongKey {
        /// The data key's number.
        data_key: u32,
        /// The name of the wrapping key.
        wrapping_key: String,
    },
    /// The ring is damaged or was tampered with.
    #[error("the key ring is damaged or was tampered with: {0}")]
    Ring(#[source] Cause),
    /// The data was sealed with a data key that is not in the ring.
    #[error("the data is sealed with data key {0}, which is not in the key ring")]
    UnknownDataKey(u32),
    /// Sealed data is damaged or was tampered with.
    #[error("{what} is damaged or was tampered with: {reason}")]
    Tampered {
        /// The description of the data.
        what: String,
        /// The problem.
        reason: &'static str,
    },
}

//! What can go wrong with encryption, by what there is to do about it.

/// A failure of encryption.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting, or a file that it names, is wrong.
    #[error("{0}")]
    Setting(String),
    /// The KMS does not answer: try again later.
    #[error("the KMS cannot be reached: {0}")]
    Unavailable(String),
    /// The KMS refuses, or has no such key.
    #[error("the KMS refuses: {0}")]
    Refused(String),
    /// The wrapping key is not the one that this ring was wrapped with, or the ring was tampered with.
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
    /// The ring is not what was once written.
    #[error("the key ring is damaged or was tampered with: {0}")]
    Ring(String),
    /// Something was sealed with a data key that the ring does not hold.
    #[error("sealed with data key {0}, which the key ring does not hold")]
    UnknownDataKey(u32),
    /// Something sealed is not what was once written.
    #[error("{what} is damaged or was tampered with: {reason}")]
    Tampered {
        /// What it is.
        what: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

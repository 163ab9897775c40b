//! Checks whether an object store responds.

use std::time::Duration;

use object_store::{Error, ObjectStoreExt};

use super::credentials::NoCredentials;
use super::open::Opened;

/// A name that no object has.
const NOTHING: &str = ".slateberg-nothing";

/// Reason why an object store does not respond.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct PingError {
    /// The last error.
    pub reason: String,
    /// Whether a later attempt may succeed.
    pub is_transient: bool,
}

/// Succeeds if an object store responds within this time, with any response. Writes nothing.
pub async fn check(opened: &Opened, at_most: Duration) -> Result<(), PingError> {
    let path = opened.path.clone().join(NOTHING);
    let response = tokio::time::timeout(at_most, opened.object_store.head(&path)).await;
    let (reason, is_transient) = match &response {
        // `object_store` gives errors no specific kind if they come from the network, or from an
        // unavailable store.
        Ok(Err(error @ (Error::Generic { .. } | Error::JoinError { .. }))) => {
            (error.to_string(), true)
        }
        Ok(Err(error)) => match NoCredentials::find(error) {
            Some(none) => (none.to_string(), false),
            None => return Ok(()),
        },
        Ok(Ok(_)) => return Ok(()),
        Err(_) => (format!("no response within {:.1} s", at_most.as_secs_f64()), true),
    };
    Err(PingError { reason, is_transient })
}

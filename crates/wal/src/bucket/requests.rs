//! Retries of requests to the bucket, and the errors that remain.

use std::sync::Arc;
use std::time::Duration;

use slatedb::object_store;
use slatedb::wal::WalError;
use slatedb_common::retry::should_retry;

use super::file::ReadError;
use slateberg_base::retry::Backoff;

/// Minimum and maximum delay before a retry.
pub(super) const RETRY_DELAY_MIN: Duration = Duration::from_millis(50);
pub(super) const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

/// Repeats a request until it succeeds or cannot succeed.
pub(super) async fn retried<T, E, F>(request: impl Fn() -> F) -> Result<T, ReadError>
where
    E: Into<ReadError>,
    F: Future<Output = Result<T, E>>,
{
    let mut backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
    loop {
        match request().await.map_err(E::into) {
            Err(ReadError::ObjectStore(error)) if should_retry(&error) => {
                tracing::debug!(%error, "retrying a request for the log");
                backoff.wait().await;
            }
            result => return result,
        }
    }
}

impl From<ReadError> for WalError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::ObjectStore(error) => unavailable(error),
            ReadError::Damaged(file) => Self::DataError(Arc::new(file)),
            ReadError::Sequential(error) => Self::DataError(Arc::new(error)),
        }
    }
}

/// Converts an error of the object store to SlateDB's.
pub(super) fn unavailable(error: object_store::Error) -> WalError {
    WalError::Unavailable(Arc::new(error))
}

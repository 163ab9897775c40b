//! Work that runs to its end, even if its caller stops waiting for it.

use std::future::Future;
use std::time::Duration;

use tracing::Instrument;

use super::{Error, Result};

/// Runs work to its end, and waits for it at most `at_most`. After that its outcome is unknown to the caller,
/// for the reason `late`, and the work goes on.
pub(super) async fn detached<T: Send + 'static>(
    at_most: Duration,
    late: &'static str,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::time::timeout(at_most, tokio::spawn(work.in_current_span())).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(stopped)) => Err(Error::unknown(stopped)),
        Err(_) => Err(Error::unknown(late)),
    }
}

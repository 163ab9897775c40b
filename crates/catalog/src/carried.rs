//! Work that is carried to its end, whatever becomes of whoever waits for it.

use std::future::Future;
use std::time::Duration;

use tracing::Instrument;

use super::{Error, Result};

/// Carries work to its end, and waits for that: for a bounded time, after which its outcome is unknown to the
/// caller, for the reason `late`, and it is carried on all the same.
pub(super) async fn carried<T: Send + 'static>(
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

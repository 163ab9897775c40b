//! Runs work to its end, even if the code that started it stops waiting.

use std::future::Future;
use std::time::Duration;

use tracing::Instrument;

use super::{Error, Result};

/// Spawns `work` and waits for at most `at_most`. If the work takes longer, returns
/// `CommitStateUnknown` with the cause `late`, and the work continues.
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

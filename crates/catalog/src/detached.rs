//! Runs work to its end, even if the code that started it stops waiting.

use std::future::Future;
use std::time::Duration;

use tracing::Instrument;

use super::{Error, Result};
use slateberg_base::uncancelled::Uncancelled;

/// Runs `work` and waits for at most `at_most`. If the work takes longer, returns
/// `CommitStateUnknown` with the cause `late`, and the work continues.
pub(super) async fn detached<T: Send + 'static>(
    at_most: Duration,
    late: &'static str,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::time::timeout(at_most, Uncancelled::new(work.in_current_span())).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Err(Error::unknown(panic)),
        Err(_) => Err(Error::unknown(late)),
    }
}

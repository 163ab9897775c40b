//! Rate-limited log lines about failed exports.

use std::time::Duration;

use tokio::time::Instant;

/// Minimum time between log lines about failed exports.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Logs the number of lost items, at most once per [`LOG_INTERVAL`].
#[derive(Debug, Default)]
pub(super) struct LossLog {
    logged: u64,
    last: Option<Instant>,
}

impl LossLog {
    pub(super) fn log_losses(&mut self, lost: u64, what: &'static str) {
        let recent = self.last.is_some_and(|last| last.elapsed() < LOG_INTERVAL);
        if lost > self.logged && !recent {
            let more = lost - self.logged;
            tracing::warn!(lost = more, what, "failed to export to the OTLP collector");
            (self.logged, self.last) = (lost, Some(Instant::now()));
        }
    }
}

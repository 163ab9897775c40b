//! Rate-limited log lines about failed exports.

use std::time::Duration;

use tokio::time::Instant;

/// Minimum time between two log lines about failed exports.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
/// Logs the number of lost items, at most once per [`COMPLAIN_EVERY`].
#[derive(Debug, Default)]
pub(super) struct Complaints {
    logged: u64,
    last: Option<Instant>,
}

impl Complaints {
    pub(super) fn look(&mut self, lost: u64, what: &'static str) {
        let recent = self.last.is_some_and(|last| last.elapsed() < COMPLAIN_EVERY);
        if lost > self.logged && !recent {
            let more = lost - self.logged;
            tracing::warn!(lost = more, what, "OTLP collector rejected the export");
            (self.logged, self.last) = (lost, Some(Instant::now()));
        }
    }
}

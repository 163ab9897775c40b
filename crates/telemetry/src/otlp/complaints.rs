//! Log lines about failed exports, which are rare.

use std::time::Duration;

use tokio::time::Instant;

/// The time between two log lines about failed exports, at least.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
/// Logs now and then how much was lost.
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

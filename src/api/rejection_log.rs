//! [`RejectionLog`]: log lines of rejected credentials, limited in rate.

use std::net::IpAddr;
use std::num::NonZeroU32;

use slateberg_base::rate::LogThrottle;

/// Maximum number of lines per second. The next line contains the number of suppressed lines.
const REJECTION_LINES_MAX: NonZeroU32 = NonZeroU32::new(10).expect("not zero");

/// Log lines of rejected credentials. Their rate is limited so that credential guessing cannot fill
/// the disk. The audit log contains all rejections.
pub struct RejectionLog(LogThrottle);

impl Default for RejectionLog {
    fn default() -> Self {
        Self(LogThrottle::per_second(REJECTION_LINES_MAX))
    }
}

impl RejectionLog {
    pub(super) fn log(&self, source: Option<IpAddr>, request_id: &str, reason: &str) {
        let Some(suppressed) = self.0.next_line() else { return };
        let source = source.map(|source| source.to_string()).unwrap_or_default();
        tracing::info!(source, request_id, reason, suppressed, "credential rejected");
    }
}

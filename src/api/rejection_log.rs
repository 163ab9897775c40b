//! [`RejectionLog`]: log lines of rejected credentials, limited in rate.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

/// Maximum number of lines per second. The next line contains the number of suppressed lines.
const REJECTION_LINES_MAX: NonZeroU32 = NonZeroU32::new(10).expect("not zero");

/// Log lines of rejected credentials. Their rate is limited so that credential guessing cannot fill
/// the disk. The audit log contains all rejections.
pub struct RejectionLog {
    limiter: DefaultDirectRateLimiter,
    suppressed: AtomicU64,
}

impl Default for RejectionLog {
    fn default() -> Self {
        let limiter = RateLimiter::direct(Quota::per_second(REJECTION_LINES_MAX));
        Self { limiter, suppressed: AtomicU64::new(0) }
    }
}

impl RejectionLog {
    pub(super) fn log(&self, source: Option<IpAddr>, request_id: &str, reason: &str) {
        if self.limiter.check().is_err() {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let suppressed = self.suppressed.swap(0, Ordering::Relaxed);
        let source = source.map(|source| source.to_string()).unwrap_or_default();
        tracing::info!(source, request_id, reason, suppressed, "credential rejected");
    }
}

//! [`BucketContact`]: how long this process has not reached the bucket.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use slateberg_base::uptime::uptime;
use slateberg_config::cluster::WithoutBucket;

/// The last time at which this process reached the bucket.
pub(super) struct BucketContact {
    /// The time without the bucket after which reads are executed on old state. `None` if they are
    /// rejected.
    stale_after: Option<Duration>,
    /// The start of the last successful request, in milliseconds since the start of the machine.
    last_ms: AtomicU64,
}

impl BucketContact {
    /// Begins with the contact at the start of the process.
    pub(super) fn new(without_bucket: WithoutBucket, lease: Duration) -> Self {
        let stale_after = match without_bucket {
            WithoutBucket::Refuse => None,
            WithoutBucket::Stale => Some(lease),
        };
        Self { stale_after, last_ms: AtomicU64::new(milliseconds(uptime())) }
    }

    /// Notes the success of a request that was sent at this uptime of the machine.
    pub(super) fn note(&self, sent: Duration) {
        self.last_ms.fetch_max(milliseconds(sent), Ordering::AcqRel);
    }

    /// Returns the time since the last contact. `None` if it is short, or if reads are rejected during
    /// an outage.
    pub(super) fn outage(&self) -> Option<Duration> {
        let stale_after = self.stale_after?;
        let last = Duration::from_millis(self.last_ms.load(Ordering::Acquire));
        let outage = uptime().saturating_sub(last);
        (outage > stale_after).then_some(outage)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

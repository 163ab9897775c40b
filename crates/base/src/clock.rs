//! The current time, replaceable by tests.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A source of wall-clock time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the milliseconds since the Unix epoch, the unit of Iceberg metadata.
    fn now_ms(&self) -> i64;

    /// Returns the nanoseconds since the Unix epoch, the unit of traces.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.now_ms()).unwrap_or(0).saturating_mul(1_000_000)
    }
}

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "only this module reads the machine's clock")]
    fn now_ms(&self) -> i64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
    }

    #[expect(clippy::disallowed_methods, reason = "only this module reads the machine's clock")]
    fn now_ns(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
    }
}

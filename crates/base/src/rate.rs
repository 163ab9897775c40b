//! [`RateLimit`]: a maximum number of operations per second. [`LogThrottle`]: a minimum time
//! between log lines about one event.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

/// The highest limit: one operation per nanosecond, which is the resolution of the limiter.
const PERMITS_MAX: u32 = 1_000_000_000;

/// Limits operations per second. Up to a tenth of the limit may start at the same time.
pub struct RateLimit(Option<DefaultDirectRateLimiter>);

/// Limits the log lines about a frequent event, and counts those that were not written.
#[derive(Debug)]
pub struct LogThrottle {
    limiter: Option<DefaultDirectRateLimiter>,
    suppressed: AtomicU64,
}

impl LogThrottle {
    /// Allows one log line per `period`, or all log lines if `period` is zero.
    pub fn new(period: Duration) -> Self {
        Self::of(Quota::with_period(period))
    }

    /// Allows this number of log lines per second.
    pub fn per_second(lines_max: NonZeroU32) -> Self {
        Self::of(Some(Quota::per_second(lines_max)))
    }

    fn of(quota: Option<Quota>) -> Self {
        Self { limiter: quota.map(RateLimiter::direct), suppressed: AtomicU64::new(0) }
    }

    /// Returns the number of log lines that were suppressed since the last one, if another line may
    /// be written now. Otherwise, counts this line as suppressed.
    pub fn next_line(&self) -> Option<u64> {
        if self.is_due() {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Whether a log line may be written now. A line that is not written is not counted.
    pub fn is_due(&self) -> bool {
        self.limiter.as_ref().is_none_or(|limiter| limiter.check().is_ok())
    }
}

impl RateLimit {
    /// Allows `permits_max` operations per second. There is no limit if the number is 0 or greater
    /// than one operation per nanosecond.
    pub fn per_second(permits_max: u32) -> Self {
        let limit = NonZeroU32::new(permits_max).filter(|limit| limit.get() <= PERMITS_MAX);
        Self(limit.map(|limit| RateLimiter::direct(quota(limit))))
    }

    /// Waits until the next operation may start.
    pub async fn wait(&self) {
        if let Some(limiter) = &self.0 {
            limiter.until_ready().await;
        }
    }
}

fn quota(permits_max: NonZeroU32) -> Quota {
    let burst = NonZeroU32::new(permits_max.get() / 10).unwrap_or(NonZeroU32::MIN);
    Quota::per_second(permits_max).allow_burst(burst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_a_tenth_of_a_second() {
        for (rate, burst) in [(1, 1), (3, 1), (25, 2), (500, 50), (1999, 199), (100_000, 10_000)] {
            let quota = quota(NonZeroU32::new(rate).expect("a rate"));
            let found = 1.0 / quota.replenish_interval().as_secs_f64();
            assert!((found / f64::from(rate) - 1.0).abs() < 0.01, "{rate}: {found}");
            assert_eq!(quota.burst_size().get(), burst, "{rate}");
        }
        assert!(
            !quota(NonZeroU32::new(PERMITS_MAX).expect("a rate")).replenish_interval().is_zero()
        );
    }

    #[test]
    fn throttle_is_due_once_per_period() {
        let hourly = LogThrottle::new(Duration::from_secs(3600));
        assert!(hourly.is_due());
        assert!(!hourly.is_due());
        let always = LogThrottle::new(Duration::ZERO);
        assert!(always.is_due() && always.is_due());
    }

    #[test]
    fn next_line_has_the_number_of_suppressed_lines() {
        let twice = LogThrottle::per_second(NonZeroU32::new(2).expect("a number"));
        let lines = [(); 4].map(|()| twice.next_line());
        assert_eq!(lines, [Some(0), Some(0), None, None]);
        assert_eq!(twice.suppressed.load(Ordering::Relaxed), 2);
        let always = LogThrottle::new(Duration::ZERO);
        assert_eq!((always.next_line(), always.next_line()), (Some(0), Some(0)));
    }

    #[tokio::test]
    async fn rate_limit_eventually_grants_every_permit() {
        for rate in [0, 1_000_000, PERMITS_MAX, u32::MAX] {
            let rate = RateLimit::per_second(rate);
            for _ in 0..110_000 {
                rate.wait().await;
            }
        }
    }
}

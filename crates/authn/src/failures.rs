//! Counts failed authentications for each source, and delays the responses to frequent failures.
//!
//! Guessing a key of 256 bits is impossible. The delay limits the server time and the number of log
//! lines that attempts to guess a key cost. Requests with a valid credential are never delayed,
//! whatever their source.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::sync::Semaphore;

use slateberg_base::network::network;

/// Maximum number of tracked sources. The least active ones are evicted.
const SOURCES_MAX: usize = 4096;
/// Maximum number of responses that are delayed at the same time. Further failures immediately
/// return [`TooMany`].
const HELD_BACK_MAX: usize = 256;
/// Time without failures after which a source's count is reset, in milliseconds.
const FORGIVEN_AFTER_MS: i64 = 60_000;
/// The first delay, in milliseconds. Each further failure doubles it.
const DELAY_MS_MIN: u64 = 50;

/// Counts of failed authentications, by source.
pub(super) struct Failures {
    by_source: Cache<IpAddr, Arc<FailureStreak>>,
    held_back: Semaphore,
    free: u32,
    delay_ms_max: u64,
}

#[derive(Default)]
struct FailureStreak {
    failures: AtomicU32,
    last_ms: AtomicI64,
}

/// The maximum number of delayed responses is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

impl Failures {
    /// Creates the tracker. The responses to the first `free` failures of a source are not delayed.
    /// The responses to later failures get longer and longer delays. The count restarts after a
    /// minute without failures.
    pub(super) fn new(free: u32, delay_ms_max: u64) -> Self {
        let by_source = Cache::new(SOURCES_MAX);
        Self { by_source, held_back: Semaphore::new(HELD_BACK_MAX), free, delay_ms_max }
    }

    /// Records a failure, and waits for the delay of its response. A failure without a source comes
    /// from inside the process and is not delayed.
    pub(super) async fn note(&self, source: Option<IpAddr>, now_ms: i64) -> Result<(), TooMany> {
        let Some(source) = source else { return Ok(()) };
        let delay = self.delay(network(source), now_ms);
        if delay.is_zero() {
            return Ok(());
        }
        let _room = self.held_back.try_acquire().map_err(|_| TooMany)?;
        tokio::time::sleep(delay).await;
        Ok(())
    }

    fn delay(&self, source: IpAddr, now_ms: i64) -> Duration {
        let streak = self.by_source.get(&source).unwrap_or_else(|| {
            let streak = Arc::new(FailureStreak::default());
            self.by_source.insert(source, Arc::clone(&streak));
            streak
        });
        if now_ms - streak.last_ms.swap(now_ms, Ordering::Relaxed) > FORGIVEN_AFTER_MS {
            streak.failures.store(0, Ordering::Relaxed);
        }
        let failures = streak.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        match failures.checked_sub(self.free) {
            None | Some(0) => Duration::ZERO,
            Some(beyond) => {
                let doubled = DELAY_MS_MIN.saturating_mul(1 << (beyond - 1).min(20));
                Duration::from_millis(doubled.min(self.delay_ms_max))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::FutureExt;

    use super::*;

    #[test]
    fn repeated_failures_delay_longer_and_expire() {
        let failures = Failures::new(2, 150);
        let source: IpAddr = "192.0.2.1".parse().expect("an address");
        let other: IpAddr = "192.0.2.2".parse().expect("an address");
        let delays: Vec<_> = (0..6).map(|_| failures.delay(source, 1_000).as_millis()).collect();
        assert_eq!(delays, [0, 0, 50, 100, 150, 150]);
        assert!(failures.delay(other, 1_000).is_zero());
        assert!(failures.delay(source, 1_000 + FORGIVEN_AFTER_MS + 1).is_zero());
    }

    #[tokio::test]
    async fn number_of_delayed_requests_is_bounded() {
        let failures = Failures::new(0, 60_000);
        let source = Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
        let mut waiting: Vec<_> =
            (0..HELD_BACK_MAX + 3).map(|_| Box::pin(failures.note(source, 0))).collect();
        let answered: Vec<_> = waiting.iter_mut().filter_map(|it| it.now_or_never()).collect();
        assert_eq!(answered, [Err(TooMany); 3]);
        drop(waiting);
        assert!(failures.note(source, 0).now_or_never().is_none(), "there is room again");
        assert_eq!(failures.note(None, 0).now_or_never(), Some(Ok(())));
    }

    #[test]
    fn memory_is_bounded() {
        let failures = Failures::new(1, 1);
        for n in 0..4 * SOURCES_MAX as u32 {
            failures.delay(IpAddr::V4(n.into()), 0);
        }
        assert!(failures.by_source.len() <= SOURCES_MAX);
    }
}

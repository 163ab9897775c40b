//! [`Lease`]: until when this process may respond to requests as the writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use slateberg_base::clock::Clock;
use slateberg_base::uptime::uptime;
use slateberg_cluster::Moment;

/// A difference between the two clocks above which the lease counts as expired, in milliseconds. A
/// virtual machine may be paused without its monotonic clock counting the pause. Its wall clock
/// then jumps when it is synchronized.
const JUMP_MAX_MS: i64 = 100;

/// The lease of the writer, as the requests of this process see it.
pub(super) struct Lease {
    started: Duration,
    clock: Arc<dyn Clock>,
    /// The end of the lease, in milliseconds since the start of the process. 0: there is no lease.
    until_ms: AtomicU64,
    /// The wall clock minus the uptime at the last renewal, in milliseconds.
    clock_offset_ms: AtomicI64,
    renewals: watch::Sender<()>,
}

impl Lease {
    /// Creates a lease that has not begun.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            started: uptime(),
            clock,
            until_ms: AtomicU64::new(0),
            clock_offset_ms: AtomicI64::new(0),
            renewals: watch::Sender::new(()),
        }
    }

    /// The current moment.
    pub(super) fn now(&self) -> Moment {
        Moment::after_start(uptime().saturating_sub(self.started))
    }

    /// The difference between the wall clock and the uptime, in milliseconds.
    pub(super) fn clock_offset_ms(&self) -> i64 {
        let uptime_ms = i64::try_from(uptime().as_millis()).unwrap_or(i64::MAX);
        self.clock.now_ms().saturating_sub(uptime_ms)
    }

    /// Sets the end of the lease. `offset_ms` is the offset of the clocks before the request that
    /// renewed the lease was sent: if the process was paused during this request, the lease counts
    /// as expired.
    pub(super) fn renew(&self, until: Option<Moment>, offset_ms: i64) {
        let until_ms = until.map_or(0, |until| until.since_start().as_millis() as u64);
        // A reader must not combine the new offset with the end of the previous lease.
        self.until_ms.store(0, Ordering::Release);
        self.clock_offset_ms.store(offset_ms, Ordering::Release);
        self.until_ms.store(until_ms, Ordering::Release);
        self.renewals.send_replace(());
    }

    /// Whether the lease is valid at this moment.
    pub(super) fn is_valid(&self) -> bool {
        let now_ms = self.now().since_start().as_millis() as u64;
        if now_ms >= self.until_ms.load(Ordering::Acquire) {
            return false;
        }
        let offset_ms = self.clock_offset_ms.load(Ordering::Acquire);
        let jump_ms = self.clock_offset_ms().saturating_sub(offset_ms);
        jump_ms <= JUMP_MAX_MS
    }

    /// Waits until the lease is valid. Returns `false` if it is not valid within `at_most`.
    pub(super) async fn wait_valid(&self, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        let mut renewals = self.renewals.subscribe();
        loop {
            if self.is_valid() {
                return true;
            }
            if timeout_at(deadline, renewals.changed()).await.is_err() {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use super::*;

    /// A wall clock that can jump.
    #[derive(Default)]
    struct JumpingClock {
        jump_ms: AtomicI64,
    }

    impl Clock for JumpingClock {
        fn now_ms(&self) -> i64 {
            let uptime_ms = i64::try_from(uptime().as_millis()).expect("it is small");
            1_700_000_000_000 + uptime_ms + self.jump_ms.load(Ordering::Relaxed)
        }
    }

    fn lease() -> (Lease, Arc<JumpingClock>) {
        let clock = Arc::new(JumpingClock::default());
        (Lease::new(Arc::clone(&clock) as _), clock)
    }

    #[tokio::test]
    async fn lease_is_valid_until_its_end() {
        let (lease, _) = lease();
        assert!(!lease.is_valid(), "it has not begun");
        let offset_ms = lease.clock_offset_ms();
        lease.renew(Some(lease.now() + Duration::from_secs(60)), offset_ms);
        assert!(lease.is_valid());
        lease.renew(Some(lease.now()), offset_ms);
        assert!(!lease.is_valid());
        lease.renew(None, offset_ms);
        assert!(!lease.wait_valid(Duration::from_millis(1)).await);
    }

    #[tokio::test]
    async fn lease_expires_if_the_wall_clock_jumps_forward() {
        let (lease, clock) = lease();
        let offset_ms = lease.clock_offset_ms();
        lease.renew(Some(lease.now() + Duration::from_secs(60)), offset_ms);
        clock.jump_ms.store(-60_000, Ordering::Relaxed);
        assert!(lease.is_valid(), "a jump backward is harmless: the uptime limits the lease");
        clock.jump_ms.store(1_000, Ordering::Relaxed);
        assert!(!lease.is_valid());
        lease.renew(Some(lease.now() + Duration::from_secs(60)), lease.clock_offset_ms());
        assert!(lease.is_valid(), "the next renewal measures the new offset");
    }

    #[tokio::test]
    async fn request_waits_for_a_renewal() {
        let (lease, _) = lease();
        let lease = Arc::new(lease);
        let waiting = Arc::clone(&lease);
        let waiting =
            tokio::spawn(async move { waiting.wait_valid(Duration::from_secs(60)).await });
        lease.renew(Some(lease.now() + Duration::from_secs(60)), lease.clock_offset_ms());
        assert!(waiting.await.expect("no panic"));
    }
}

//! A clock that never goes back and that also counts while the machine is suspended.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since the machine was started. Unlike the monotonic clock of the standard
/// library, it includes the time for which the machine was suspended. So a lease also expires while
/// its holder is suspended.
pub fn uptime() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptime_does_not_decrease() {
        let (first, second) = (uptime(), uptime());
        assert!(first > Duration::ZERO && first <= second, "{first:?} {second:?}");
    }
}

//! Moments of one process. Moments of two processes cannot be compared.

use std::ops::Add;
use std::time::Duration;

/// The time since the start of this process, by a clock that never goes back and that also counts
/// while the machine is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(Duration);

impl Moment {
    /// Creates a moment from the time since the start of the process.
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// Creates a moment from milliseconds since the start of the process.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// Returns the time since the start of the process.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// Returns the time from `earlier` to this moment, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

//! [`HandClock`]: a clock that a test sets.

use std::sync::atomic::{AtomicI64, Ordering};

use slateberg_base::clock::Clock;

/// A clock that only moves when the test advances it.
pub struct HandClock(AtomicI64);

impl Default for HandClock {
    fn default() -> Self {
        Self(AtomicI64::new(1_800_000_000_000))
    }
}

impl HandClock {
    /// Returns a clock at this time.
    pub fn at_ms(ms: i64) -> Self {
        Self(AtomicI64::new(ms))
    }

    /// Advances the clock.
    pub fn advance_seconds(&self, seconds: u64) {
        let ms = i64::try_from(seconds * 1000).expect("test times are short");
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

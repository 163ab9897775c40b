//! [`HandClock`]: a clock that a test sets, and [`JumpingClock`], the clock of the system plus an
//! offset that a test sets.

use std::sync::atomic::{AtomicI64, Ordering};

use slateberg_base::clock::{Clock, SystemClock};

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

/// The clock of the system, which jumps when the test changes its offset.
#[derive(Default)]
pub struct JumpingClock {
    offset_ms: AtomicI64,
}

impl JumpingClock {
    /// Jumps, so that the clock differs by this offset from the clock of the system.
    pub fn jump_to(&self, offset_ms: i64) {
        self.offset_ms.store(offset_ms, Ordering::SeqCst);
    }
}

impl Clock for JumpingClock {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms() + self.offset_ms.load(Ordering::SeqCst)
    }
}

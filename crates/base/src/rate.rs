//! [`Rate`]: a maximum number of turns per second; [`Every`]: a minimum time between reports.

use std::sync::{Mutex as SyncMutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Gives turns, at most so many in a second: a tenth of them at once, ten times a second.
pub struct Rate(Option<Mutex<Windows>>);

/// Lets a report through once in a while, so that what happens often does not fill the log.
#[derive(Debug)]
pub struct Every {
    period: Duration,
    last: SyncMutex<Option<Instant>>,
}

impl Every {
    /// One report per `period`.
    pub fn new(period: Duration) -> Self {
        Self { period, last: SyncMutex::default() }
    }

    /// Whether `period` has passed since this last returned true.
    pub fn is_due(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= self.period);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

struct Windows {
    turns: u32,
    left: u32,
    length: Duration,
    /// Made when it is first needed, in a runtime.
    begins: Option<Interval>,
}

impl Windows {
    fn of(turns_max: u32) -> Self {
        // As many as fit into a window, and the length that makes it so many in a second.
        let turns = (turns_max / 10).max(1);
        let length = Duration::from_secs_f64(f64::from(turns) / f64::from(turns_max));
        Self { turns, left: 0, length, begins: None }
    }
}

impl Rate {
    /// At most so many; any number if it is 0.
    pub fn per_second(turns_max: u32) -> Self {
        Self((turns_max > 0).then(|| Mutex::new(Windows::of(turns_max))))
    }

    /// Waits for a turn.
    pub async fn turn(&self) {
        let Some(windows) = &self.0 else { return };
        let mut windows = windows.lock().await;
        if windows.left == 0 {
            let length = windows.length;
            let begins = windows.begins.get_or_insert_with(|| {
                let mut begins = interval(length);
                // What was not used is lost: nobody makes up for a time in which the store was slow.
                begins.set_missed_tick_behavior(MissedTickBehavior::Delay);
                begins
            });
            begins.tick().await;
            windows.left = windows.turns;
        }
        windows.left -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_short_and_hold_as_many_turns_as_make_the_rate() {
        for rate in [1, 3, 9, 10, 25, 500, 1999, u32::MAX] {
            let Windows { turns, length, .. } = Windows::of(rate);
            let found = f64::from(turns) / length.as_secs_f64();
            assert!((found / f64::from(rate) - 1.0).abs() < 0.01, "{rate}: {found}");
            assert!(turns == 1 || length <= Duration::from_millis(101), "{rate}: {length:?}");
        }
    }

    #[test]
    fn a_report_is_due_once_per_period() {
        let hourly = Every::new(Duration::from_secs(3600));
        assert!(hourly.is_due());
        assert!(!hourly.is_due());
        let always = Every::new(Duration::ZERO);
        assert!(always.is_due() && always.is_due());
    }

    #[tokio::test]
    async fn whoever_has_no_bound_waits_for_nothing() {
        let rate = Rate::per_second(0);
        for _ in 0..100_000 {
            rate.turn().await;
        }
        let rate = Rate::per_second(1_000_000);
        for _ in 0..100_000 {
            rate.turn().await;
        }
        assert_eq!(rate.0.expect("it is bounded").into_inner().left, 0, "one window, used up");
    }
}

//! [`WriteInterval`]: the times at which a value that changes often is written.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Schedules the writes of a value, so that there is at most one write in a period. After a period
/// without writes, a change is due at once.
#[derive(Debug)]
pub struct WriteInterval {
    period: Duration,
    written: Option<Instant>,
    due: Option<Instant>,
}

impl WriteInterval {
    /// Creates a schedule with this time between writes.
    pub fn new(period: Duration) -> Self {
        Self { period, written: None, due: None }
    }

    /// Schedules a write of a changed value, as soon as the period since the last write has passed.
    pub fn changed(&mut self) {
        self.changed_within(Duration::ZERO);
    }

    /// Schedules a write within `delay`. Earlier changes may have scheduled an earlier write.
    pub fn changed_within(&mut self, delay: Duration) {
        self.changed_at(Instant::now(), delay);
    }

    /// Records that the value is written.
    pub fn written(&mut self) {
        self.written_at(Instant::now());
    }

    /// Whether a write is due.
    pub fn is_due(&self) -> bool {
        self.is_due_at(Instant::now())
    }

    fn changed_at(&mut self, now: Instant, delay: Duration) {
        let earliest = self.written.map_or(now, |written| written + self.period);
        let at = (now + delay).max(earliest);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn written_at(&mut self, now: Instant) {
        self.written = Some(now);
        self.due = None;
    }

    fn is_due_at(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Waits until a write is due. Without a change, it never returns.
    pub async fn wait(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(1);

    #[test]
    fn first_change_is_due_at_once_and_later_ones_after_the_period() {
        let begin = Instant::now();
        let mut interval = WriteInterval::new(PERIOD);
        assert!(!interval.is_due_at(begin));
        interval.changed_at(begin, Duration::ZERO);
        assert!(interval.is_due_at(begin));
        interval.written_at(begin);
        for before in [Duration::ZERO, PERIOD / 2] {
            interval.changed_at(begin + before, Duration::ZERO);
            assert!(!interval.is_due_at(begin + before));
        }
        assert!(interval.is_due_at(begin + PERIOD));
        interval.written_at(begin + PERIOD);
        interval.changed_at(begin + PERIOD * 3, Duration::ZERO);
        assert!(interval.is_due_at(begin + PERIOD * 3));
    }

    #[test]
    fn delayed_change_does_not_postpone_an_earlier_write() {
        let begin = Instant::now();
        let mut interval = WriteInterval::new(PERIOD);
        interval.changed_at(begin, PERIOD * 30);
        assert!(!interval.is_due_at(begin + PERIOD));
        interval.changed_at(begin, PERIOD * 2);
        interval.changed_at(begin, PERIOD * 30);
        assert!(interval.is_due_at(begin + PERIOD * 2));
    }
}

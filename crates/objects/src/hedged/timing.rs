//! [`HedgeTiming`]: determines when a put is sent again, and how often.

use std::time::Duration;

/// Number of recent puts that determine the delay.
const RECENT_MAX: usize = 128;
/// Number of puts before which no put is sent again.
const RECENT_MIN: usize = 20;
/// Bounds of the delay. With a shorter delay, a short pause of this process would already cause
/// second puts. The longest delay is well below the timeout of a request.
const DELAY_MIN: Duration = Duration::from_millis(10);
const DELAY_MAX: Duration = Duration::from_secs(1);
/// Number of successful puts that permit one second put. By definition, 5 % of the puts take longer
/// than the delay, so the budget of 10 % limits only a store that has become slower.
const PUTS_PER_HEDGE: u32 = 10;
/// Maximum number of second puts that a store can save up.
const SAVED_MAX: u32 = 5;

/// The recent puts of one store. It has no clock: the caller measures the durations.
#[derive(Debug, Default)]
pub(super) struct HedgeTiming {
    /// Durations of the recent puts. The oldest is at `next` if there are `RECENT_MAX`.
    recent: Vec<Duration>,
    next: usize,
    /// Puts that no second put has used up yet.
    saved_puts: u32,
}

impl HedgeTiming {
    /// Records a successful put.
    pub(super) fn record(&mut self, took: Duration) {
        self.saved_puts = (self.saved_puts + 1).min(SAVED_MAX * PUTS_PER_HEDGE);
        match self.recent.get_mut(self.next) {
            Some(oldest) => *oldest = took,
            None => self.recent.push(took),
        }
        self.next = (self.next + 1) % RECENT_MAX;
    }

    /// Returns the time after which a put is sent again: the 95th percentile of the recent puts,
    /// within bounds. Returns `None` if too few puts are known.
    pub(super) fn delay(&self) -> Option<Duration> {
        if self.recent.len() < RECENT_MIN {
            return None;
        }
        let mut recent = self.recent.clone();
        let rank = (recent.len() * 95).div_ceil(100) - 1;
        let (_, percentile, _) = recent.select_nth_unstable(rank);
        Some((*percentile).clamp(DELAY_MIN, DELAY_MAX))
    }

    /// Uses up the budget for a second put. Returns whether there was enough.
    pub(super) fn spend(&mut self) -> bool {
        let left = self.saved_puts.checked_sub(PUTS_PER_HEDGE);
        self.saved_puts = left.unwrap_or(self.saved_puts);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(puts: impl IntoIterator<Item = u64>) -> HedgeTiming {
        let mut timing = HedgeTiming::default();
        puts.into_iter().for_each(|ms| timing.record(Duration::from_millis(ms)));
        timing
    }

    fn delay_ms(puts: impl IntoIterator<Item = u64>) -> Option<u128> {
        after(puts).delay().map(|delay| delay.as_millis())
    }

    #[test]
    fn delay_is_the_95th_percentile_of_enough_puts() {
        assert_eq!(delay_ms([30; 19]), None);
        assert_eq!(delay_ms([30; 20]), Some(30));
        assert_eq!(delay_ms(101..=200), Some(195));
        let stalls = |every: u64| (1..=128).map(move |n| if n % every == 0 { 500 } else { 20 });
        assert_eq!(delay_ms(stalls(25)), Some(20), "the delay ignores 4 % of stalls");
        assert_eq!(delay_ms(stalls(10)), Some(500), "with 10 % of stalls, no put is slow");
    }

    #[test]
    fn delay_has_bounds() {
        assert_eq!(delay_ms([1; 20]), Some(10));
        assert_eq!(delay_ms([3_000; 20]), Some(1_000));
    }

    #[test]
    fn delay_follows_recent_puts() {
        assert_eq!(delay_ms([[20; 128].as_slice(), &[100; 6]].concat()), Some(20));
        assert_eq!(delay_ms([[20; 128].as_slice(), &[100; 7]].concat()), Some(100));
        assert_eq!(delay_ms([[100; 128].as_slice(), &[20; 128]].concat()), Some(20));
    }

    #[test]
    fn one_of_ten_puts_may_be_sent_again() {
        let mut timing = after([20; 30]);
        let spent = |timing: &mut HedgeTiming| (0..100).filter(|_| timing.spend()).count();
        assert_eq!(spent(&mut timing), 3);
        timing.record(Duration::ZERO);
        assert_eq!(spent(&mut timing), 0);
        assert_eq!(spent(&mut after([20; 1_000])), 5, "an idle store saves up little");
    }
}

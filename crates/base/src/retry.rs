//! Delays between attempts: exponential with jitter, and bounded.

use std::time::Duration;

use rand::RngExt;

/// The delays between the attempts of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    next: Duration,
    delay_max: Duration,
}

impl Backoff {
    /// Creates delays that start with `delay_min` and double up to `delay_max`.
    pub fn new(delay_min: Duration, delay_max: Duration) -> Self {
        Self { next: delay_min, delay_max }
    }

    /// Skips the delays of attempts that have failed already.
    #[must_use]
    pub fn after(self, tries: u32) -> Self {
        let factor = 2_u32.saturating_pow(tries);
        Self { next: self.next.saturating_mul(factor).min(self.delay_max), ..self }
    }

    /// Returns the delay before the next attempt. It is a random time between half of the current
    /// delay and the whole delay, so that requests that collided once do not retry at the same
    /// time.
    pub fn delay(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.delay_max);
        whole.mul_f64(rand::rng().random_range(0.5..=1.0))
    }

    /// Waits before the next attempt.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.delay()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_a_maximum_with_jitter() {
        let (delay_min, delay_max) = (Duration::from_secs(1), Duration::from_secs(300));
        for (tries, whole) in [(0, 1), (1, 2), (2, 4), (8, 256), (9, 300), (u32::MAX, 300)] {
            let whole = Duration::from_secs(whole);
            let mut backoff = Backoff::new(delay_min, delay_max).after(tries);
            let delay = backoff.delay();
            assert!(whole / 2 <= delay && delay <= whole, "{tries}: {delay:?}");
            assert!(backoff.delay() <= (whole * 2).min(delay_max), "{tries}");
        }
    }
}

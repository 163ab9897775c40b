//! Waiting between tries: exponential, with jitter, and always bounded.

use std::time::Duration;

use rand::RngExt;

/// How long to wait before each further try.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    next: Duration,
    delay_max: Duration,
}

impl Backoff {
    /// Starts at `delay_min` and doubles up to `delay_max`.
    pub fn new(delay_min: Duration, delay_max: Duration) -> Self {
        Self { next: delay_min, delay_max }
    }

    /// Waits before the next try: between half and all of the current delay, so that those who
    /// collided once do not collide again in step.
    pub async fn wait(&mut self) {
        let whole = self.next;
        self.next = (whole * 2).min(self.delay_max);
        let fraction = rand::rng().random_range(0.5..=1.0);
        tokio::time::sleep(whole.mul_f64(fraction)).await;
    }
}

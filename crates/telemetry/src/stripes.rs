//! [`Stripes`]: one thing in several copies, so that cores which write to it do not share a cache line.
//!
//! A number that all cores count in would wander from core to core with each request. So each thread has a
//! stripe that is its own or shared with few, and who reads adds them up.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Stripes that threads share among them.
pub(super) const STRIPES: usize = 16;

/// Copies of something, each on cache lines of its own.
#[derive(Debug, Default)]
pub struct Stripes<T>([Stripe<T>; STRIPES]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe<T>(T);

thread_local! {
    /// The stripe of this thread: the next one's follows it.
    static STRIPE: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES
    };
}

impl<T> Stripes<T> {
    /// The copy that this thread writes to.
    pub fn own(&self) -> &T {
        &self.0[STRIPE.with(|stripe| *stripe)].0
    }

    /// All copies.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|stripe| &stripe.0)
    }
}

//! [`Stripes`]: copies of a value that many cores write to. Each copy has its own cache lines.
//!
//! The cache line of a single counter would move between cores with each request. Instead, each
//! thread writes to a stripe that it shares with few other threads, and readers add up all stripes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of stripes.
pub(super) const STRIPES: usize = 16;

/// Copies of a value, each on its own cache lines.
#[derive(Debug, Default)]
pub struct Stripes<T>([Stripe<T>; STRIPES]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe<T>(T);

thread_local! {
    /// The stripe of this thread. Threads take the stripes in turn.
    static STRIPE: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES
    };
}

impl<T> Stripes<T> {
    /// Returns the copy that this thread writes to.
    pub fn own(&self) -> &T {
        &self.0[STRIPE.with(|stripe| *stripe)].0
    }

    /// Returns all copies.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|stripe| &stripe.0)
    }
}

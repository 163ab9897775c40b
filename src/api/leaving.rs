//! Whether the server is about to stop.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the server is about to stop. Clients whose connections carry one request after the other are told
/// with each answer from then on that there will be no next one (`Connection: close`), so that none of them
/// sends a request into a connection that ends; and `/ready` says no.
#[derive(Debug, Default)]
pub struct Leaving(AtomicBool);

impl Leaving {
    /// From now on.
    pub fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is so.
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

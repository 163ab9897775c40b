//! [`ShutdownFlag`]: whether the server is shutting down.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the server is shutting down. Each HTTP/1.1 response then contains `Connection: close`,
/// so that no client sends a request on a connection that is about to end. `/ready` returns 503.
#[derive(Debug, Default)]
pub struct ShutdownFlag(AtomicBool);

impl ShutdownFlag {
    /// Starts the shutdown.
    pub fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the shutdown has started.
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

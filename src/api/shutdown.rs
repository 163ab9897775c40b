//! [`ShutdownFlag`]: whether the server is shutting down.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Whether the server, or its catalog, is shutting down. During the shutdown, each HTTP/1.1 response
/// contains `Connection: close`, so that no client sends another request on a connection that will soon
/// end. `/ready` returns 503, and watches end.
#[derive(Debug, Default)]
pub struct ShutdownFlag {
    // An atomic, because each response reads the flag. In a channel, all cores would contend for
    // the lock of the channel.
    has_begun: AtomicBool,
    begun: Notify,
}

impl ShutdownFlag {
    /// Starts the shutdown.
    pub fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
        self.begun.notify_waiters();
    }

    /// Whether the shutdown has started.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Waits until the shutdown starts.
    pub async fn wait(&self) {
        // Create the future before the check, so that it is notified even if the shutdown begins
        // right after the check.
        let begun = self.begun.notified();
        if !self.has_begun() {
            begun.await;
        }
    }
}

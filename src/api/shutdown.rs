//! [`ShutdownFlag`]: whether the server is shutting down.

use tokio::sync::watch;

/// Whether the server is shutting down. During the shutdown, each HTTP/1.1 response contains
/// `Connection: close`, so that no client sends another request on a connection that will soon end.
/// `/ready` returns 503, and watches end.
#[derive(Debug, Default)]
pub struct ShutdownFlag(watch::Sender<bool>);

impl ShutdownFlag {
    /// Starts the shutdown.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Whether the shutdown has started.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the shutdown starts.
    pub async fn wait(&self) {
        // The channel cannot close while `self` exists.
        let _ = self.0.subscribe().wait_for(|begun| *begun).await;
    }
}

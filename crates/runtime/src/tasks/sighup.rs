//! `SIGHUP`, with which an operator requests a server to reload its files.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The hangups since this was created. Create it before the server accepts requests: without a
/// listener, a hangup ends the process.
pub(super) struct Sighup(Option<Signal>);

impl Sighup {
    /// Starts to listen.
    pub(super) fn listen() -> Self {
        let listening = signal(SignalKind::hangup());
        let unheard = |error: &std::io::Error| tracing::error!(%error, "cannot listen to SIGHUP");
        Self(listening.inspect_err(unheard).ok())
    }

    /// Waits for the next hangup.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => {
                signal.recv().await;
            }
            None => std::future::pending().await,
        }
    }
}

//! `SIGHUP`, by which an operator asks a server to look at its files again.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The hangups since this was made. Whoever waits for them makes it before the server answers anything: until
/// then, a hangup ends the process.
pub(super) struct Hangups(Option<Signal>);

impl Hangups {
    /// Listens from now on.
    pub(super) fn listen() -> Self {
        let listening = signal(SignalKind::hangup());
        let unheard = |error: &std::io::Error| tracing::error!(%error, "cannot listen to SIGHUP");
        Self(listening.inspect_err(unheard).ok())
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => {
                signal.recv().await;
            }
            None => std::future::pending().await,
        }
    }
}

//! `SIGHUP`: the signal with which an operator makes a server reload its files.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A stream of the `SIGHUP` signals received since its creation. It must be created before the
/// server accepts requests: without a handler, the signal ends the process.
pub(super) struct Sighup(Option<Signal>);

impl Sighup {
    /// Installs the signal handler.
    pub(super) fn listen() -> Self {
        let listening = signal(SignalKind::hangup());
        let unheard = |error: &std::io::Error| tracing::error!(%error, "cannot listen for SIGHUP: the signal will end this server");
        Self(listening.inspect_err(unheard).ok())
    }

    /// Waits for the next signal. Without a handler, waits forever.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => {
                signal.recv().await;
            }
            None => std::future::pending().await,
        }
    }
}

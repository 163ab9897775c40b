//! The stop signals `SIGTERM` and `SIGINT`.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives the stop signals that arrive after its creation. A server creates this value at the
/// beginning of its start. Otherwise, a stop signal during the start would have no effect in a
/// container, where the first process ignores signals that have no handler.
pub struct StopSignals {
    signals: Option<(Signal, Signal)>,
    /// Whether a signal has arrived.
    received: bool,
}

impl StopSignals {
    /// Installs the signal handlers.
    pub fn listen() -> Self {
        let signals = signal(SignalKind::terminate())
            .and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
        let warn = |error: &std::io::Error| {
            tracing::error!(%error, "cannot listen for signals: only SIGKILL will stop this server");
        };
        Self { signals: signals.inspect_err(warn).ok(), received: false }
    }

    /// Waits for a stop signal. Returns immediately if a signal has already arrived.
    pub async fn wait(&mut self) {
        if self.received {
            return;
        }
        match &mut self.signals {
            Some((terminate, interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            None => std::future::pending().await,
        }
        self.received = true;
    }
}

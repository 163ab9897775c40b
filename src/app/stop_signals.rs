//! The stop signals `SIGTERM` and `SIGINT`.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives the stop signals that arrive after its creation. A server creates it first: process 1
/// of a container ignores signals without a handler, so a stop during the start would wait for the
/// start to end.
pub struct StopSignals {
    listening: Option<(Signal, Signal)>,
    /// Whether a signal has arrived.
    told: bool,
}

impl StopSignals {
    /// Installs the signal handlers.
    pub fn listen() -> Self {
        let listening = signal(SignalKind::terminate())
            .and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
        let unheard = |error: &std::io::Error| {
            tracing::error!(%error, "cannot listen to signals: only SIGKILL will stop this server");
        };
        Self { listening: listening.inspect_err(unheard).ok(), told: false }
    }

    /// Waits for a stop signal. Returns immediately if one has arrived before.
    pub async fn told(&mut self) {
        if self.told {
            return;
        }
        match &mut self.listening {
            Some((terminate, interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            None => std::future::pending().await,
        }
        self.told = true;
    }
}

//! `SIGTERM` and `SIGINT`, by which a server is told to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals since this was made. A server makes it before all else: the first process of a container does
/// not get those that it does not listen to, and would go on starting while everybody waits for its end.
pub struct StopSignals {
    listening: Option<(Signal, Signal)>,
    /// Whether one has come.
    told: bool,
}

impl StopSignals {
    /// Listens from now on.
    pub fn listen() -> Self {
        let listening = signal(SignalKind::terminate())
            .and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
        let unheard = |error: &std::io::Error| {
            tracing::error!(%error, "cannot listen to signals: only SIGKILL will stop this server");
        };
        Self { listening: listening.inspect_err(unheard).ok(), told: false }
    }

    /// Returns when the process is told to stop, and at once if it was told before.
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

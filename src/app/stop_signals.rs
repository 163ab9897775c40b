//! `SIGTERM` and `SIGINT`, by which a server is told to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals since this was made. A server makes it before all else: the first process of a container does
/// not get those that it does not listen to, and would go on starting while everybody waits for its end.
pub struct StopSignals(Option<(Signal, Signal)>);

impl StopSignals {
    /// Listens from now on.
    pub fn listen() -> Self {
        let listening = signal(SignalKind::terminate())
            .and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
        let unheard = |error: &std::io::Error| {
            tracing::error!(%error, "cannot listen to signals: only SIGKILL will stop this server");
        };
        Self(listening.inspect_err(unheard).ok())
    }

    /// Returns when the process is told to stop.
    pub async fn next(&mut self) {
        match &mut self.0 {
            Some((terminate, interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            None => std::future::pending().await,
        }
    }
}

//! Serving, and stopping in order: requests under way end, then the store is closed.

use std::net::SocketAddr;
use std::time::Duration;

use axum::ServiceExt;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::build::App;
use super::tasks;
use crate::store;

/// Why a server ended that was not asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The listener broke.
    #[error("cannot serve: {0}")]
    Serve(std::io::Error),
    /// The store shut under the server: another writer has it, or it failed.
    #[error("the server stopped because {0}")]
    StoreClosed(store::Error),
    /// The store did not close in order; what was answered is durable all the same.
    #[error("the store did not close in order: {0}")]
    Close(store::Error),
}

/// A server that is bound and not serving yet.
pub struct Bound {
    listener: TcpListener,
    /// Where it listens, with the port that it got.
    pub address: SocketAddr,
}

/// Binds an address. This comes before anything is opened: a server that cannot listen must not take the
/// store from one that does, nor mint a key that nobody gets to see.
pub async fn bind(address: SocketAddr) -> Result<Bound, RunError> {
    let failed = |source| RunError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Bound { listener, address })
}

/// Serves until a signal comes or the store shuts, then drains and closes.
pub async fn run(app: App, bound: Bound) -> Result<(), RunError> {
    let (stop, stopping) = watch::channel(false);
    let background = tasks::spawn(&app, &stopping);
    let mut drained = stopping.clone();
    // Without it, the end of a long answer would wait for the client's acknowledgement of its beginning.
    let listener = bound.listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "connection ended before it was served");
        }
    });
    let server =
        axum::serve(listener, app.router().into_make_service_with_connect_info::<SocketAddr>())
            .with_graceful_shutdown(async move {
                let _ = drained.wait_for(|stop| *stop).await;
            });
    let mut serving = tokio::spawn(async move { server.await });
    let lost = tokio::select! {
        () = asked_to_stop() => None,
        lost = app.catalog.store_closed() => Some(lost),
        ended = &mut serving => {
            let ended = ended.unwrap_or_else(|panic| Err(std::io::Error::other(panic)));
            return ended.map_err(RunError::Serve);
        }
    };
    tracing::info!("stopping: requests under way get to end");
    let _ = stop.send(true);
    let drain_max = Duration::from_secs(app.settings.server.drain_seconds_max);
    if tokio::time::timeout(drain_max, &mut serving).await.is_err() {
        tracing::warn!(seconds = drain_max.as_secs(), "some requests did not end in time");
    }
    for task in background {
        let _ = task.await;
    }
    match lost {
        Some(lost) => Err(RunError::StoreClosed(lost)),
        None => app.catalog.close().await.map_err(RunError::Close),
    }
}

/// Returns when the process is told to stop.
async fn asked_to_stop() {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    match signals {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        _ => {
            tracing::error!("cannot listen to signals: only SIGKILL will stop this server");
            std::future::pending::<()>().await;
        }
    }
}

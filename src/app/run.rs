//! Runs the server with or without TLS. A stop drains the requests in progress and then closes the
//! store.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{join_all, select_all};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::App;
use super::connections::{self, KEEPALIVE_AFTER, Limits, Stop};
use super::stop_signals::StopSignals;
use super::tls::Tls;
use super::tls::files::TlsError;
use super::tls::handshake::Handshakes;
use super::{idle, webhooks};
use crate::api::service::Respond;
use slateberg_config::Settings;
use slateberg_runtime::background::Background;
use slateberg_store as store;

/// Timeout for binding an address that is in use: the system frees the address of a killed server
/// only after a delay.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(2);
const ADDRESS_PAUSE: Duration = Duration::from_millis(100);

/// Reasons why a server could not run or ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}{}", hint(.source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// Connections cannot be encrypted.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The listener failed.
    #[error("cannot serve: {0}")]
    Serve(#[source] io::Error),
    /// The store closed while the server ran: another writer fenced it, or it failed.
    #[error("the server stopped because {0}")]
    StoreClosed(#[source] store::Error),
    /// Closing the store failed. Acknowledged commits are durable in its write-ahead log.
    #[error("the store could not be closed cleanly: {0}")]
    Close(#[source] store::Error),
}

impl RunError {
    /// Whether the settings themselves are wrong. If so, a retry cannot help. If a file that the
    /// settings name is wrong, a retry can help: for example, a renewed key can arrive shortly
    /// after its certificate.
    pub fn is_of_settings(&self) -> bool {
        matches!(self, Self::Tls(TlsError::Settings(_)))
    }
}

/// A server whose ports are bound. It does not accept connections yet.
pub struct BoundPorts {
    pub(super) clients: Port,
    pub(super) operators: Option<Port>,
    pub(super) tls: Option<Arc<Tls>>,
    /// The bound address, with the port that the system assigned.
    pub address: SocketAddr,
}

/// A bound port.
pub(super) struct Port {
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    address: SocketAddr,
}

/// The URLs of the bound ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortUrls {
    /// The URL for clients.
    pub clients: String,
    /// The URL for operators, if they have a separate port.
    pub operators: Option<String>,
}

impl BoundPorts {
    /// The URLs of the ports.
    pub fn urls(&self) -> PortUrls {
        PortUrls { clients: self.clients.url(), operators: self.operators.as_ref().map(Port::url) }
    }
}

impl Port {
    async fn bind(address: SocketAddr, tls: Option<Arc<Tls>>) -> Result<Self, RunError> {
        let failed = |source| RunError::Listen { address, source };
        let listener = listen(address).await.map_err(failed)?;
        // Connections inherit keepalive from the listener. Without keepalive, connections of peers
        // that vanished would stay open forever.
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER);
        SockRef::from(&listener).set_tcp_keepalive(&keepalive).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, tls, address })
    }

    fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    pub(super) fn serve(self, routes: impl Respond, limits: Limits, stop: &Stop) -> JoinHandle<()> {
        let tls = self.tls.map(|tls| tls as Arc<dyn Handshakes>);
        connections::serve(routes, self.listener, tls, limits, stop.clone())
    }
}

/// Binds an address. Retries for a short time while the address is in use.
pub(crate) async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let deadline = Instant::now() + ADDRESS_TIMEOUT;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                tokio::time::sleep(ADDRESS_PAUSE).await;
            }
            listening => return listening,
        }
    }
}

/// Advice for an operator about an address that cannot be bound.
pub(crate) fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            ". Stop the process that listens there, or choose another address (--listen, \
             server.listen, server.management.listen)"
        }
        _ => "",
    }
}

/// Binds the configured addresses and loads the certificates. This happens before the store is
/// opened. If a server cannot listen, it must not fence the running server, and it must not create
/// an admin key, because this key would never be printed.
pub async fn bind(settings: &Settings) -> Result<BoundPorts, RunError> {
    let tls = Tls::open(settings)?;
    let clients = Port::bind(settings.server.listen, tls.clone()).await?;
    let management = &settings.server.management;
    let operators = match management.listen {
        Some(address) => {
            let tls = tls.clone().filter(|_| !management.plain_http);
            Some(Port::bind(address, tls).await?)
        }
        None => None,
    };
    let address = clients.address;
    Ok(BoundPorts { clients, operators, tls, address })
}

/// Registers the metrics of the certificates and reloads their files until the server stops.
pub fn watch_certificates(
    app: &App,
    tls: &Arc<Tls>,
    stopping: watch::Receiver<bool>,
) -> JoinHandle<()> {
    let source = Arc::clone(tls);
    app.runtime.measures.registry.register("tls", move |into| source.collect(into));
    tokio::spawn(Arc::clone(tls).watch(stopping))
}

/// Serves until a signal arrives or the store closes, then drains requests and closes the store.
pub async fn run(
    mut app: App,
    bound: BoundPorts,
    signals: &mut StopSignals,
) -> Result<(), RunError> {
    let mut background = Background::start(&mut app.runtime);
    let ended = serve_until_stopped(&app, bound, signals, &mut background).await;
    background.finish().await;
    ended
}

async fn serve_until_stopped(
    app: &App,
    bound: BoundPorts,
    signals: &mut StopSignals,
    background: &mut Background,
) -> Result<(), RunError> {
    let stopping = background.stopping();
    if let Some(tls) = &bound.tls {
        background.add(watch_certificates(app, tls, stopping.clone()));
    }
    background.add(webhooks::spawn(app, stopping.clone()));
    background.add(idle::spawn(app, stopping.clone()));
    let routers = app.routers();
    let (settings, connections) = (&app.runtime.settings, &app.runtime.measures.connections);
    let limits = Limits::for_clients(settings, connections);
    let stop = Stop::of_server(&app.shutdown, &stopping);
    let mut tasks = vec![bound.clients.serve(routers.clients, limits, &stop)];
    if let (Some(port), Some(routes)) = (bound.operators, routers.operators) {
        let limits = Limits::for_operators(settings, connections);
        tasks.push(port.serve(routes, limits, &stop));
    }
    let store_error = tokio::select! {
        () = signals.wait() => None,
        store_error = app.runtime.catalog.store_closed() => Some(store_error),
        (ended, ..) = select_all(tasks.iter_mut()) => {
            return ended.map_err(|panic| RunError::Serve(io::Error::other(panic)));
        }
    };
    tracing::info!("shutting down: draining requests in flight");
    app.shutdown.begin();
    background.stop();
    let drain_max = Duration::from_secs(app.runtime.settings.server.drain_seconds_max);
    if tokio::time::timeout(drain_max, join_all(&mut tasks)).await.is_err() {
        tracing::warn!(seconds = drain_max.as_secs(), "some requests did not complete in time");
    }
    // A background task may be waiting for free disk space. Do not wait for it.
    app.runtime.catalog.give_up_on_space();
    background.ended().await;
    match store_error {
        Some(store_error) => Err(RunError::StoreClosed(store_error)),
        None => app.runtime.catalog.close().await.map_err(RunError::Close),
    }
}

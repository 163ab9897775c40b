//! Accepts connections while permits are available, serves them with deadlines, and drains them
//! when the server stops.

mod activity;
mod deadlines;
mod limits;
mod turns;

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, header};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use self::activity::{Activity, Phase, TrackedStream};
use self::deadlines::Deadlines;
use self::limits::HEADER_BYTES_MAX;
pub use self::limits::Limits;
use self::turns::Turns;
use super::tls::handshake::Handshakes;
use crate::api::peer::Peer;
use crate::api::service::Respond;
use crate::api::shutdown::ShutdownFlag;
use slateberg_base::rate::LogThrottle;

/// Time for which a single server that stops keeps connections without a request open.
const IDLE_MAX_OF_SERVER: Duration = Duration::from_millis(250);
/// Silence after which the server checks whether the client is still connected.
pub const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
/// Timeout of this check in HTTP/2.
const KEEPALIVE_MAX: Duration = Duration::from_secs(20);
/// Time in which a connection must end after the server has begun to close it.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);
/// HTTP/2 window of a request on a connection between members of a cluster.
pub const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// HTTP/2 window of a connection between members of a cluster: the maximum of the protocol.
pub const CONNECTION_WINDOW_BYTES: u32 = (1 << 31) - 1;
/// Minimum time between two log lines about problems with connections.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// The stop of a port.
#[derive(Debug, Clone)]
pub struct Stop {
    /// Begins when each HTTP/1 response has to end its connection. A client that uses its connections all
    /// the time then has none on which it sends a request at the moment at which the server closes it.
    pub shutdown: Arc<ShutdownFlag>,
    /// Turns true when the port has to reject new connections.
    pub is_closing: watch::Receiver<bool>,
    /// Time for which connections then stay open without a request.
    pub idle_max: Duration,
}

impl Stop {
    /// Returns the stop of a port of a single server.
    pub fn of_server(shutdown: &Arc<ShutdownFlag>, is_closing: &watch::Receiver<bool>) -> Self {
        Self {
            shutdown: Arc::clone(shutdown),
            is_closing: is_closing.clone(),
            idle_max: IDLE_MAX_OF_SERVER,
        }
    }
}

/// The state that all connections of a port share.
struct Server {
    routes: Arc<dyn Respond>,
    tls: Option<Arc<dyn Handshakes>>,
    handshakes: Semaphore,
    limits: Limits,
    shutdown: Arc<ShutdownFlag>,
    http: Builder<TokioExecutor>,
    reports: LogThrottle,
}

/// Serves connections until the stop. After that, the system rejects new connections,
/// and connected clients have a short time to send a request. Then the requests in progress are
/// drained.
pub fn serve(
    routes: impl Respond,
    listener: TcpListener,
    tls: Option<Arc<dyn Handshakes>>,
    limits: Limits,
    stop: Stop,
) -> JoinHandle<()> {
    let handshakes_max = tls.as_ref().map_or(0, |tls| tls.concurrent_max());
    let server = Arc::new(Server {
        routes: Arc::new(routes),
        tls,
        handshakes: Semaphore::new(handshakes_max.min(Semaphore::MAX_PERMITS)),
        http: http(limits.streams_max),
        limits,
        shutdown: stop.shutdown,
        reports: LogThrottle::new(REPORT_EVERY),
    });
    tokio::spawn(async move {
        let (drain, draining) = watch::channel(false);
        server.accept_until(listener, stop.is_closing, &draining).await;
        // A client that is already connected may have a request on its way. Wait for it.
        tokio::time::sleep(stop.idle_max).await;
        drain.send_replace(true);
        drop(draining);
        drain.closed().await;
    })
}

/// HTTP/1.1 and HTTP/2 with bounded buffers. [`Deadlines`] bounds the time for headers instead of
/// this builder, because the timeout of [`Deadlines`] also runs before the HTTP version is known.
fn http(streams_max: Option<u32>) -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1().max_buf_size(HEADER_BYTES_MAX);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_AFTER)
        .keep_alive_timeout(KEEPALIVE_MAX)
        .max_header_list_size(HEADER_BYTES_MAX as u32);
    if streams_max.is_some() {
        // One slow body must not stop the bodies of all other requests of the connection.
        http.http2()
            .max_concurrent_streams(streams_max)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    }
    http
}

impl Server {
    /// Accepts connections until the server stops. Still serves the connections in the backlog that
    /// the system accepted before the stop. Then closes the listener, so that the system rejects
    /// further connections.
    async fn accept_until(
        self: &Arc<Self>,
        listener: TcpListener,
        mut stopping: watch::Receiver<bool>,
        draining: &watch::Receiver<bool>,
    ) {
        loop {
            let accepted = tokio::select! {
                // The order matters: first accept the connections in the backlog, then react to the
                // stop.
                biased;
                accepted = self.accept(&listener) => accepted,
                // If the sender was dropped, stop as well.
                _ = stopping.wait_for(|stop| *stop) => return,
            };
            let (server, draining) = (Arc::clone(self), draining.clone());
            tokio::spawn(server.serve_connection(accepted, draining));
        }
    }

    /// Accepts the next connection once a permit is available.
    async fn accept(
        &self,
        listener: &TcpListener,
    ) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
        let permit = self.limits.acquire().await;
        loop {
            let error = match listener.accept().await {
                Ok((stream, address)) => return (stream, address, permit),
                Err(error) => error,
            };
            let counters = &self.limits.counters;
            counters.accept_failures.add(1);
            if self.reports.is_due() {
                let failures = counters.accept_failures.get();
                tracing::warn!(%error, failures, "cannot accept a connection");
            }
            // Without a free file descriptor, an immediate retry would fail again.
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }

    /// Serves one connection until it ends.
    async fn serve_connection(
        self: Arc<Self>,
        (stream, address, _permit): (TcpStream, SocketAddr, OwnedSemaphorePermit),
        mut draining: watch::Receiver<bool>,
    ) {
        let _open = self.limits.counters.open();
        // With Nagle's algorithm, the end of a long response would wait until the client has
        // acknowledged its beginning.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%address, %error, "connection ended before it was served");
            return;
        }
        let Some(tls) = &self.tls else {
            return self
                .serve_requests(stream, Peer { address, certificate: None }, draining)
                .await;
        };
        let Ok(in_progress) = self.handshakes.try_acquire() else {
            if self.reports.is_due() {
                tracing::warn!(%address, "connection closed: server.tls.handshakes_max handshakes are in progress");
            }
            return;
        };
        let encrypted = tokio::select! {
            encrypted = Arc::clone(tls).accept(stream, address) => encrypted,
            _ = draining.wait_for(|drain| *drain) => None,
        };
        drop(in_progress);
        if let Some((stream, peer)) = encrypted {
            self.serve_requests(stream, peer, draining).await;
        }
    }

    /// Serves the requests of a connection.
    async fn serve_requests<T>(&self, stream: T, peer: Peer, mut draining: watch::Receiver<bool>)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Arc::new(Activity::new(Arc::clone(&self.shutdown)));
        let address = peer.address;
        let mut deadlines = Deadlines::new(self.limits.timeouts, &activity);
        let stream = TokioIo::new(TrackedStream::new(stream, Arc::clone(&activity)));
        let service = service_fn(|request: Request<Incoming>| {
            let in_progress = activity.begin(request.version());
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer.clone()));
            let response = self.routes.respond(request);
            async move {
                let mut response = response.await;
                if in_progress.is_last() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                Ok::<_, Infallible>(response.map(|body| in_progress.wrap(body)))
            }
        });
        let mut connection = pin!(self.http.serve_connection(stream, service));
        let (mut is_draining, mut is_closing) = (false, false);
        let mut turns = Turns::default();
        loop {
            tokio::select! {
                // The order matters: a step of the connection can change its phase, and thus its
                // deadline.
                biased;
                result = poll_fn(|context| turns.poll(connection.as_mut(), context, &activity)) => {
                    if let Err(error) = result {
                        tracing::debug!(%address, %error, "connection failed");
                    }
                    return;
                }
                _ = draining.wait_for(|drain| *drain), if !is_draining => {
                    is_draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                phase = poll_fn(|context| deadlines.poll_expired(context, &activity)) => {
                    if is_closing || phase != Phase::Idle {
                        return self.closed(address, phase);
                    }
                    is_closing = true;
                    connection.as_mut().graceful_shutdown();
                    deadlines.set_close_deadline(CLOSE_MAX);
                    self.closed(address, phase);
                }
            }
        }
    }

    /// Counts a connection that was closed because of a timeout.
    fn closed(&self, address: SocketAddr, phase: Phase) {
        let counters = &self.limits.counters;
        let (reason, counter) = match phase {
            Phase::Header => ("no request header in time", &counters.closed_header),
            Phase::Idle | Phase::Request => ("idle", &counters.closed_idle),
            Phase::Stalled => ("response not read in time", &counters.closed_stalled),
        };
        counter.add(1);
        tracing::debug!(%address, reason, "connection closed");
    }
}

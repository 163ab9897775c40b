//! Connections whose handshake is over.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Tls;
use crate::api::peer::Peer;
use crate::app::closing::ClosingListener;

/// Listens for encrypted connections. Handshakes are made next to each other, so that a client that dawdles
/// over its own keeps nobody waiting.
pub struct TlsListener {
    tcp: ClosingListener,
    tls: Arc<Tls>,
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, Peer)>>,
}

impl TlsListener {
    /// Encrypts what this listener accepts.
    pub fn new(tcp: ClosingListener, tls: Arc<Tls>) -> Self {
        Self { tcp, tls, handshakes: JoinSet::new() }
    }

    fn shake_hands(&mut self, stream: TcpStream, address: SocketAddr) {
        let settings = &self.tls.settings;
        if self.handshakes.len() >= settings.handshakes_max {
            tracing::warn!(%address, "connection closed: too many handshakes are under way");
            return;
        }
        let time_max = settings.handshake_max();
        self.handshakes.spawn(handshake(Arc::clone(&self.tls), stream, address, time_max));
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = Peer;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                (stream, address) = self.tcp.accept() => {
                    self.shake_hands(stream, address);
                }
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(connection)) = done {
                        return connection;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(Peer { address: self.tcp.local_addr()?, certificate: None })
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        stream.remote_addr().clone()
    }
}

async fn handshake(
    tls: Arc<Tls>,
    stream: TcpStream,
    address: SocketAddr,
    time_max: Duration,
) -> Option<(TlsStream<TcpStream>, Peer)> {
    let config = tls.config();
    let shaking = async {
        // Without it, the end of a long answer would wait for the client's acknowledgement of its beginning.
        stream.set_nodelay(true)?;
        TlsAcceptor::from(Arc::clone(&config)).accept(stream).await
    };
    match tokio::time::timeout(time_max, shaking).await {
        Ok(Ok(stream)) => {
            let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let certificate = tls.present(&config, chain);
            Some((stream, Peer { address, certificate }))
        }
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!(%address, "TLS handshake took too long");
            None
        }
    }
}

//! TLS handshakes of accepted connections.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Tls;
use crate::api::peer::Peer;

/// The result of a handshake: the encrypted connection and its client. `None` if the handshake failed
/// or timed out.
pub type Handshake = BoxFuture<'static, Option<(TlsStream<TcpStream>, Peer)>>;

/// The server's side of TLS on the connections of a port.
pub trait Handshakes: Send + Sync + 'static {
    /// The maximum number of concurrent handshakes.
    fn concurrent_max(&self) -> usize;

    /// Performs the handshake of a connection.
    fn accept(self: Arc<Self>, stream: TcpStream, address: SocketAddr) -> Handshake;
}

impl Handshakes for Tls {
    fn concurrent_max(&self) -> usize {
        self.settings.handshakes_max
    }

    fn accept(self: Arc<Self>, stream: TcpStream, address: SocketAddr) -> Handshake {
        Box::pin(async move { self.handshake(stream, address).await })
    }
}

impl Tls {
    async fn handshake(
        &self,
        stream: TcpStream,
        address: SocketAddr,
    ) -> Option<(TlsStream<TcpStream>, Peer)> {
        let config = self.config();
        let handshake = TlsAcceptor::from(Arc::clone(&config)).accept(stream);
        match tokio::time::timeout(self.settings.handshake_max(), handshake).await {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
                let certificate = self.register(&config, chain);
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
}

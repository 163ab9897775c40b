//! TLS handshakes of accepted connections.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Tls;
use crate::api::peer::Peer;

impl Tls {
    /// The maximum number of concurrent handshakes of a port.
    pub fn handshakes_max(&self) -> usize {
        self.settings.handshakes_max
    }

    /// Performs the handshake of a connection. Returns `None` if it fails or times out.
    pub async fn accept(
        self: &Arc<Self>,
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

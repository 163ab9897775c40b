//! The beginning of an encrypted connection.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Tls;
use crate::api::peer::Peer;

impl Tls {
    /// The number of handshakes that a port may have under way.
    pub fn handshakes_max(&self) -> usize {
        self.settings.handshakes_max
    }

    /// Encrypts a connection. Returns `None` if the client fails to do its part of the handshake in time.
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
                let certificate = self.present(&config, chain);
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

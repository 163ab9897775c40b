//! [`MemberHandshakes`]: TLS on the connections of other members.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::identity::{IdentityError, MemberIdentity, sha256};
use crate::api::peer::Peer;
use crate::app::tls::handshake::{Handshake, Handshakes};
use slateberg_base::error_chain::chain;
use slateberg_runtime::cluster::Members;

/// Maximum number of concurrent handshakes.
const HANDSHAKES_MAX: usize = 64;
/// Timeout of a handshake and of the check of its certificate.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// The server's side of TLS for other members.
pub(super) struct MemberHandshakes {
    config: Arc<ServerConfig>,
    members: Members,
}

impl MemberHandshakes {
    /// Accepts connections of processes whose certificates have a record in `members`.
    pub(super) fn new(identity: &MemberIdentity, members: Members) -> Result<Self, IdentityError> {
        Ok(Self { config: Arc::new(identity.server_config()?), members })
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        address: SocketAddr,
    ) -> Option<(TlsStream<TcpStream>, Peer)> {
        let accept = TlsAcceptor::from(Arc::clone(&self.config)).accept(stream);
        let stream = match accept.await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%address, %error, "TLS handshake of another member failed");
                return None;
            }
        };
        let hash = sha256(stream.get_ref().1.peer_certificates()?.first()?);
        match self.members.contains(&hash).await {
            Ok(true) => Some((stream, Peer { address, certificate: None })),
            Ok(false) => {
                tracing::warn!(%address, "connection of a process that is not a member of the cluster");
                None
            }
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(%address, error, "cannot check whether a process is a member of the cluster");
                None
            }
        }
    }
}

impl Handshakes for MemberHandshakes {
    fn concurrent_max(&self) -> usize {
        HANDSHAKES_MAX
    }

    fn accept(self: Arc<Self>, stream: TcpStream, address: SocketAddr) -> Handshake {
        Box::pin(async move {
            timeout(HANDSHAKE_MAX, self.handshake(stream, address)).await.ok().flatten()
        })
    }
}

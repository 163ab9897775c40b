//! Who is at the other end of a connection, as far as the connection itself tells.

use std::net::SocketAddr;
use std::sync::Arc;

use slateberg_authn::client_certificates::Presented;

/// The other end of a connection. It is left with each request that comes over it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Where it is.
    pub address: SocketAddr,
    /// The certificate that it has shown, if it has shown one.
    pub certificate: Option<Arc<Presented>>,
}

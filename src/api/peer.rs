//! Who is at the other end of a connection, as far as the connection itself tells.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::ConnectInfo;
use axum::http::Extensions;
use slateberg_authn::client_certificates::Presented;

/// The other end of a connection. It is left with each request that comes over it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Where it is.
    pub address: SocketAddr,
    /// The certificate that it has shown, if it has shown one.
    pub certificate: Option<Arc<Presented>>,
}

/// Where a request comes from; nowhere if it came over no connection.
pub fn source(extensions: &Extensions) -> Option<IpAddr> {
    peer(extensions).map(|peer| peer.address.ip())
}

/// The other end of the connection that a request came over; none if it came over none.
pub fn peer(extensions: &Extensions) -> Option<&Peer> {
    extensions.get::<ConnectInfo<Peer>>().map(|info| &info.0)
}

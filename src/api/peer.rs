//! The client of a connection, as identified by the connection itself.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::ConnectInfo;
use axum::http::Extensions;
use slateberg_authn::client_certificates::PresentedCertificate;

/// The client of a connection. Each request on the connection carries this value as an extension.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The client's address.
    pub address: SocketAddr,
    /// The client's certificate, if it presented one.
    pub certificate: Option<Arc<PresentedCertificate>>,
}

/// The address of a request's client. `None` without a connection.
pub fn source(extensions: &Extensions) -> Option<IpAddr> {
    peer(extensions).map(|peer| peer.address.ip())
}

/// The client of the request's connection. `None` without a connection.
pub fn peer(extensions: &Extensions) -> Option<&Peer> {
    extensions.get::<ConnectInfo<Peer>>().map(|info| &info.0)
}

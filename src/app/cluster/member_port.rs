//! [`MemberPort`]: responds to the requests of clients that other members forward.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;

use super::forwarded::Forwarded;
use super::node::Node;
use super::responses::respond_as_writer;
use crate::api::error::ApiError;
use crate::api::peer::Peer;
use crate::api::service::Respond;
use slateberg_authn::client_certificates::ClientCertificates;

/// Responds to forwarded requests while this process is the writer.
pub(super) struct MemberPort {
    /// The state of the election.
    pub(super) node: Arc<Node>,
    /// Reads the certificates of clients.
    pub(super) certificates: Arc<ClientCertificates>,
    /// The maximum time that a request waits for the renewal of an expired lease.
    pub(super) lease_wait: Duration,
}

impl Respond for MemberPort {
    fn respond(&self, mut request: Request) -> BoxFuture<'static, Response> {
        let (node, lease_wait) = (Arc::clone(&self.node), self.lease_wait);
        let forwarded = Forwarded::take(request.headers_mut());
        let forwarded = match forwarded {
            Ok(forwarded) => forwarded,
            Err(error) => return Box::pin(async move { error.into_response() }),
        };
        if let Some(host) = forwarded.host {
            request.headers_mut().insert(header::HOST, host);
        }
        *request.uri_mut() = without_authority(request.uri());
        let certificate = forwarded.certificate.map(|certificate| {
            // The member that accepted the connection has verified the certificate.
            let presented = self.certificates.read(&certificate);
            Arc::new(presented)
        });
        let peer = Peer { address: forwarded.address, certificate };
        request.extensions_mut().insert(ConnectInfo(peer));
        Box::pin(async move {
            let Some(services) = node.services() else { return not_the_writer() };
            respond_as_writer(&node, &services, forwarded.port, lease_wait, request)
                .await
                .unwrap_or_else(|_not_executed| not_the_writer())
        })
    }
}

/// 421: this process is not the writer. The member that forwarded the request retries it.
fn not_the_writer() -> Response {
    let message = "This member of the cluster is not the writer";
    let status = StatusCode::MISDIRECTED_REQUEST;
    ApiError::new(status, "MisdirectedRequestException", message).into_response()
}

/// Returns the path and query of a URI. In HTTP/2, the authority of a forwarded request is that of
/// the writer, not that of the client's request.
fn without_authority(uri: &Uri) -> Uri {
    uri.path_and_query().map(|path| Uri::from(path.clone())).unwrap_or_default()
}

//! [`MemberPort`]: responds to the requests of clients that other members forward.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;

use super::catalog_services::CatalogServices;
use super::forwarded::Forwarded;
use super::local_response::LocalResponse;
use super::node::Node;
use super::peers::{CHANGED, FEED, MEMBER_REQUEST, PeerState, STATE, USAGE, UsageReport};
use super::replication_feed::respond_with_feed;
use super::responses::respond_as_writer;
use crate::api::error::ApiError;
use crate::api::peer::Peer;
use crate::api::service::Respond;
use slateberg_authn::client_certificates::ClientCertificates;

/// Marks the response of a writer that lost its term while it executed the request. It is unknown
/// whether the request was executed.
pub(super) const TERM_LOST: HeaderName = HeaderName::from_static("slateberg-term-lost");

/// Maximum size of the report of a replica.
const REPORT_BYTES_MAX: usize = 64 << 20;

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
        if let Some(of_member) = request.headers().get(MEMBER_REQUEST).cloned() {
            return Box::pin(async move { respond_to_member(&node, &of_member, request).await });
        }
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
            let port = forwarded.port;
            match respond_as_writer(&node, &services, port, lease_wait, request).await {
                LocalResponse::Complete(response) => response,
                LocalResponse::NotBegun(_) => not_the_writer(),
                LocalResponse::Failed(failure) => of_lost_term(failure),
            }
        })
    }
}

/// Responds to a request of a member itself.
async fn respond_to_member(node: &Arc<Node>, kind: &HeaderValue, request: Request) -> Response {
    let kind = kind.to_str().unwrap_or_default();
    match kind {
        STATE => Json(PeerState { node: node.id, role: node.cluster_role() }).into_response(),
        CHANGED => {
            node.record_changed.notify_one();
            StatusCode::NO_CONTENT.into_response()
        }
        FEED => {
            let services = node.services();
            let feed = services.and_then(|it| respond_with_feed(node, &it, request.into_body()));
            feed.unwrap_or_else(not_the_writer)
        }
        USAGE => match node.services() {
            Some(services) => accept_report(&services, request).await,
            None => not_the_writer(),
        },
        _ => ApiError::bad_request("Unknown request of a member").into_response(),
    }
}

/// Adds the uses that a replica has counted.
async fn accept_report(services: &CatalogServices, request: Request) -> Response {
    let Ok(body) = to_bytes(request.into_body(), REPORT_BYTES_MAX).await else {
        return ApiError::bad_request("The report of a replica is too long").into_response();
    };
    match serde_json::from_slice(&body) {
        Ok(UsageReport { tabulars, keys }) => {
            services.catalog().replicas().add_uses(tabulars);
            services.keys().add_uses(keys);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(error) => {
            let message = format!("The report of a replica is invalid: {error}");
            ApiError::bad_request(message).into_response()
        }
    }
}

/// The response to a request during which this process lost its term. The member that forwarded the
/// request sends it to the next writer.
fn of_lost_term(mut failure: Response) -> Response {
    if failure.status() == StatusCode::SERVICE_UNAVAILABLE {
        return not_the_writer();
    }
    failure.headers_mut().insert(TERM_LOST, HeaderValue::from_static("true"));
    failure
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

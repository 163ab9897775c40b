//! Responses of the writer, and of members that cannot respond.

use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::node::{Node, PortKind, WriterServices};
use crate::api::error::ApiError;
use crate::api::service::Respond;

/// Paths to which each member responds itself. They need no lease.
const OWN_PATHS: [&str; 3] = ["/health", "/ready", "/metrics"];

/// Responds as the writer, once the lease proves that no other member has become the writer.
pub(super) async fn respond_as_writer(
    node: &Node,
    services: &WriterServices,
    port: PortKind,
    lease_wait: Duration,
    request: Request,
) -> Response {
    let needs_lease = !OWN_PATHS.contains(&request.uri().path());
    if needs_lease && !node.lease.is_valid() && !node.lease.wait_valid(lease_wait).await {
        return unavailable(
            "This member of the cluster cannot renew its lease as the writer: the bucket of the state does not respond",
        );
    }
    services.port(port).respond(request).await
}

/// 503: the client may retry.
pub(super) fn unavailable(message: &str) -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    ApiError::new(status, "ServiceUnavailableException", message).into_response()
}

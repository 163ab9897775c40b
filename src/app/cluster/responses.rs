//! Responses of the writer, and of members that cannot respond.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::node::{Node, PortKind, WriterServices};
use crate::api::error::ApiError;
use crate::api::service::Respond;

/// Paths to which each member responds itself. They need no lease.
const OWN_PATHS: [&str; 3] = ["/health", "/ready", "/metrics"];

/// Responds as the writer, once the lease proves that no other member has become the writer. Returns
/// the request if it was not executed: the lease was not renewed in time, or this process has closed
/// this catalog in the meantime.
pub(super) async fn respond_as_writer(
    node: &Node,
    services: &Arc<WriterServices>,
    port: PortKind,
    lease_wait: Duration,
    request: Request,
) -> Result<Response, Request> {
    if !OWN_PATHS.contains(&request.uri().path()) && !node.lease.is_valid() {
        let is_renewed = node.lease.wait_valid(lease_wait).await;
        let is_current = node.services().is_some_and(|now| Arc::ptr_eq(&now, services));
        if !is_renewed || !is_current {
            return Err(request);
        }
    }
    Ok(services.port(port).respond(request).await)
}

/// 503: the client may retry.
pub(super) fn unavailable(message: &str) -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    ApiError::new(status, "ServiceUnavailableException", message).into_response()
}

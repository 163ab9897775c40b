//! Responses of the writer, and of members that cannot respond.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::catalog_services::{CatalogServices, PortKind};
use super::node::Node;
use crate::api::error::ApiError;
use crate::api::probes::PROBES;
use crate::api::service::Respond;

/// The result of a request that this process executes as the writer.
pub(super) enum WriterResponse {
    /// The response for the client.
    Complete(Response),
    /// The request was not executed: the lease was not renewed in time, or this process has closed
    /// this catalog in the meantime.
    NotBegun(Request),
    /// This process lost its term or its store while it executed the request. The next writer can
    /// give the true response. The status of this response is 503 if nothing was written, and 500 if
    /// that is unknown.
    TermLost(Response),
}

/// Responds as the writer, once the lease proves that no other member has become the writer.
pub(super) async fn respond_as_writer(
    node: &Node,
    services: &Arc<CatalogServices>,
    port: PortKind,
    lease_wait: Duration,
    request: Request,
) -> WriterResponse {
    // Each member responds to probes itself. They need no lease.
    if PROBES.contains(&request.uri().path()) {
        return WriterResponse::Complete(services.port(port).respond(request).await);
    }
    let _in_progress = services.begin();
    let is_valid = node.lease.is_valid() || node.lease.wait_valid(lease_wait).await;
    if !is_valid || !node.is_current(services) {
        return WriterResponse::NotBegun(request);
    }
    let response = services.port(port).respond(request).await;
    let is_failure = matches!(
        response.status(),
        StatusCode::INTERNAL_SERVER_ERROR | StatusCode::SERVICE_UNAVAILABLE
    );
    let has_term = || node.lease.is_valid() && node.is_current(services) && !services.has_closed();
    if is_failure && !has_term() {
        return WriterResponse::TermLost(response);
    }
    WriterResponse::Complete(response)
}

/// 503: the client may retry.
pub(super) fn unavailable(message: &str) -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    ApiError::new(status, "ServiceUnavailableException", message).into_response()
}

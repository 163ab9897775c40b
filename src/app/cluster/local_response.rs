//! [`LocalResponse`]: the result of a request that a member executes itself.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::api::error::ApiError;

/// The result of a request that this process executes itself.
pub(super) enum LocalResponse {
    /// The response for the client.
    Complete(Response),
    /// The request was not executed: the lease was not renewed in time, this process has closed this
    /// catalog in the meantime, or its replica is not current.
    NotBegun(Request),
    /// This process lost its term or its store while it executed the request, or its replica failed.
    /// The writer of that time can give the true response. The status of this response is 503 if
    /// nothing was written, and 500 if that is unknown.
    Failed(Response),
}

/// 503: the cluster has no writer until an operator resumes it.
pub(super) fn paused() -> Response {
    let message = "An operator has paused the cluster: it executes only reads until `slateberg cluster resume`";
    let status = StatusCode::SERVICE_UNAVAILABLE;
    ApiError::new(status, "ClusterPausedException", message).into_response()
}

/// 503: the client may retry.
pub(super) fn unavailable(message: &str) -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    ApiError::new(status, "ServiceUnavailableException", message).into_response()
}

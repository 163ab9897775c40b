//! [`LocalResponse`]: the result of a request that a member executes itself.

use axum::extract::Request;
use axum::response::Response;

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

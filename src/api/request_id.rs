//! The header for request ids.

use axum::http::HeaderName;

/// The header for the id by which a request is found in the logs of the client and of the server.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

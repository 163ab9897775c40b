//! The header for request ids.

use axum::http::HeaderName;

/// The header for the id of a request in the logs of client and server.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

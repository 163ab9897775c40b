//! The header for request ids.

use axum::http::HeaderName;

/// The header with the id that identifies a request in the logs of the client and of the server.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

//! The header with the id of a request.

use axum::http::HeaderName;

/// By what client and server call one request in their logs.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

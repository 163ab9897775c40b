//! The operation of a request: its principal and context.

use axum::http::request::Parts;

use crate::api::authenticate::CHALLENGE;
use crate::api::error::ApiError;
use slateberg_catalog::Operation;

/// Returns the operation that authentication attached to the request. Errors on a route without
/// authentication, because requests to it have no operation.
pub fn operation(parts: &Parts) -> Result<&Operation, ApiError> {
    parts.extensions.get::<Operation>().ok_or_else(|| ApiError::unauthorized(CHALLENGE))
}

/// Takes the operation out of the request. A handler must extract it last, because other extractors
/// read it.
pub fn take_operation(parts: &mut Parts) -> Result<Operation, ApiError> {
    parts.extensions.remove::<Operation>().ok_or_else(|| ApiError::unauthorized(CHALLENGE))
}

//! Who asks, and under which circumstances.

use axum::http::request::Parts;

use crate::api::authenticate::CHALLENGE;
use crate::api::error::ApiError;
use slateberg_catalog::Operation;

/// The operation that the request was let in as. A route that does not authenticate has none, so that
/// nothing that needs one can be reached through it.
pub fn operation(parts: &Parts) -> Result<&Operation, ApiError> {
    parts.extensions.get::<Operation>().ok_or_else(|| ApiError::unauthorized(CHALLENGE))
}

/// The same for a handler, which gets it last of all that it extracts.
pub fn take_operation(parts: &mut Parts) -> Result<Operation, ApiError> {
    parts.extensions.remove::<Operation>().ok_or_else(|| ApiError::unauthorized(CHALLENGE))
}

//! Who asks, and under which circumstances.

use axum::http::request::Parts;

use crate::api::authenticate::CHALLENGE;
use crate::api::error::ApiError;
use crate::catalog::Operation;

/// The operation that the request was let in as. A route that does not authenticate has none, so that
/// nothing that needs one can be reached through it.
pub fn operation(parts: &Parts) -> Result<&Operation, ApiError> {
    parts.extensions.get::<Operation>().ok_or_else(|| ApiError::unauthorized(CHALLENGE))
}

//! Who asks.

use axum::http::request::Parts;

use crate::api::authenticate::CHALLENGE;
use crate::api::error::ApiError;
use crate::model::principal::Principal;

/// The principal that the request was found to come from. A route that does not authenticate has none, so
/// that nothing that needs one can be reached through it.
pub fn principal(parts: &Parts) -> Result<&Principal, ApiError> {
    parts.extensions.get::<Principal>().ok_or_else(|| ApiError::unauthorized(CHALLENGE))
}

//! `pageToken` and `pageSize`.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::query::Query;
use crate::api::error::ApiError;
use crate::api::state::ApiState;
use crate::model::page::{PageRequest, decode_token};

/// Which page of a listing is wanted. Without a `pageToken` everything is, whatever the `pageSize`:
/// such a client does not know pages.
pub struct Paging(pub PageRequest);

impl FromRequestParts<ApiState> for Paging {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let query = Query::from_request_parts(parts, state).await?;
        let size_max = state.catalog.settings().page_size_max;
        let size = match query.get("pageSize") {
            None => size_max,
            Some(text) => text.parse().ok().filter(|size| *size >= 1).ok_or_else(|| {
                ApiError::bad_request(format!(
                    "Invalid query parameter pageSize: expected a number from 1, got '{text}'"
                ))
            })?,
        };
        Ok(Self(match query.get("pageToken") {
            None => PageRequest { after: None, limit: None },
            Some(token) => {
                PageRequest { after: decode_token(&token)?, limit: Some(size.min(size_max)) }
            }
        }))
    }
}

//! The query parameters `pageToken` and `pageSize`.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use sha2::{Digest, Sha256};

use super::query::Query;
use crate::api::error::ApiError;
use crate::api::state::ApiState;
use slateberg_model::page::{Listing, PageRequest, decode_token};

/// The requested page of a listing. Without a `pageToken`, the response contains the whole listing
/// regardless of `pageSize`, because a client that sends no token does not support pagination.
pub struct Paging(pub PageRequest);

impl FromRequestParts<ApiState> for Paging {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let query = Query::from_request_parts(parts, state).await?;
        let size_max = state.catalog.settings().page_size_max;
        let size = page_size(&query, size_max)?;
        Ok(Self(match query.get("pageToken") {
            None => PageRequest::default(),
            Some(token) => {
                let listing = listing(parts.uri.path(), query.get("parent").as_deref());
                let after = decode_token(&token, listing)?;
                PageRequest { listing, after, limit: Some(size.min(size_max)) }
            }
        }))
    }
}

/// Returns the requested page of results that `results` identifies. A page always has a limit:
/// `size`, unless the client requests another one.
pub fn page_of_results(
    query: &Query,
    path: &str,
    results: &str,
    size: usize,
    size_max: usize,
) -> Result<PageRequest, ApiError> {
    let size = page_size(query, size)?;
    let listing = listing(path, Some(results));
    let token = query.get("pageToken");
    let after = token.map(|token| decode_token(&token, listing)).transpose()?.flatten();
    Ok(PageRequest { listing, after, limit: Some(size.min(size_max)) })
}

/// Returns the `pageSize`, or a default.
fn page_size(query: &Query, default: usize) -> Result<usize, ApiError> {
    match query.get("pageSize") {
        None => Ok(default),
        Some(text) => text.parse().ok().filter(|size| *size >= 1).ok_or_else(|| {
            ApiError::bad_request(format!(
                "Invalid query parameter pageSize: expected a number of at least 1, got '{text}'"
            ))
        }),
    }
}

/// Identifies the requested listing by its path and its `parent` parameter. Filters are not part of
/// the identity: they may change between pages.
fn listing(path: &str, parent: Option<&str>) -> Listing {
    let mut hash = Sha256::new();
    hash.update(path);
    // This byte separates the path from the parent. A path never contains it.
    hash.update([0_u8]);
    hash.update(parent.unwrap_or_default());
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&hash.finalize()[..4]);
    Listing(u32::from_be_bytes(bytes))
}

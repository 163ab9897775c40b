//! Handler for the change log.

use std::str::FromStr;

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::ReadOperation;
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::history::history_response;
use slateberg_catalog::history::HistoryRequest;
use slateberg_management::history::HistoryResponse;

/// `GET /management/v1/history`.
pub async fn list(
    State(state): State<ApiState>,
    query: Query,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<HistoryResponse>> {
    let request = HistoryRequest {
        resource: query.get("resource").map(|resource| resource.into_owned()),
        id: parsed(&query, "id", "an id")?,
        before: parsed(&query, "before", "a number")?,
        limit: parsed(&query, "pageSize", "a number")?,
    };
    if request.limit == Some(0) {
        return Err(ApiError::bad_request("Invalid query parameter pageSize: expected at least 1"));
    }
    let page = state.catalog.history().history(&operation, &request).await?;
    Ok(Json(history_response(page)))
}

/// Returns the value of an optional parameter.
fn parsed<T: FromStr>(query: &Query, name: &str, expected: &str) -> Result<Option<T>> {
    let Some(text) = query.get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        ApiError::bad_request(format!(
            "Invalid query parameter {name}: expected {expected}, got '{text}'"
        ))
    })
}

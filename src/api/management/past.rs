//! Handlers for earlier states of the catalog.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::ReadOperation;
use crate::api::extract::paging::page_of_results;
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::past::{past_contents, past_metadata};
use slateberg_management::past::{PastContents, PastMetadata};

/// `GET /management/v1/past/contents`.
pub async fn contents(
    State(state): State<ApiState>,
    uri: Uri,
    query: Query,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<PastContents>> {
    let (resource, as_of) = selection(&query)?;
    let size_max = state.catalog.settings().page_size_max;
    let results = [&*resource, &*as_of].join("\n");
    let page = page_of_results(&query, uri.path(), &results, size_max, size_max)?;
    let listing = state.catalog.past().list(&operation, (&resource, &as_of), &page).await?;
    Ok(Json(past_contents(listing)))
}

/// `GET /management/v1/past/metadata`.
pub async fn metadata(
    State(state): State<ApiState>,
    query: Query,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<PastMetadata>> {
    let (resource, as_of) = selection(&query)?;
    let past = state.catalog.past().load(&operation, (&resource, &as_of)).await?;
    Ok(Json(past_metadata(past)?))
}

/// Returns the resource, and the time or position.
fn selection(query: &Query) -> Result<(String, String)> {
    let required = |name: &str| {
        let value = query.get(name).map(|value| value.into_owned());
        value.filter(|value| !value.is_empty()).ok_or_else(|| {
            ApiError::bad_request(format!("Invalid query parameter {name}: expected a value"))
        })
    };
    Ok((required("resource")?, required("as-of")?))
}

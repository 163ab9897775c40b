//! Handler for the search.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::ReadOperation;
use crate::api::extract::paging::page_of_results;
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::search::search_response;
use slateberg_catalog::search::SearchRequest;
use slateberg_management::search::SearchResponse;

/// Number of hits of a page, unless the client requests another number.
const HITS: usize = 50;

/// `GET /management/v1/search`.
pub async fn search(
    State(state): State<ApiState>,
    uri: Uri,
    query: Query,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<SearchResponse>> {
    let Some(words) = query.get("q") else {
        return Err(ApiError::bad_request("Missing query parameter: q"));
    };
    let warehouse = query.get("warehouse");
    let kinds: Vec<_> = query.all("kind").collect();
    let sources: Vec<_> = query.all("in").collect();
    let sources: Vec<_> = sources.iter().flat_map(|list| list.split(',')).collect();
    let warehouse_name = warehouse.as_deref().unwrap_or_default();
    let results = [&*words, warehouse_name, &kinds.join(","), &sources.join(",")].join("\n");
    let size_max = state.catalog.settings().page_size_max;
    let page = page_of_results(&query, uri.path(), &results, HITS.min(size_max), size_max)?;
    let request = SearchRequest {
        query: words.into_owned(),
        warehouse: warehouse.map(|name| name.into_owned()),
        kinds,
        sources: sources.into_iter().map(str::to_owned).collect(),
        page,
    };
    let page = state.catalog.search().search(&operation, &request).await?;
    Ok(Json(search_response(page)))
}

//! Handler for the use of tables.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::ReadOperation;
use crate::api::extract::paging::page_of_results;
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::usage::usage_list;
use slateberg_catalog::usage::{UsageOrder, UsagePage};
use slateberg_management::tables::TableUsageList;

/// Number of tables of a page, unless the client requests another number.
const TABLES: usize = 100;

/// `GET /management/v1/tables/usage`.
pub async fn list(
    State(state): State<ApiState>,
    uri: Uri,
    query: Query,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<TableUsageList>> {
    let usage = state.catalog.usage();
    let page = match (query.get("resource"), query.get("warehouse")) {
        (Some(resource), None) => {
            let table = usage.of(&operation, &resource).await?;
            UsagePage { tables: vec![table], next: None }
        }
        (None, Some(warehouse)) => {
            let order = match query.get("sort") {
                Some(name) => UsageOrder::parse(&name)?,
                None => UsageOrder::LeastRecentlyRead,
            };
            let results = [&*warehouse, order.as_str()].join("\n");
            let size_max = state.catalog.settings().page_size_max;
            let size = TABLES.min(size_max);
            let page = page_of_results(&query, uri.path(), &results, size, size_max)?;
            usage.list(&operation, &warehouse, order, &page).await?
        }
        _ => {
            return Err(ApiError::bad_request(
                "Invalid query parameters: expected either resource or warehouse",
            ));
        }
    };
    Ok(Json(usage_list(page)))
}

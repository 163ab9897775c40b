//! Handler for the health of tables.

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::ReadOperation;
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::tables::table_health;
use slateberg_management::tables::TableHealth;

/// `GET /management/v1/tables/health`.
pub async fn load(
    State(state): State<ApiState>,
    query: Query,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<TableHealth>> {
    let Some(resource) = query.get("resource") else {
        return Err(ApiError::bad_request("Missing query parameter: resource"));
    };
    let health = state.catalog.planning().table_health(&operation, &resource).await?;
    Ok(Json(table_health(resource.into_owned(), health)))
}

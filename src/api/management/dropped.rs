//! Handlers for dropped namespaces, tables and views.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::paging::Paging;
use crate::api::extract::path::PathParams;
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::dropped::{dropped_list, undrop_request, undropped};
use slateberg_management::dropped::{DroppedList, UndropRequest, UndropResult};

/// `GET /management/v1/dropped`.
pub async fn list(
    State(state): State<ApiState>,
    Paging(page): Paging,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<DroppedList>> {
    let page = state.catalog.tabulars().dropped(&operation, &page).await?;
    Ok(Json(dropped_list(page, state.authn.keys())))
}

/// `POST /management/v1/dropped/undrop`.
pub async fn undrop(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<UndropRequest>,
) -> Result<Json<UndropResult>> {
    let request = undrop_request(body);
    Ok(Json(undropped(state.catalog.tabulars().undrop(&operation, request).await?)))
}

/// `DELETE /management/v1/dropped/{id}`.
pub async fn delete(
    State(state): State<ApiState>,
    PathParams(id): PathParams<String>,
    query: Query,
    Mutation(operation): Mutation,
) -> Result<StatusCode> {
    let purge = query.flag("purge")?;
    state.catalog.tabulars().delete_dropped(&operation, &id, purge).await?;
    Ok(StatusCode::NO_CONTENT)
}

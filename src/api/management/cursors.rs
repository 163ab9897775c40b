//! Handlers for the cursors of the change feed.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::path::PathParams;
use crate::api::state::ApiState;
use crate::api::wire::cursors::cursor as wire;
use slateberg_catalog::watch::cursors::StoredPosition;
use slateberg_management::cursors::{Cursor, CursorList, StoreCursorRequest};

/// `GET /management/v1/watch/cursors`.
pub async fn list(
    State(state): State<ApiState>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<CursorList>> {
    let all = state.catalog.watches().cursors(&operation).await?;
    Ok(Json(CursorList { cursors: all.into_iter().map(wire).collect() }))
}

/// `GET /management/v1/watch/cursors/{cursor}`.
pub async fn load(
    State(state): State<ApiState>,
    PathParams(cursor): PathParams<String>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<Cursor>> {
    Ok(Json(wire(state.catalog.watches().cursor(&operation, &cursor).await?)))
}

/// `PUT /management/v1/watch/cursors/{cursor}`.
pub async fn store(
    State(state): State<ApiState>,
    PathParams(cursor): PathParams<String>,
    MutationWithBody(operation, body): MutationWithBody<StoreCursorRequest>,
) -> Result<StatusCode> {
    let StoreCursorRequest { position, previous, consumer } = body;
    let request = StoredPosition { cursor, position, previous, consumer };
    state.catalog.watches().store_cursor(&operation, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE /management/v1/watch/cursors/{cursor}`.
pub async fn delete(
    State(state): State<ApiState>,
    PathParams(cursor): PathParams<String>,
    Mutation(operation): Mutation,
) -> Result<StatusCode> {
    state.catalog.watches().delete_cursor(&operation, &cursor).await?;
    Ok(StatusCode::NO_CONTENT)
}

//! Handlers for checkpoints of the whole catalog.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::path::PathParams;
use crate::api::state::ApiState;
use crate::api::wire::checkpoints::checkpoint as wire;
use slateberg_management::checkpoints::{Checkpoint, CheckpointList, CreateCheckpointRequest};

/// `GET /management/v1/checkpoints`.
pub async fn list(
    State(state): State<ApiState>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<CheckpointList>> {
    let all = state.catalog.checkpoints().checkpoints(&operation).await?;
    Ok(Json(CheckpointList { checkpoints: all.into_iter().map(wire).collect() }))
}

/// `POST /management/v1/checkpoints`.
pub async fn create(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<CreateCheckpointRequest>,
) -> Result<(StatusCode, Json<Checkpoint>)> {
    let CreateCheckpointRequest { name, lifetime_seconds } = body;
    let created =
        state.catalog.checkpoints().create_checkpoint(&operation, name, lifetime_seconds).await?;
    Ok((StatusCode::CREATED, Json(wire(created))))
}

/// `GET /management/v1/checkpoints/{checkpoint}`.
pub async fn load(
    State(state): State<ApiState>,
    PathParams(checkpoint): PathParams<String>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<Checkpoint>> {
    Ok(Json(wire(state.catalog.checkpoints().checkpoint(&operation, &checkpoint).await?)))
}

/// `DELETE /management/v1/checkpoints/{checkpoint}`.
pub async fn delete(
    State(state): State<ApiState>,
    PathParams(checkpoint): PathParams<String>,
    Mutation(operation): Mutation,
) -> Result<StatusCode> {
    state.catalog.checkpoints().delete_checkpoint(&operation, &checkpoint).await?;
    Ok(StatusCode::NO_CONTENT)
}

//! Checkpoints of the whole catalog.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::extract::body::{Mutating, MutatingWith, Reading};
use crate::api::extract::path::Path;
use crate::api::state::ApiState;
use crate::api::wire::checkpoints::checkpoint as wire;
use slateberg_management::checkpoints::{Checkpoint, CheckpointList, CreateCheckpointRequest};

/// `GET /management/v1/checkpoints`.
pub async fn list(
    State(state): State<ApiState>,
    Reading(operation): Reading,
) -> Result<Json<CheckpointList>> {
    let all = state.catalog.checkpoints().checkpoints(&operation).await?;
    Ok(Json(CheckpointList { checkpoints: all.into_iter().map(wire).collect() }))
}

/// `POST /management/v1/checkpoints`.
pub async fn create(
    State(state): State<ApiState>,
    MutatingWith(operation, body): MutatingWith<CreateCheckpointRequest>,
) -> Result<(StatusCode, Json<Checkpoint>)> {
    let CreateCheckpointRequest { name, lifetime_seconds } = body;
    let made =
        state.catalog.checkpoints().create_checkpoint(&operation, name, lifetime_seconds).await?;
    Ok((StatusCode::CREATED, Json(wire(made))))
}

/// `GET /management/v1/checkpoints/{checkpoint}`.
pub async fn load(
    State(state): State<ApiState>,
    Path(checkpoint): Path<String>,
    Reading(operation): Reading,
) -> Result<Json<Checkpoint>> {
    Ok(Json(wire(state.catalog.checkpoints().checkpoint(&operation, &checkpoint).await?)))
}

/// `DELETE /management/v1/checkpoints/{checkpoint}`.
pub async fn delete(
    State(state): State<ApiState>,
    Path(checkpoint): Path<String>,
    Mutating(operation): Mutating,
) -> Result<StatusCode> {
    state.catalog.checkpoints().delete_checkpoint(&operation, &checkpoint).await?;
    Ok(StatusCode::NO_CONTENT)
}

//! Checkpoints of the whole catalog.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::extract::body::{Mutating, MutatingWith, Reading};
use crate::api::extract::path::Path;
use crate::api::state::ApiState;
use crate::api::wire::checkpoints::{Checkpoint, CreateCheckpointRequest, ListCheckpoints};

/// `GET /management/v1/checkpoints`.
pub async fn list(
    State(state): State<ApiState>,
    Reading(operation): Reading,
) -> Result<Json<ListCheckpoints>> {
    let all = state.catalog.checkpoints().checkpoints(&operation).await?;
    Ok(Json(ListCheckpoints { checkpoints: all.into_iter().map(Checkpoint::from).collect() }))
}

/// `POST /management/v1/checkpoints`.
pub async fn create(
    State(state): State<ApiState>,
    MutatingWith(operation, body): MutatingWith<CreateCheckpointRequest>,
) -> Result<(StatusCode, Json<Checkpoint>)> {
    let CreateCheckpointRequest { name, lifetime_seconds } = body;
    let made =
        state.catalog.checkpoints().create_checkpoint(&operation, name, lifetime_seconds).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// `GET /management/v1/checkpoints/{checkpoint}`.
pub async fn load(
    State(state): State<ApiState>,
    Path(checkpoint): Path<String>,
    Reading(operation): Reading,
) -> Result<Json<Checkpoint>> {
    Ok(Json(state.catalog.checkpoints().checkpoint(&operation, &checkpoint).await?.into()))
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

//! Handlers for the cluster.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::cluster::ClusterControl;
use crate::api::error::ApiError;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::state::ApiState;
use slateberg_management::cluster::{
    ClusterStatus, PauseStarted, TransferStarted, TransferWriterRequest,
};

/// `GET /management/v1/cluster`.
pub async fn status(
    State(state): State<ApiState>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<ClusterStatus>> {
    state.catalog.cluster().check_read(&operation)?;
    Ok(Json(cluster(&state)?.status().await?))
}

/// `POST /management/v1/cluster/transfer`. The response does not wait for the end of the transfer,
/// because the writer completes all requests before it gives its term to the successor.
pub async fn transfer(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<TransferWriterRequest>,
) -> Result<(StatusCode, Json<TransferStarted>)> {
    let permissions = state.catalog.cluster();
    permissions.check_transfer(&operation)?;
    if operation.idempotency.is_some() {
        return Err(ApiError::bad_request(
            "A transfer of the writer does not support Idempotency-Key",
        ));
    }
    let cluster = cluster(&state)?;
    let successor = cluster.find_successor(body.member.as_deref()).await?;
    let (id, name) = (successor.member.node, successor.member.name.clone());
    permissions.log_transfer(&operation, id, &name).await?;
    let (term, _, from) = cluster.writer();
    cluster.transfer(successor);
    let started = TransferStarted { term, from, to: name, successor: id };
    Ok((StatusCode::ACCEPTED, Json(started)))
}

/// `POST /management/v1/cluster/pause`. The response does not wait for the pause: it is itself one of
/// the requests that the writer completes first.
pub async fn pause(
    State(state): State<ApiState>,
    Mutation(operation): Mutation,
) -> Result<(StatusCode, Json<PauseStarted>)> {
    let permissions = state.catalog.cluster();
    permissions.check_pause(&operation)?;
    if operation.idempotency.is_some() {
        return Err(ApiError::bad_request("A pause does not support Idempotency-Key"));
    }
    let cluster = cluster(&state)?;
    let (term, id, writer) = cluster.writer();
    permissions.log_pause(&operation, id, &writer).await?;
    cluster.pause();
    Ok((StatusCode::ACCEPTED, Json(PauseStarted { term, writer })))
}

fn cluster(state: &ApiState) -> Result<Arc<dyn ClusterControl>> {
    let message = "This server is not a member of a cluster (cluster.enabled)";
    let not_found = || ApiError::new(StatusCode::NOT_FOUND, "NoSuchClusterException", message);
    state.cluster.clone().ok_or_else(not_found)
}

//! Handler of the expiry of snapshots.

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::extract::body::MutationWithBody;
use crate::api::state::ApiState;
use crate::api::wire::snapshots::{expiry_request, snapshot_expiry};
use slateberg_management::snapshots::{ExpireSnapshotsRequest, SnapshotExpiry};

/// `POST /management/v1/snapshots/expire`.
pub async fn expire(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<ExpireSnapshotsRequest>,
) -> Result<Json<SnapshotExpiry>> {
    let request = expiry_request(body)?;
    let expired = state.catalog.tabulars().expire_snapshots(&operation, request).await?;
    Ok(Json(snapshot_expiry(expired)))
}

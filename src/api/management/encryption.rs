//! Handlers for the keys that encrypt the state of the catalog.

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::state::ApiState;
use crate::api::wire::encryption::encryption_status;
use slateberg_catalog::encryption::Edit;
use slateberg_management::encryption::{EncryptionStatus, RewrapRequest};

/// `GET /management/v1/encryption`.
pub async fn load(
    State(state): State<ApiState>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<EncryptionStatus>> {
    Ok(Json(encryption_status(state.catalog.encryption().key_ring(&operation).await?)))
}

/// `POST /management/v1/encryption/rotate`.
pub async fn rotate(
    State(state): State<ApiState>,
    Mutation(operation): Mutation,
) -> Result<Json<EncryptionStatus>> {
    let ring = state.catalog.encryption().change_key_ring(&operation, Edit::Rotate).await?;
    Ok(Json(encryption_status(Some(ring))))
}

/// `POST /management/v1/encryption/rewrap`.
pub async fn rewrap(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<RewrapRequest>,
) -> Result<Json<EncryptionStatus>> {
    let edit = Edit::Rewrap { wrapping_key: body.wrapping_key };
    let ring = state.catalog.encryption().change_key_ring(&operation, edit).await?;
    Ok(Json(encryption_status(Some(ring))))
}

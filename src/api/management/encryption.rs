//! The keys that encrypt the state of the catalog.

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::extract::body::{Mutating, MutatingWith, Reading};
use crate::api::state::ApiState;
use crate::api::wire::encryption::encryption_status;
use slateberg_catalog::encryption::Edit;
use slateberg_management::encryption::{EncryptionStatus, RewrapRequest};

/// `GET /management/v1/encryption`.
pub async fn load(
    State(state): State<ApiState>,
    Reading(operation): Reading,
) -> Result<Json<EncryptionStatus>> {
    Ok(Json(encryption_status(state.catalog.encryption().key_ring(&operation).await?)))
}

/// `POST /management/v1/encryption/rotate`.
pub async fn rotate(
    State(state): State<ApiState>,
    Mutating(operation): Mutating,
) -> Result<Json<EncryptionStatus>> {
    let ring = state.catalog.encryption().change_key_ring(&operation, Edit::Rotate).await?;
    Ok(Json(encryption_status(Some(ring))))
}

/// `POST /management/v1/encryption/rewrap`.
pub async fn rewrap(
    State(state): State<ApiState>,
    MutatingWith(operation, body): MutatingWith<RewrapRequest>,
) -> Result<Json<EncryptionStatus>> {
    let edit = Edit::Rewrap { wrapping_key: body.wrapping_key };
    let ring = state.catalog.encryption().change_key_ring(&operation, edit).await?;
    Ok(Json(encryption_status(Some(ring))))
}

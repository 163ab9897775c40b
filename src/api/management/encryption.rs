//! The keys that encrypt what the catalog keeps.

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::extract::body::{Mutating, MutatingWith, Reading};
use crate::api::state::ApiState;
use crate::api::wire::encryption::{Encryption, RewrapRequest};
use slateberg_catalog::encryption::Edit;

/// `GET /management/v1/encryption`.
pub async fn load(
    State(state): State<ApiState>,
    Reading(operation): Reading,
) -> Result<Json<Encryption>> {
    let ring = state.catalog.encryption().key_ring(&operation).await?;
    Ok(Json(ring.map_or_else(Encryption::none, Encryption::from)))
}

/// `POST /management/v1/encryption/rotate`.
pub async fn rotate(
    State(state): State<ApiState>,
    Mutating(operation): Mutating,
) -> Result<Json<Encryption>> {
    Ok(Json(state.catalog.encryption().change_key_ring(&operation, Edit::Rotate).await?.into()))
}

/// `POST /management/v1/encryption/rewrap`.
pub async fn rewrap(
    State(state): State<ApiState>,
    MutatingWith(operation, body): MutatingWith<RewrapRequest>,
) -> Result<Json<Encryption>> {
    let edit = Edit::Rewrap { wrapping_key: body.wrapping_key };
    Ok(Json(state.catalog.encryption().change_key_ring(&operation, edit).await?.into()))
}

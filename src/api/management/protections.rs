//! Handlers for protections against removal.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::paging::Paging;
use crate::api::extract::path::PathParams;
use crate::api::state::ApiState;
use crate::api::wire::protections::{new_protection, protection, protection_list};
use slateberg_management::protections::{ProtectRequest, Protection, ProtectionList};

/// `GET /management/v1/protections`.
pub async fn list(
    State(state): State<ApiState>,
    Paging(page): Paging,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<ProtectionList>> {
    let page = state.catalog.protections().protections(&operation, &page).await?;
    Ok(Json(protection_list(page, state.authn.keys())))
}

/// `POST /management/v1/protections`.
pub async fn protect(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<ProtectRequest>,
) -> Result<Json<Protection>> {
    let protected = state.catalog.protections().protect(&operation, new_protection(body)).await?;
    Ok(Json(protection(protected, state.authn.keys())))
}

/// `DELETE /management/v1/protections/{id}`.
pub async fn unprotect(
    State(state): State<ApiState>,
    PathParams(id): PathParams<String>,
    Mutation(operation): Mutation,
) -> Result<StatusCode> {
    state.catalog.protections().unprotect(&operation, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

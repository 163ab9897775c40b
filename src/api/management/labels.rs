//! Handlers for labels of tables, views and columns.

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::{MutationWithBody, ReadOperation};
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::labels::{label_update, labels};
use slateberg_management::labels::{Labels, UpdateLabelsRequest};

/// `GET /management/v1/labels`.
pub async fn load(
    State(state): State<ApiState>,
    query: Query,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<Labels>> {
    let Some(resource) = query.get("resource") else {
        return Err(ApiError::bad_request(
            "Missing query parameter resource: expected a table or view, such as \
             table:default/sales/orders",
        ));
    };
    Ok(Json(labels(state.catalog.labels().of(&operation, &resource).await?)))
}

/// `POST /management/v1/labels`.
pub async fn update(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<UpdateLabelsRequest>,
) -> Result<Json<Labels>> {
    let Some(update) = label_update(body) else {
        return Err(ApiError::bad_request(
            "Invalid request: at most one of field-id and column is allowed",
        ));
    };
    Ok(Json(labels(state.catalog.labels().update(&operation, update).await?)))
}

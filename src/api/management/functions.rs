//! Handlers that create, replace and drop functions.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::{Mutation, MutationWithBody};
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::functions::{function_state, new_function, replacement};
use slateberg_management::functions::{
    CreateFunctionRequest, FunctionState, ReplaceFunctionRequest,
};

/// `POST /management/v1/functions`.
pub async fn create(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<CreateFunctionRequest>,
) -> Result<(StatusCode, Json<FunctionState>)> {
    let (resource, draft) = new_function(body)?;
    let created = state.catalog.functions().create_function(&operation, &resource, draft).await?;
    Ok((StatusCode::CREATED, Json(function_state(created))))
}

/// `PUT /management/v1/functions`.
pub async fn replace(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<ReplaceFunctionRequest>,
) -> Result<Json<FunctionState>> {
    let replacement = replacement(body)?;
    let replaced = state.catalog.functions().replace_function(&operation, replacement).await?;
    Ok(Json(function_state(replaced)))
}

/// `DELETE /management/v1/functions`.
pub async fn drop(
    State(state): State<ApiState>,
    query: Query,
    Mutation(operation): Mutation,
) -> Result<StatusCode> {
    let Some(resource) = query.get("resource") else {
        return Err(ApiError::bad_request(
            "Missing query parameter resource: expected a function, such as \
             function:default/sales/add_tax",
        ));
    };
    state.catalog.functions().drop_function(&operation, &resource).await?;
    Ok(StatusCode::NO_CONTENT)
}

//! Handlers for functions. The management API creates, replaces and drops functions.

use axum::Json;
use axum::extract::State;
use axum::response::Response;

use super::Result;
use crate::api::extract::body::ReadOperation;
use crate::api::extract::paging::Paging;
use crate::api::extract::path::{NamespacePath, TabularPath};
use crate::api::respond::tagged_json;
use crate::api::state::ApiState;
use crate::api::wire::functions::{LoadFunctionResult, load_function_result};
use crate::api::wire::listings::list_functions_response;
use slateberg_catalog::RequestContext;

/// `GET /v1/{prefix}/namespaces/{namespace}/functions`.
pub async fn list(
    State(state): State<ApiState>,
    NamespacePath { warehouse, namespace }: NamespacePath,
    ReadOperation(operation): ReadOperation,
    Paging(page): Paging,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let page = state.catalog.functions().list_functions(&cx, &namespace, &page).await?;
    Ok(tagged_json(list_functions_response(&namespace, &page).into(), None))
}

/// `GET /v1/{prefix}/namespaces/{namespace}/functions/{function}`.
pub async fn load(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<LoadFunctionResult>> {
    let cx = RequestContext::new(operation, warehouse);
    let metadata = state.catalog.functions().load_function(&cx, &ident).await?;
    Ok(Json(load_function_result(metadata)))
}

//! Handlers for warehouses.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::paging::Paging;
use crate::api::extract::path::PathParams;
use crate::api::state::ApiState;
use crate::api::wire::warehouses::{requested_warehouse, warehouse, warehouse_list};
use slateberg_catalog::warehouses::change::Edit;
use slateberg_catalog::warehouses::listing::WarehouseInfo;
use slateberg_catalog::{self as catalog, Operation};
use slateberg_management::warehouses::{
    CreateWarehouseRequest, UpdateWarehouseRequest, Warehouse, WarehouseList,
};

/// `GET /management/v1/warehouses`.
pub async fn list(
    State(state): State<ApiState>,
    Paging(page): Paging,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<WarehouseList>> {
    let page = state.catalog.warehouses().list_warehouses(&operation, &page);
    Ok(Json(warehouse_list(page, state.authn.keys())))
}

/// `GET /management/v1/warehouses/{name}`.
pub async fn load(
    State(state): State<ApiState>,
    PathParams(name): PathParams<String>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<Warehouse>> {
    let info = state.catalog.warehouses().load_warehouse(&operation, &name)?;
    Ok(Json(warehouse(info, state.authn.keys())))
}

/// `POST /management/v1/warehouses`.
pub async fn create(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<CreateWarehouseRequest>,
) -> Result<(StatusCode, Json<Warehouse>)> {
    let CreateWarehouseRequest {
        name,
        storage,
        client_defaults,
        client_overrides,
        dropped_kept_seconds,
        maintenance,
    } = body;
    let edit = Edit::Create(requested_warehouse(
        storage,
        (client_defaults, client_overrides),
        dropped_kept_seconds,
        maintenance,
    ));
    let created = change(&state, &operation, &name, edit).await?;
    Ok((StatusCode::CREATED, Json(warehouse(created, state.authn.keys()))))
}

/// `PUT /management/v1/warehouses/{name}`.
pub async fn update(
    State(state): State<ApiState>,
    PathParams(name): PathParams<String>,
    MutationWithBody(operation, body): MutationWithBody<UpdateWarehouseRequest>,
) -> Result<Json<Warehouse>> {
    let UpdateWarehouseRequest {
        storage,
        client_defaults,
        client_overrides,
        dropped_kept_seconds,
        maintenance,
        expected_version,
    } = body;
    let requested = requested_warehouse(
        storage,
        (client_defaults, client_overrides),
        dropped_kept_seconds,
        maintenance,
    );
    let edit = Edit::Update { requested, expected_version };
    let changed = change(&state, &operation, &name, edit).await?;
    Ok(Json(warehouse(changed, state.authn.keys())))
}

/// `DELETE /management/v1/warehouses/{name}`.
pub async fn delete(
    State(state): State<ApiState>,
    PathParams(name): PathParams<String>,
    Mutation(operation): Mutation,
) -> Result<StatusCode> {
    state.catalog.warehouses().change_warehouse(&operation, &name, Edit::Delete).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Applies a change that creates or updates a warehouse.
async fn change(
    state: &ApiState,
    operation: &Operation,
    name: &str,
    edit: Edit,
) -> Result<WarehouseInfo> {
    let info = state.catalog.warehouses().change_warehouse(operation, name, edit).await?;
    info.ok_or_else(|| ApiError::from(catalog::Error::internal("no warehouse was returned")))
}

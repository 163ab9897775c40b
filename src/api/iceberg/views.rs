//! Handlers for views.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::{Result, parse_all, same_as_path};
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::paging::Paging;
use crate::api::extract::path::{NamespacePath, TabularPath, WarehousePath};
use crate::api::extract::query::Query;
use crate::api::extract::referenced_by::through_views;
use crate::api::respond::{loaded_view_result, tagged_json, view_result};
use crate::api::state::ApiState;
use crate::api::wire::listings::list_tables_response;
use crate::api::wire::{CommitRequest, CreateViewRequest, RegisterViewRequest, RenameTableRequest};
use slateberg_catalog::RequestContext;
use slateberg_catalog::views::CreateView;
use slateberg_catalog::views::ViewChange;
use slateberg_model::ident::TabularIdent;
use slateberg_model::schema::Schema;
use slateberg_model::view::ViewVersion;
use slateberg_model::view_update::{ViewRequirement, ViewUpdate};

/// `GET /v1/{prefix}/namespaces/{namespace}/views`.
pub async fn list(
    State(state): State<ApiState>,
    NamespacePath { warehouse, namespace }: NamespacePath,
    ReadOperation(operation): ReadOperation,
    Paging(page): Paging,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let page = state.catalog.tabulars().list_views(&cx, &namespace, &page).await?;
    Ok(tagged_json(list_tables_response(&namespace, &page).into(), None))
}

/// `POST /v1/{prefix}/namespaces/{namespace}/views`.
pub async fn create(
    State(state): State<ApiState>,
    NamespacePath { warehouse, namespace }: NamespacePath,
    MutationWithBody(operation, body): MutationWithBody<CreateViewRequest>,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let request = CreateView {
        ident: TabularIdent { namespace, name: body.name },
        location: body.location,
        schema: Schema::parse(&body.schema)?,
        view_version: ViewVersion::parse(&body.view_version)?,
        properties: body.properties.unwrap_or_default(),
    };
    let created = state.catalog.tabulars().create_view(&cx, request).await?;
    Ok(view_result(&created))
}

/// `POST /v1/{prefix}/namespaces/{namespace}/register-view`.
pub async fn register(
    State(state): State<ApiState>,
    NamespacePath { warehouse, namespace }: NamespacePath,
    MutationWithBody(operation, body): MutationWithBody<RegisterViewRequest>,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let ident = TabularIdent { namespace, name: body.name };
    let location = body.metadata_location;
    let registered = state.catalog.tabulars().register_view(&cx, ident, location).await?;
    Ok(view_result(&registered))
}

/// `GET /v1/{prefix}/namespaces/{namespace}/views/{view}`.
pub async fn load(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    ReadOperation(operation): ReadOperation,
    query: Query,
) -> Result<Response> {
    let cx = through_views(&state, RequestContext::new(operation, warehouse), &query).await?;
    let loaded = state.catalog.tabulars().load_view(&cx, &ident).await?;
    Ok(loaded_view_result(&loaded))
}

/// `HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}`.
pub async fn exists(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    ReadOperation(operation): ReadOperation,
) -> Result<StatusCode> {
    let cx = RequestContext::new(operation, warehouse);
    state.catalog.tabulars().view_exists(&cx, &ident).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/{prefix}/namespaces/{namespace}/views/{view}`: a commit.
pub async fn commit(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    MutationWithBody(operation, body): MutationWithBody<CommitRequest>,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    same_as_path(body.identifier.as_ref().map(|it| &it.0), &ident)?;
    let requirements = body.requirements.as_deref().unwrap_or_default();
    let change = ViewChange {
        ident,
        requirements: parse_all(requirements, ViewRequirement::parse)?,
        updates: parse_all(&body.updates, ViewUpdate::parse)?,
        blind_append: false,
    };
    let committed = state.catalog.tabulars().commit_view(&cx, change).await?;
    Ok(view_result(&committed))
}

/// `DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}`.
pub async fn drop(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    Mutation(operation): Mutation,
) -> Result<StatusCode> {
    let cx = RequestContext::new(operation, warehouse);
    state.catalog.tabulars().drop_view(&cx, ident).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/{prefix}/views/rename`.
pub async fn rename(
    State(state): State<ApiState>,
    WarehousePath(warehouse): WarehousePath,
    MutationWithBody(operation, body): MutationWithBody<RenameTableRequest>,
) -> Result<StatusCode> {
    let cx = RequestContext::new(operation, warehouse);
    state.catalog.tabulars().rename_view(&cx, body.source.0, body.destination.0).await?;
    Ok(StatusCode::NO_CONTENT)
}

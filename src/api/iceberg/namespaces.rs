//! Handlers for namespaces.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::paging::Paging;
use crate::api::extract::path::{NamespacePath, WarehousePath};
use crate::api::extract::query::Query;
use crate::api::respond::tagged_json;
use crate::api::state::ApiState;
use crate::api::wire::listings::list_namespaces_response;
use crate::api::wire::{
    CreateNamespaceRequest, GetNamespaceResponse, UpdateNamespacePropertiesRequest,
};
use slateberg_catalog as catalog;
use slateberg_catalog::RequestContext;
use slateberg_catalog::namespaces::Removals;
use slateberg_model::separator;

/// `POST /v1/{prefix}/namespaces`.
pub async fn create(
    State(state): State<ApiState>,
    WarehousePath(warehouse): WarehousePath,
    MutationWithBody(operation, body): MutationWithBody<CreateNamespaceRequest>,
) -> Result<Json<Value>> {
    let cx = RequestContext::new(operation, warehouse);
    let properties = body.properties.unwrap_or_default();
    let created =
        state.catalog.namespaces().create_namespace(&cx, body.namespace, properties).await?;
    Ok(Json(created))
}

/// `GET /v1/{prefix}/namespaces`.
pub async fn list(
    State(state): State<ApiState>,
    WarehousePath(warehouse): WarehousePath,
    ReadOperation(operation): ReadOperation,
    Paging(page): Paging,
    query: Query,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let parent = query.get("parent").filter(|parent| !parent.is_empty());
    let parent = parent.as_deref();
    let list = async |parent: Option<&str>| {
        let separator = cx.warehouse.namespace_separator();
        let parent = parent.map(|parent| separator::split(parent, separator));
        let page = state.catalog.namespaces().list_namespaces(&cx, parent.as_ref(), &page);
        page.await.map(|page| (parent.unwrap_or_default(), page))
    };
    let (parent, page) = match (list(parent).await, parent.and_then(decoded_twice)) {
        (Err(catalog::Error::NoSuchNamespace(_)), Some(parent)) => list(Some(&parent)).await?,
        (listed, _) => listed?,
    };
    Ok(tagged_json(list_namespaces_response(&parent, &page).into(), None))
}

/// Decodes a parent that PyIceberg (0.12) has encoded twice. Returns `None` if the parent was
/// encoded only once.
fn decoded_twice(parent: &str) -> Option<String> {
    let decoded = percent_decode_str(parent).decode_utf8().ok()?;
    (decoded != parent).then(|| decoded.into_owned())
}

/// `GET /v1/{prefix}/namespaces/{namespace}`.
pub async fn load(
    State(state): State<ApiState>,
    NamespacePath { warehouse, namespace }: NamespacePath,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<GetNamespaceResponse>> {
    let cx = RequestContext::new(operation, warehouse);
    let properties = state.catalog.namespaces().load_namespace(&cx, &namespace).await?;
    Ok(Json(GetNamespaceResponse { namespace, properties }))
}

/// `HEAD /v1/{prefix}/namespaces/{namespace}`.
pub async fn exists(
    State(state): State<ApiState>,
    NamespacePath { warehouse, namespace }: NamespacePath,
    ReadOperation(operation): ReadOperation,
) -> Result<StatusCode> {
    let cx = RequestContext::new(operation, warehouse);
    state.catalog.namespaces().namespace_exists(&cx, &namespace).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE /v1/{prefix}/namespaces/{namespace}`.
pub async fn drop(
    State(state): State<ApiState>,
    NamespacePath { warehouse, namespace }: NamespacePath,
    Mutation(operation): Mutation,
) -> Result<StatusCode> {
    let cx = RequestContext::new(operation, warehouse);
    state.catalog.namespaces().drop_namespace(&cx, namespace).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/{prefix}/namespaces/{namespace}/properties`.
pub async fn update_properties(
    State(state): State<ApiState>,
    NamespacePath { warehouse, namespace }: NamespacePath,
    MutationWithBody(operation, body): MutationWithBody<UpdateNamespacePropertiesRequest>,
) -> Result<Json<Value>> {
    let cx = RequestContext::new(operation, warehouse);
    let removals = body.removals.unwrap_or_default();
    let distinct: std::collections::BTreeSet<_> = removals.iter().cloned().collect();
    if distinct.len() < removals.len() {
        return Err(ApiError::bad_request("Invalid removals: a key occurs more than once"));
    }
    let (removals, updates) = (Removals::Keys(distinct), body.updates.unwrap_or_default());
    let updated = state
        .catalog
        .namespaces()
        .update_namespace_properties(&cx, namespace, removals, updates)
        .await?;
    Ok(Json(updated))
}

//! Handlers for API keys.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponseParts;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::path::PathParams;
use crate::api::extract::query::Query;
use crate::api::respond::NO_STORE;
use crate::api::state::ApiState;
use crate::api::wire::api_keys::api_key;
use slateberg_authn::api_keys::{GranteeReader, NewKey};
use slateberg_catalog::Operation;
use slateberg_management::api_keys::{ApiKey, ApiKeyList, CreateApiKeyRequest, CreatedApiKey};

/// `POST /management/v1/api-keys`. No other response contains the secret of the key.
pub async fn create(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<CreateApiKeyRequest>,
) -> Result<(StatusCode, impl IntoResponseParts, Json<CreatedApiKey>)> {
    let caller = changing_caller(&operation)?;
    for warehouse in body.warehouses.iter().flatten() {
        state.catalog.warehouses().load_warehouse(&operation, warehouse)?;
    }
    let new_key = NewKey {
        name: body.name,
        roles: body.roles,
        warehouses: body.warehouses,
        expires_ms: body.expires_at_ms,
    };
    let keys = state.authn.keys();
    let (secret, created_key) = keys.create(&caller, new_key).await?;
    let created = CreatedApiKey {
        key: secret.reveal().to_owned(),
        details: api_key(keys.listed(&created_key), keys),
        warnings: keys.role_warnings(&created_key.record.roles),
    };
    Ok((StatusCode::CREATED, NO_STORE, Json(created)))
}

/// `GET /management/v1/api-keys`.
pub async fn list(
    State(state): State<ApiState>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<ApiKeyList>> {
    let keys = state.authn.keys();
    let all = keys.list(&caller(&operation))?;
    Ok(Json(ApiKeyList { api_keys: all.into_iter().map(|key| api_key(key, keys)).collect() }))
}

/// `GET /management/v1/api-keys/{id}`.
pub async fn load(
    State(state): State<ApiState>,
    PathParams(id): PathParams<String>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<ApiKey>> {
    let keys = state.authn.keys();
    Ok(Json(api_key(keys.get(&caller(&operation), &id)?, keys)))
}

/// `DELETE /management/v1/api-keys/{id}`.
pub async fn revoke(
    State(state): State<ApiState>,
    PathParams(id): PathParams<String>,
    query: Query,
    Mutation(operation): Mutation,
) -> Result<StatusCode> {
    let force = query.flag("force")?;
    state.authn.keys().revoke(&changing_caller(&operation)?, &id, force).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the caller of a change. Rejects an `Idempotency-Key`: the store contains no secrets, so
/// the server cannot replay the response with the secret of a key.
fn changing_caller(operation: &Operation) -> Result<GranteeReader<'_>> {
    if operation.idempotency.is_some() {
        return Err(ApiError::bad_request(
            "API keys do not support Idempotency-Key: the server does not store their secrets, so it cannot repeat a \
             response. Send the request without the header; list the keys to see what an earlier request changed",
        ));
    }
    Ok(caller(operation))
}

pub(super) fn caller(operation: &Operation) -> GranteeReader<'_> {
    let Operation { principal, context, .. } = operation;
    GranteeReader { principal, context, origin: operation.origin() }
}

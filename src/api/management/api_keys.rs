//! API keys.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponseParts;

use super::Result;
use crate::api::extract::body::{Mutating, MutatingWith, Reading};
use crate::api::extract::path::Path;
use crate::api::extract::query::Query;
use crate::api::respond::NO_STORE;
use crate::api::state::ApiState;
use crate::api::wire::api_keys::api_key;
use slateberg_authn::api_keys::{Asker, NewKey};
use slateberg_catalog::Operation;
use slateberg_management::api_keys::{ApiKey, ApiKeyList, CreateApiKeyRequest, CreatedApiKey};

/// `POST /management/v1/api-keys`. No other response contains the secret of the key.
pub async fn create(
    State(state): State<ApiState>,
    MutatingWith(operation, body): MutatingWith<CreateApiKeyRequest>,
) -> Result<(StatusCode, impl IntoResponseParts, Json<CreatedApiKey>)> {
    for warehouse in body.warehouses.iter().flatten() {
        state.catalog.warehouses().load_warehouse(&operation, warehouse)?;
    }
    let wanted = NewKey {
        name: body.name,
        roles: body.roles,
        warehouses: body.warehouses,
        expires_ms: body.expires_at_ms,
    };
    let keys = state.authn.keys();
    let (secret, known) = keys.create(&asker(&operation), wanted).await?;
    let created = CreatedApiKey {
        key: secret.reveal().to_owned(),
        details: api_key(keys.listed(&known), keys),
        warnings: keys.role_warnings(&known.record.roles),
    };
    Ok((StatusCode::CREATED, NO_STORE, Json(created)))
}

/// `GET /management/v1/api-keys`.
pub async fn list(
    State(state): State<ApiState>,
    Reading(operation): Reading,
) -> Result<Json<ApiKeyList>> {
    let keys = state.authn.keys();
    let all = keys.list(&asker(&operation))?;
    Ok(Json(ApiKeyList { api_keys: all.into_iter().map(|key| api_key(key, keys)).collect() }))
}

/// `GET /management/v1/api-keys/{id}`.
pub async fn load(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Reading(operation): Reading,
) -> Result<Json<ApiKey>> {
    let keys = state.authn.keys();
    Ok(Json(api_key(keys.get(&asker(&operation), &id)?, keys)))
}

/// `DELETE /management/v1/api-keys/{id}`.
pub async fn revoke(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    query: Query,
    Mutating(operation): Mutating,
) -> Result<StatusCode> {
    let force = query.flag("force")?;
    state.authn.keys().revoke(&asker(&operation), &id, force).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) fn asker(operation: &Operation) -> Asker<'_> {
    let Operation { principal, context, .. } = operation;
    Asker { principal, context, origin: operation.origin() }
}

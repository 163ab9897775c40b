//! Explains policy decisions. Every principal may request decisions about itself. Decisions about
//! other principals require the permission to read policies.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::{MutationWithBody, ReadOperation};
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::explain::{authorize_response, identity, permissions_response};
use slateberg_catalog::Operation;
use slateberg_catalog::policies::explain::{ExplainRequest, Question};
use slateberg_management::decisions::{
    AuthorizeRequest, AuthorizeResponse, PermissionsResponse, PrincipalSelector,
};
use slateberg_model::principal::Identity;

/// `POST /management/v1/authorize`. Changes nothing.
pub async fn authorize(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<AuthorizeRequest>,
) -> Result<Json<AuthorizeResponse>> {
    let AuthorizeRequest { principal, action, resource, attributes, context } = body;
    let about = principal.map(|it| resolve_principal(&state, &operation, it)).transpose()?;
    let given = attributes.map(|it| ExplainRequest {
        properties: it.properties,
        location: it.location,
        owner: it.owner,
    });
    let question = Question {
        about,
        resource,
        given,
        time: context.time,
        source_address: context.source_address,
        client: context.client,
        referenced_by: context.referenced_by,
    };
    let explained = state.catalog.policies().explain(&operation, &action, question).await?;
    Ok(Json(authorize_response(action, explained)))
}

/// `GET /management/v1/permissions`.
pub async fn permissions(
    State(state): State<ApiState>,
    query: Query,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<PermissionsResponse>> {
    let owned = |name| query.get(name).map(std::borrow::Cow::into_owned);
    let Some(resource) = owned("resource") else {
        return Err(ApiError::bad_request("Missing query parameter: resource"));
    };
    let selector = PrincipalSelector {
        key: owned("key"),
        user: owned("user"),
        service_account: owned("service_account"),
        roles: query.all("role").collect(),
        groups: query.all("group").collect(),
        ..PrincipalSelector::default()
    };
    let named =
        selector.key.is_some() || selector.user.is_some() || selector.service_account.is_some();
    let describes = !selector.roles.is_empty() || !selector.groups.is_empty();
    let about = (named || describes)
        .then(|| resolve_principal(&state, &operation, selector))
        .transpose()?;
    let question = Question { about, resource, ..Question::default() };
    Ok(Json(permissions_response(
        state.catalog.policies().permissions(&operation, question).await?,
    )))
}

/// Error message for an invalid selector.
const INVALID_PRINCIPAL: &str = "Invalid principal: expected exactly one of key, user and service-account, or only roles and groups. A key \
                   cannot be combined with any other member";

/// Returns the identity that a selector describes. Only principals that may read policies learn
/// which keys exist.
fn resolve_principal(
    state: &ApiState,
    operation: &Operation,
    selector: PrincipalSelector,
) -> Result<Arc<Identity>> {
    state.catalog.policies().may_read_policies(operation)?;
    let Some(id) = &selector.key else {
        return identity(selector)
            .map(Arc::new)
            .ok_or_else(|| ApiError::bad_request(INVALID_PRINCIPAL));
    };
    let alone = selector.user.is_none()
        && selector.service_account.is_none()
        && selector.roles.is_empty()
        && selector.groups.is_empty()
        && selector.warehouses.is_none()
        && selector.authentication.is_none();
    if !alone {
        return Err(ApiError::bad_request(INVALID_PRINCIPAL));
    }
    Ok(Arc::clone(&state.authn.keys().by_id_or_name(id)?.identity))
}

//! What policies say, to whoever asks for themselves or may read policies.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::{MutatingWith, Reading};
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::explain::{
    AuthorizeRequest, AuthorizeResponse, PermissionsResponse, PrincipalWord,
};
use slateberg_catalog::Operation;
use slateberg_catalog::policies::explain::{Given, Question};
use slateberg_model::principal::Identity;

/// `POST /management/v1/authorize`. Nothing is changed by it.
pub async fn authorize(
    State(state): State<ApiState>,
    MutatingWith(operation, body): MutatingWith<AuthorizeRequest>,
) -> Result<Json<AuthorizeResponse>> {
    let AuthorizeRequest { principal, action, resource, attributes, context } = body;
    let about = principal.map(|word| somebody(&state, &operation, word)).transpose()?;
    let given = attributes.map(|word| Given {
        properties: word.properties,
        location: word.location,
        owner: word.owner,
    });
    let question = Question {
        about,
        resource,
        given,
        time: context.time,
        source_address: context.source_address,
        client: context.client,
    };
    let explained = state.catalog.policies().explain(&operation, &action, question).await?;
    Ok(Json(AuthorizeResponse::new(action, explained)))
}

/// `GET /management/v1/permissions`.
pub async fn permissions(
    State(state): State<ApiState>,
    query: Query,
    Reading(operation): Reading,
) -> Result<Json<PermissionsResponse>> {
    let own = |name| query.get(name).map(std::borrow::Cow::into_owned);
    let Some(resource) = own("resource") else {
        return Err(ApiError::bad_request("Missing query parameter: resource"));
    };
    let word = PrincipalWord {
        key: own("key"),
        user: own("user"),
        service_account: own("service_account"),
        roles: query.all("role").collect(),
        groups: query.all("group").collect(),
        ..PrincipalWord::default()
    };
    let named = word.key.is_some() || word.user.is_some() || word.service_account.is_some();
    let describes = !word.roles.is_empty() || !word.groups.is_empty();
    let about = (named || describes).then(|| somebody(&state, &operation, word)).transpose()?;
    let question = Question { about, resource, ..Question::default() };
    Ok(Json(state.catalog.policies().permissions(&operation, question).await?.into()))
}

/// What is expected of the words for somebody.
const WHO: &str = "Invalid principal: expected a key, or one of user, service-account, and roles or groups \
                   alone; warehouses and authentication go with all but key";

/// The identity that words describe. Which keys there are is told to those alone who may read policies.
fn somebody(state: &ApiState, operation: &Operation, word: PrincipalWord) -> Result<Arc<Identity>> {
    state.catalog.policies().may_read_policies(operation)?;
    let Some(id) = &word.key else {
        return word.identity().map(Arc::new).ok_or_else(|| ApiError::bad_request(WHO));
    };
    let alone = word.user.is_none()
        && word.service_account.is_none()
        && word.roles.is_empty()
        && word.groups.is_empty()
        && word.warehouses.is_none()
        && word.authentication.is_none();
    if !alone {
        return Err(ApiError::bad_request(WHO));
    }
    Ok(Arc::clone(&state.authn.keys().by_id_or_name(id)?.identity))
}

//! Handlers for grants.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use super::api_keys::caller;
use super::policies::{EditRequest, changed, proposal, proposal_of_query};
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::paging::Paging;
use crate::api::extract::path::PathParams;
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::grants as wire;
use crate::api::wire::policies::policy_change;
use slateberg_authn::advice::AdvisedGrantee;
use slateberg_catalog::policies::change::Edit;
use slateberg_catalog::policies::grants::{GrantFilter, NewGrant};
use slateberg_management::grants::{CreateGrantRequest, CreatedGrant, GrantList, GrantWithPolicy};
use slateberg_management::policies::PolicyChange;

/// `GET /management/v1/grants`.
pub async fn list(
    State(state): State<ApiState>,
    query: Query,
    Paging(page): Paging,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<GrantList>> {
    let owned = |name| query.get(name).map(std::borrow::Cow::into_owned);
    let grantee = match owned("grantee") {
        Some(name) => Some(state.authn.grantee(&caller(&operation), &name)?.name),
        None => None,
    };
    let filter = GrantFilter { grantee, resource: owned("resource") };
    let page = state.catalog.policies().grants(&operation, &filter, &page).await?;
    Ok(Json(wire::grant_list(page, state.authn.keys())))
}

/// `GET /management/v1/grants/{id}`.
pub async fn load(
    State(state): State<ApiState>,
    PathParams(id): PathParams<String>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<GrantWithPolicy>> {
    let grant = state.catalog.policies().grant(&operation, &id).await?;
    Ok(Json(wire::grant_with_policy(grant, state.authn.keys())))
}

/// `POST /management/v1/grants`. Returns 201 if it created the grant, and 200 if the grant already
/// existed or for a dry run.
pub async fn create(
    State(state): State<ApiState>,
    query: Query,
    MutationWithBody(operation, body): MutationWithBody<CreateGrantRequest>,
) -> Result<(StatusCode, Json<CreatedGrant>)> {
    let CreateGrantRequest { template, grantee, resource, comment, expected_revision } = body;
    let AdvisedGrantee { name: grantee, mut warnings } =
        state.authn.grantee(&caller(&operation), &grantee)?;
    let edit = Edit::Grant(NewGrant { template, grantee, resource });
    let dry_run = query.flag("dry_run")?;
    let proposal = proposal(&state, EditRequest { edit, comment, expected_revision }, dry_run);
    let mut changed = state.catalog.policies().change_policies(&operation, proposal).await?;
    warnings.append(&mut changed.warnings);
    changed.warnings = warnings;
    let is_created = !dry_run && !changed.changes.granted.is_empty();
    let keys = state.authn.keys();
    let grant = changed.grant.take().map(|grant| wire::grant(grant, keys));
    let status = if is_created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(CreatedGrant { grant, change: policy_change(changed, keys) })))
}

/// `DELETE /management/v1/grants/{id}`.
pub async fn revoke(
    State(state): State<ApiState>,
    PathParams(id): PathParams<String>,
    query: Query,
    Mutation(operation): Mutation,
) -> Result<Json<PolicyChange>> {
    let proposal = proposal_of_query(&state, Edit::Revoke { id }, &query)?;
    changed(&state, &operation, proposal).await
}

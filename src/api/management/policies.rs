//! Handlers for policies: listing, changes, revisions and rollback.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::paging::Paging;
use crate::api::extract::path::PathParams;
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::policies as wire;
use slateberg_catalog::Operation;
use slateberg_catalog::policies::change::{Edit, Proposal};
use slateberg_management::policies::{
    Policy, PolicyChange, PolicyList, PolicyRevisionDetails, PolicyRevisionDiff,
    PolicyRevisionList, PutPolicyRequest, RollbackRequest,
};

/// `GET /management/v1/policies`.
pub async fn list(
    State(state): State<ApiState>,
    Paging(page): Paging,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<PolicyList>> {
    Ok(Json(wire::policy_list(state.catalog.policies().policies_in_force(&operation, &page)?)))
}

/// `GET /management/v1/policies/{id}`.
pub async fn load(
    State(state): State<ApiState>,
    PathParams(id): PathParams<String>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<Policy>> {
    Ok(Json(wire::policy(state.catalog.policies().policy_in_force(&operation, &id)?)))
}

/// `POST /management/v1/policies`.
pub async fn create(
    State(state): State<ApiState>,
    query: Query,
    MutationWithBody(operation, body): MutationWithBody<PutPolicyRequest>,
) -> Result<(StatusCode, Json<PolicyChange>)> {
    let dry_run = query.flag("dry_run")?;
    let proposal = proposal(&state, put_edit(None, body), dry_run);
    let changed = state.catalog.policies().change_policies(&operation, proposal).await?;
    let status = if dry_run { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(wire::policy_change(changed, state.authn.keys()))))
}

/// `PUT /management/v1/policies/{id}`.
pub async fn replace(
    State(state): State<ApiState>,
    PathParams(id): PathParams<String>,
    query: Query,
    MutationWithBody(operation, body): MutationWithBody<PutPolicyRequest>,
) -> Result<Json<PolicyChange>> {
    let proposal = proposal(&state, put_edit(Some(id), body), query.flag("dry_run")?);
    changed(&state, &operation, proposal).await
}

/// `DELETE /management/v1/policies/{id}`.
pub async fn remove(
    State(state): State<ApiState>,
    PathParams(id): PathParams<String>,
    query: Query,
    Mutation(operation): Mutation,
) -> Result<Json<PolicyChange>> {
    let proposal = proposal_of_query(&state, Edit::Remove { id }, &query)?;
    changed(&state, &operation, proposal).await
}

/// `POST /management/v1/policies/rollback`.
pub async fn roll_back(
    State(state): State<ApiState>,
    query: Query,
    MutationWithBody(operation, body): MutationWithBody<RollbackRequest>,
) -> Result<Json<PolicyChange>> {
    let RollbackRequest { to, comment, expected_revision } = body;
    let request = EditRequest { edit: Edit::RollBack { to }, comment, expected_revision };
    let proposal = proposal(&state, request, query.flag("dry_run")?);
    changed(&state, &operation, proposal).await
}

/// `GET /management/v1/policies/revisions`.
pub async fn revisions(
    State(state): State<ApiState>,
    Paging(page): Paging,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<PolicyRevisionList>> {
    let page = state.catalog.policies().policy_revisions(&operation, &page).await?;
    Ok(Json(wire::policy_revision_list(page, state.authn.keys())))
}

/// `GET /management/v1/policies/revisions/{number}`.
pub async fn load_revision(
    State(state): State<ApiState>,
    PathParams(number): PathParams<String>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<PolicyRevisionDetails>> {
    let number = parse_number(&number)?;
    let revision = state.catalog.policies().policy_revision(&operation, number).await?;
    Ok(Json(wire::policy_revision_details(revision, state.authn.keys())))
}

/// `GET /management/v1/policies/revisions/{from}/diff/{to}`.
pub async fn diff(
    State(state): State<ApiState>,
    PathParams((from, to)): PathParams<(String, String)>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<PolicyRevisionDiff>> {
    let (from, to) = (parse_number(&from)?, parse_number(&to)?);
    let changes = state.catalog.policies().policy_diff(&operation, from, to).await?;
    let changes = wire::policy_differences(changes, state.authn.keys());
    Ok(Json(PolicyRevisionDiff { from, to, changes }))
}

/// Applies a proposal and returns its changes.
pub(super) async fn changed(
    state: &ApiState,
    operation: &Operation,
    proposal: Proposal,
) -> Result<Json<PolicyChange>> {
    let changed = state.catalog.policies().change_policies(operation, proposal).await?;
    Ok(Json(wire::policy_change(changed, state.authn.keys())))
}

/// A requested change.
pub(super) struct EditRequest {
    pub(super) edit: Edit,
    pub(super) comment: Option<String>,
    pub(super) expected_revision: Option<u64>,
}

fn put_edit(id: Option<String>, body: PutPolicyRequest) -> EditRequest {
    let PutPolicyRequest { text, comment, expected_revision } = body;
    let replace = id.is_some();
    EditRequest { edit: Edit::Put { id, text, replace }, comment, expected_revision }
}

/// Creates the proposal of a change. The proposal contains the identities of all API keys. With
/// them, the catalog rejects a change after which neither the caller nor any API key could manage
/// policies.
pub(super) fn proposal(state: &ApiState, request: EditRequest, dry_run: bool) -> Proposal {
    let EditRequest { edit, comment, expected_revision } = request;
    let known = state.authn.keys().identities();
    Proposal { edit, expected_revision, comment, dry_run, known }
}

/// Creates the proposal of a change whose comment and expected revision are query parameters.
pub(super) fn proposal_of_query(state: &ApiState, edit: Edit, query: &Query) -> Result<Proposal> {
    let expected = query.get("expected_revision");
    let expected_revision = expected.as_deref().map(parse_number).transpose()?;
    let comment = query.get("comment").map(std::borrow::Cow::into_owned);
    let request = EditRequest { edit, comment, expected_revision };
    Ok(proposal(state, request, query.flag("dry_run")?))
}

fn parse_number(text: &str) -> Result<u64> {
    let invalid = |_| ApiError::bad_request("Invalid revision: expected a whole number");
    text.parse().map_err(invalid)
}

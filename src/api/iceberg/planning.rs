//! Scan planning.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::Result;
use crate::api::delegation::storage_credentials;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::delegation::AccessDelegation;
use crate::api::extract::path::{PathParams, TabularPath};
use crate::api::respond::{NO_STORE, tagged_json};
use crate::api::scan_files::{Members, add_files};
use crate::api::state::ApiState;
use crate::api::wire::plan::{FetchScanTasksRequest, PlanStatus, PlanTableScanRequest};
use slateberg_catalog::RequestContext;
use slateberg_catalog::planning::{PlanResult, PlannedFiles, Planning, ScanPlan, ScanRequest};
use slateberg_model::ident::TabularIdent;
use slateberg_model::scan::SnapshotSelection;

/// Beginning of the `User-Agent` of PyIceberg, which fetches plan tasks one after the other, and
/// cannot ask for the result of a plan.
const SEQUENTIAL_CLIENT: &[u8] = b"PyIceberg/";
/// Maximum number of files in a plan for PyIceberg. The server returns further files as plan tasks.
const SEQUENTIAL_TASKS_MAX: usize = 20_000;

/// The path of a plan.
#[derive(Debug, serde::Deserialize)]
pub struct PlanPath {
    plan_id: String,
}

/// `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan`.
pub async fn plan(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    access_delegation: AccessDelegation,
    headers: HeaderMap,
    MutationWithBody(operation, body): MutationWithBody<PlanTableScanRequest>,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let request = scan_request(body, &headers);
    let (planning, modes) = (state.catalog.planning(), access_delegation.modes());
    match planning.plan(&cx, &ident, &request, modes).await? {
        PlanResult::Completed(plan) => completed(planning, (&cx, &ident), *plan, true).await,
        PlanResult::Submitted(id) => Ok(submitted(Some(id))),
        PlanResult::Cancelled => Ok(cancelled()),
    }
}

/// `GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan_id}`.
pub async fn result(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    PathParams(PlanPath { plan_id }): PathParams<PlanPath>,
    access_delegation: AccessDelegation,
    ReadOperation(operation): ReadOperation,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let (planning, modes) = (state.catalog.planning(), access_delegation.modes());
    match planning.plan_result(&cx, &ident, &plan_id, modes).await? {
        PlanResult::Completed(plan) => completed(planning, (&cx, &ident), *plan, false).await,
        PlanResult::Submitted(_) => Ok(submitted(None)),
        PlanResult::Cancelled => Ok(cancelled()),
    }
}

/// Responds that the client has to ask for the result.
fn submitted(plan_id: Option<String>) -> Response {
    let retry_after = (header::RETRY_AFTER, HeaderValue::from_static("1"));
    ([retry_after], Json(PlanStatus { status: "submitted", plan_id })).into_response()
}

fn cancelled() -> Response {
    Json(PlanStatus { status: "cancelled", plan_id: None }).into_response()
}

/// `DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan_id}`.
pub async fn cancel(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    PathParams(PlanPath { plan_id }): PathParams<PlanPath>,
    Mutation(operation): Mutation,
) -> Result<StatusCode> {
    let cx = RequestContext::new(operation, warehouse);
    state.catalog.planning().cancel_plan(&cx, &ident, &plan_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks`.
pub async fn tasks(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    MutationWithBody(operation, body): MutationWithBody<FetchScanTasksRequest>,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let planning = state.catalog.planning();
    let files = planning.scan_tasks(&cx, &ident, &body.plan_task).await?;
    let body = render(planning, Members::begin(), files).await?;
    Ok(tagged_json(body.into(), None))
}

fn scan_request(body: PlanTableScanRequest, headers: &HeaderMap) -> ScanRequest {
    let mut request = ScanRequest {
        snapshots: SnapshotSelection {
            snapshot_id: body.snapshot_id,
            start_snapshot_id: body.start_snapshot_id,
            end_snapshot_id: body.end_snapshot_id,
        },
        filter: body.filter.map(|filter| filter.get().to_owned()),
        case_sensitive: body.case_sensitive.unwrap_or(true),
        use_snapshot_schema: body.use_snapshot_schema.unwrap_or(false),
        statistics: body.stats_fields.unwrap_or_default(),
        rows_requested_min: body.min_rows_requested,
        ..ScanRequest::default()
    };
    let agent = headers.get(header::USER_AGENT).map(|agent| agent.as_bytes());
    if agent.is_some_and(|agent| agent.starts_with(SEQUENTIAL_CLIENT)) {
        request.inline_tasks_max = SEQUENTIAL_TASKS_MAX;
        request.client_waits = true;
    }
    request
}

/// Responds with a complete plan.
async fn completed(
    planning: &Planning,
    (cx, ident): (&RequestContext, &TabularIdent),
    plan: ScanPlan,
    with_id: bool,
) -> Result<Response> {
    let ScanPlan { id, files, plan_tasks, delegated } = plan;
    let mut members = Members::begin();
    members.add("status", "completed");
    if with_id {
        members.add("plan-id", &id);
    }
    if !plan_tasks.is_empty() {
        members.add("plan-tasks", &plan_tasks);
    }
    let credentials = storage_credentials(delegated.as_ref(), &cx.warehouse, ident);
    let has_credentials = credentials.is_some();
    if let Some(credentials) = credentials {
        members.add_json("storage-credentials", &credentials);
    }
    let response = tagged_json(render(planning, members, files).await?.into(), None);
    match has_credentials {
        true => Ok((NO_STORE, response).into_response()),
        false => Ok(response),
    }
}

/// Adds the files to the JSON object and completes the object.
async fn render(planning: &Planning, mut members: Members, files: PlannedFiles) -> Result<Bytes> {
    let render = move |files: &PlannedFiles| {
        add_files(&mut members, files);
        members.finish()
    };
    Ok(planning.render(files, render).await?)
}

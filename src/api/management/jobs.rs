//! Handlers for background jobs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::extract::body::{Mutation, MutationWithBody, ReadOperation};
use crate::api::extract::paging::Paging;
use crate::api::extract::path::PathParams;
use crate::api::state::ApiState;
use crate::api::wire::jobs::{job_list, job_with_files, orphan_removal};
use slateberg_management::jobs::{Job, JobList, StartJobRequest};

/// `GET /management/v1/jobs`.
pub async fn list(
    State(state): State<ApiState>,
    Paging(page): Paging,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<JobList>> {
    let page = state.catalog.jobs().jobs(&operation, &page).await?;
    Ok(Json(job_list(page, state.authn.keys())))
}

/// `GET /management/v1/jobs/{id}`.
pub async fn load(
    State(state): State<ApiState>,
    PathParams(id): PathParams<String>,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<Job>> {
    let job = state.catalog.jobs().job(&operation, &id).await?;
    Ok(Json(job_with_files(job, state.authn.keys())))
}

/// `POST /management/v1/jobs`.
pub async fn start(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<StartJobRequest>,
) -> Result<(StatusCode, Json<Job>)> {
    let started =
        state.catalog.jobs().start_orphan_removal(&operation, orphan_removal(body)).await?;
    Ok((StatusCode::ACCEPTED, Json(job_with_files(started, state.authn.keys()))))
}

/// `POST /management/v1/jobs/{id}/cancel`.
pub async fn cancel(
    State(state): State<ApiState>,
    PathParams(id): PathParams<String>,
    Mutation(operation): Mutation,
) -> Result<Json<Job>> {
    let job = state.catalog.jobs().cancel_job(&operation, &id).await?;
    Ok(Json(job_with_files(job, state.authn.keys())))
}

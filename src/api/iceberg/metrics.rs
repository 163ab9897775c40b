//! `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics`.

use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::MutationWithBody;
use crate::api::extract::path::TabularPath;
use crate::api::state::ApiState;
use crate::api::wire::ReportMetricsRequest;
use slateberg_catalog::RequestContext;
use slateberg_model::members::brief;

/// Accepts a report and counts it by kind.
pub async fn report(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    MutationWithBody(operation, body): MutationWithBody<ReportMetricsRequest>,
) -> Result<StatusCode> {
    let cx = RequestContext::new(operation, warehouse);
    let counter = match body.report_type.as_str() {
        "scan-report" => &state.counters.scan_reports,
        "commit-report" => &state.counters.commit_reports,
        other => {
            return Err(ApiError::bad_request(format!(
                "Invalid report type: expected scan-report or commit-report, got '{}'",
                brief(other)
            )));
        }
    };
    state.catalog.tabulars().report_metrics(&cx, &ident).await?;
    counter.add(1);
    Ok(StatusCode::NO_CONTENT)
}

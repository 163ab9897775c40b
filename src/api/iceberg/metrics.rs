//! `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics`.

use axum::extract::State;
use axum::http::StatusCode;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::MutationWithBody;
use crate::api::extract::path::TabularPath;
use crate::api::state::ApiState;
use crate::api::wire::metrics_reports::ReportMetricsRequest;
use slateberg_catalog::RequestContext;
use slateberg_catalog::metrics_reports::ReportType;
use slateberg_model::members::brief;

/// Accepts a metrics report.
pub async fn report(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    MutationWithBody(operation, body): MutationWithBody<ReportMetricsRequest>,
) -> Result<StatusCode> {
    let Some(report_type) = ReportType::parse(&body.report_type) else {
        return Err(ApiError::bad_request(format!(
            "Invalid report type: expected scan-report or commit-report, got '{}'",
            brief(&body.report_type)
        )));
    };
    let report = serde_json::to_value(body)
        .map_err(|error| ApiError::bad_request(format!("Invalid metrics report: {error}")))?;
    let cx = RequestContext::new(operation, warehouse);
    state.catalog.metrics_reports().receive(&cx, &ident, report_type, report).await?;
    Ok(StatusCode::NO_CONTENT)
}

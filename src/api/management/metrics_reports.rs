//! Handler for the metrics reports of a table.

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::ReadOperation;
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::metrics_reports::reports_list;
use slateberg_catalog::metrics_reports::ReportType;
use slateberg_management::tables::MetricsReportList;
use slateberg_model::members::brief;

/// `GET /management/v1/tables/metrics-reports`.
pub async fn list(
    State(state): State<ApiState>,
    query: Query,
    ReadOperation(operation): ReadOperation,
) -> Result<Json<MetricsReportList>> {
    let Some(resource) = query.get("resource") else {
        return Err(ApiError::bad_request(
            "Missing query parameter resource: expected a table, such as \
             table:default/sales/orders",
        ));
    };
    let only = match query.get("type") {
        Some(name) => Some(ReportType::parse(&name).ok_or_else(|| {
            ApiError::bad_request(format!(
                "Invalid query parameter type: expected scan-report or commit-report, got '{}'",
                brief(&name)
            ))
        })?),
        None => None,
    };
    let reports = state.catalog.metrics_reports().of(&operation, &resource, only).await?;
    Ok(Json(reports_list(reports)))
}

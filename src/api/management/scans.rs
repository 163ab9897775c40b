//! Handlers for explanations of scans.

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::extract::body::MutationWithBody;
use crate::api::state::ApiState;
use crate::api::wire::scans::{scan_explanation, scan_to_explain};
use slateberg_management::scans::{ExplainScanRequest, ScanExplanation};

/// `POST /management/v1/scans/explain`.
pub async fn explain(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<ExplainScanRequest>,
) -> Result<Json<ScanExplanation>> {
    let (table, scan) = scan_to_explain(body);
    let report = state.catalog.planning().explain_scan(&operation, &table, &scan).await?;
    Ok(Json(scan_explanation(&report)))
}

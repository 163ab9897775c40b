//! `GET /metrics`: all metrics in Prometheus' text format.

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::api::state::ApiState;
use slateberg_telemetry::prometheus;

/// Renders all metrics.
pub async fn metrics(State(state): State<ApiState>) -> impl IntoResponse {
    let text = prometheus::render(&state.registry.collect());
    ([(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)], text)
}

//! `GET /metrics`: counters, in Prometheus' text format.

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::api::state::ApiState;

/// All counters.
pub async fn metrics(State(state): State<ApiState>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], state.counters.render())
}

//! `GET /health`: the process responds. `GET /ready`: the server accepts requests.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::api::error::ApiError;
use crate::api::state::ApiState;
use slateberg_catalog as catalog;

/// Always returns 200.
pub async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Returns 200 while the store is open for writing. Returns 503 if another writer has fenced the
/// store, if the store is closed, or if the server is shutting down. If only writes are rejected,
/// for example because the disk is full, returns 200 with the reason in the body.
pub async fn ready(State(state): State<ApiState>) -> Result<Json<Value>, ApiError> {
    if state.shutdown.has_begun() {
        return Err(catalog::Error::unavailable(
            "The server is stopping",
            "shutdown was requested",
        )
        .into());
    }
    state.catalog.check_open().map_err(catalog::Error::from)?;
    // The server still serves reads, so a load balancer should not remove it.
    Ok(Json(match state.catalog.shortage() {
        None => json!({ "status": "ready", "role": "writer" }),
        Some(reason) => {
            json!({ "status": "ready", "role": "writer", "writes": "rejected", "reason": reason })
        }
    }))
}

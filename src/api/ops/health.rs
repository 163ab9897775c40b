//! `GET /health`: the process answers. `GET /ready`: and it may be sent requests.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::api::error::ApiError;
use crate::api::state::ApiState;
use slateberg_catalog as catalog;

/// Always 200.
pub async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// 200 while the store is open for writing, 503 once another writer has taken it or it is shut, or the server
/// is about to stop. While writes alone are rejected, as on a full disk, it is 200 and the body says why.
pub async fn ready(State(state): State<ApiState>) -> Result<Json<Value>, ApiError> {
    if state.leaving.has_begun() {
        return Err(catalog::Error::unavailable(
            "The server is stopping",
            "shutdown was requested",
        )
        .into());
    }
    state.catalog.check_open().map_err(catalog::Error::from)?;
    // Reads are served, so that a load balancer must not take this server out.
    Ok(Json(match state.catalog.shortage() {
        None => json!({ "status": "ready", "role": "writer" }),
        Some(reason) => {
            json!({ "status": "ready", "role": "writer", "writes": "rejected", "reason": reason })
        }
    }))
}

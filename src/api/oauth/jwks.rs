//! `GET /v1/oauth/jwks`.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use crate::api::state::ApiState;

/// Returns the public keys of slateberg's own tokens, for clients that verify them.
pub async fn get_jwks(State(state): State<ApiState>) -> Json<Value> {
    Json(state.authn.own_tokens().key_set())
}

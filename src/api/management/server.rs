//! `GET /management/v1/server`.

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::extract::body::Reading;
use crate::api::state::ApiState;
use crate::api::wire::management::ServerInfo;
use slateberg_base::version::VERSION;

/// Tells whoever is let in what they speak to.
pub async fn server(
    State(state): State<ApiState>,
    Reading(_operation): Reading,
) -> Result<Json<ServerInfo>> {
    Ok(Json(ServerInfo {
        name: env!("CARGO_PKG_NAME"),
        version: VERSION,
        authentication: !state.authn.lets_everybody_in(),
        policies_in_force: state.catalog.policies().policy_hash(),
        policy_revision: state.catalog.policies().newest_policy_revision(),
        clone_of: state.catalog.clone_of().map(Into::into),
    }))
}

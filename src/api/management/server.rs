//! `GET /management/v1/server`.

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::extract::body::ReadOperation;
use crate::api::state::ApiState;
use crate::api::wire::identity::clone_origin;
use slateberg_base::version::VERSION;
use slateberg_management::identity::ServerInfo;

/// Returns the version and state of the server to every authenticated caller.
pub async fn server(
    State(state): State<ApiState>,
    ReadOperation(_operation): ReadOperation,
) -> Result<Json<ServerInfo>> {
    Ok(Json(ServerInfo {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: VERSION.to_owned(),
        catalog_id: state.catalog.id(),
        authentication: !state.authn.is_open(),
        policies_in_force: state.catalog.policies().policy_hash(),
        policy_revision: state.catalog.policies().newest_policy_revision(),
        clone_of: state.catalog.clone_of().map(clone_origin),
    }))
}

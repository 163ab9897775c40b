//! `GET /management/v1/whoami`.

use axum::Json;

use super::Result;
use crate::api::extract::body::ReadOperation;
use crate::api::wire::identity::caller;
use slateberg_management::identity::Caller;

/// Returns the principal of the request.
pub async fn whoami(ReadOperation(operation): ReadOperation) -> Result<Json<Caller>> {
    Ok(Json(caller(&operation.principal)))
}

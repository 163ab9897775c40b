//! `GET /management/v1/whoami`.

use axum::Json;

use super::Result;
use crate::api::extract::body::Reading;
use crate::api::wire::management::WhoAmI;

/// Tells a client whom its credential speaks for.
pub async fn whoami(Reading(operation): Reading) -> Result<Json<WhoAmI>> {
    Ok(Json(WhoAmI::from(&operation.principal)))
}

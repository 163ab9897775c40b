//! Handler for recursive drops of namespaces.

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::extract::body::MutationWithBody;
use crate::api::state::ApiState;
use crate::api::wire::namespaces::{dropped_namespace, recursive_drop};
use slateberg_management::namespaces::{DropNamespaceRequest, DroppedNamespace};

/// `POST /management/v1/namespaces/drop`.
pub async fn drop(
    State(state): State<ApiState>,
    MutationWithBody(operation, body): MutationWithBody<DropNamespaceRequest>,
) -> Result<Json<DroppedNamespace>> {
    let request = recursive_drop(body);
    let dropped = state.catalog.tabulars().drop_recursively(&operation, request).await?;
    Ok(Json(dropped_namespace(dropped)))
}

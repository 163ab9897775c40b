//! `POST /v1/{prefix}/transactions/commit`: an atomic commit to several tables.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use super::Result;
use super::table_commit::{is_blind_append, table_change};
use crate::api::error::ApiError;
use crate::api::extract::body::MutationWithBody;
use crate::api::extract::path::WarehousePath;
use crate::api::state::ApiState;
use crate::api::wire::CommitTransactionRequest;
use crate::api::wire::object::Object;
use slateberg_catalog::RequestContext;

/// Commits to several tables.
pub async fn commit(
    State(state): State<ApiState>,
    WarehousePath(warehouse): WarehousePath,
    headers: HeaderMap,
    MutationWithBody(operation, body): MutationWithBody<CommitTransactionRequest>,
) -> Result<StatusCode> {
    let cx = RequestContext::new(operation, warehouse);
    let blind_append = is_blind_append(&headers)?;
    let changes = body
        .table_changes
        .iter()
        .map(|Object(change)| {
            let Some(Object(ident)) = change.identifier.clone() else {
                let message = "Invalid table changes: table identifier is required";
                return Err(ApiError::bad_request(message));
            };
            table_change(ident, change, blind_append)
        })
        .collect::<Result<Vec<_>>>()?;
    state.catalog.tabulars().commit_transaction(&cx, changes).await?;
    Ok(StatusCode::NO_CONTENT)
}

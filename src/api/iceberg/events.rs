//! The events of a warehouse, in the form of the proposed specification.

use axum::Json;
use axum::extract::State;
use axum::http::{Method, Uri};

use super::Result;
use crate::api::error::ApiError;
use crate::api::extract::body::MutationWithBody;
use crate::api::extract::path::WarehousePath;
use crate::api::state::ApiState;
use crate::api::wire::events::{QueryEventsRequest, QueryEventsResponse, add_events};
use slateberg_catalog::watch::WatchRequest;

/// Number of events on a page, unless the client requests another number.
const PAGE_SIZE: usize = 100;
/// Maximum number of events on a page, except those of one larger transaction.
const PAGE_SIZE_MAX: usize = 1000;
/// Maximum number of reads of the change log for one page. After these reads, the page can be empty
/// although more events follow.
const READS_MAX: usize = 10;

/// `POST /v1/{prefix}/events`.
pub async fn query(
    State(state): State<ApiState>,
    method: Method,
    uri: Uri,
    WarehousePath(warehouse): WarehousePath,
    MutationWithBody(operation, mut body): MutationWithBody<QueryEventsRequest>,
) -> Result<Json<QueryEventsResponse>> {
    if !state.catalog.settings().events {
        return Err(ApiError::no_such_route(&method, uri.path(), ""));
    }
    let page_size = page_size(body.page_size)?;
    let filter = body.filter()?;
    let _permit = state.watchers.admit(&operation.principal)?;
    let request = WatchRequest {
        resource: Some(format!("warehouse:{}", warehouse.name)),
        since_ms: body.since_timestamp_ms,
        after: Some(body.continuation_token.take().unwrap_or_else(|| "oldest".to_owned())),
        ..WatchRequest::default()
    };
    let mut watch = state.catalog.watches().watch(operation, &request).await?;
    let (mut events, mut caught_up, mut reads) = (Vec::new(), false, 0);
    while events.len() < page_size && !caught_up && reads < READS_MAX {
        let batch = watch.read(page_size - events.len()).await?;
        (caught_up, reads) = (batch.caught_up, reads + 1);
        add_events(&mut events, &filter, &batch.events, state.catalog.now_ms());
    }
    let continuation_token = watch.position().to_string();
    Ok(Json(QueryEventsResponse { continuation_token, events }))
}

fn page_size(requested: Option<i64>) -> Result<usize> {
    let Some(requested) = requested else { return Ok(PAGE_SIZE) };
    match usize::try_from(requested) {
        Ok(size) if size > 0 => Ok(size.min(PAGE_SIZE_MAX)),
        _ => Err(ApiError::bad_request(format!(
            "Invalid page-size: expected at least 1, got {requested}"
        ))),
    }
}

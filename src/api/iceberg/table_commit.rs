//! `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}`: a commit.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::{Result, parse_all, same_as_path};
use crate::api::error::ApiError;
use crate::api::extract::accept_encoding::AcceptEncoding;
use crate::api::extract::body::MutationWithBody;
use crate::api::extract::path::TabularPath;
use crate::api::respond::{commit_result, unrestricted_etag};
use crate::api::state::ApiState;
use crate::api::wire::CommitRequest;
use slateberg_catalog::RequestContext;
use slateberg_catalog::tables::TableChange;
use slateberg_model::ident::TabularIdent;
use slateberg_model::requirement::parse_requirement;
use slateberg_model::update::TableUpdate;

/// Header with which a client declares that its appends are blind: they do not depend on the state
/// of their tables.
const BLIND_APPEND: &str = "Slateberg-Blind-Append";

/// Commits to a table, or creates a staged one.
pub async fn commit(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    headers: HeaderMap,
    AcceptEncoding(codings): AcceptEncoding,
    MutationWithBody(operation, body): MutationWithBody<CommitRequest>,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    same_as_path(body.identifier.as_ref().map(|it| &it.0), &ident)?;
    let change = table_change(ident, &body, is_blind_append(&headers)?)?;
    let committed = state.catalog.tabulars().commit_table(&cx, change).await?;
    let tag = unrestricted_etag(state.catalog.timeline(), &committed);
    let rendered = commit_result(&committed, Some(tag));
    Ok(state.response_cache.respond_uncached(rendered, codings).await)
}

/// Parses the change in a body.
pub fn table_change(
    ident: TabularIdent,
    body: &CommitRequest,
    blind_append: bool,
) -> Result<TableChange> {
    let requirements = body.requirements.as_deref().unwrap_or_default();
    Ok(TableChange {
        ident,
        requirements: parse_all(requirements, parse_requirement)?,
        updates: parse_all(&body.updates, TableUpdate::parse)?,
        blind_append,
    })
}

/// Whether the client declares that its appends are blind.
pub fn is_blind_append(headers: &HeaderMap) -> Result<bool> {
    let Some(value) = headers.get(BLIND_APPEND) else { return Ok(false) };
    match value.as_bytes() {
        value if value.eq_ignore_ascii_case(b"true") => Ok(true),
        value if value.eq_ignore_ascii_case(b"false") => Ok(false),
        _ => {
            let message = format!("Invalid header {BLIND_APPEND}: expected true or false");
            Err(ApiError::bad_request(&message))
        }
    }
}

//! Handlers for access to the files of tables: they renew credentials and sign requests.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use uuid::Uuid;

use super::Result;
use crate::api::delegation::{STAGED_PROPERTY, credentials_body};
use crate::api::error::ApiError;
use crate::api::extract::body::{MutationWithBody, ReadOperation};
use crate::api::extract::path::TabularPath;
use crate::api::extract::query::Query;
use crate::api::extract::referenced_by::through_views;
use crate::api::respond::{NO_STORE, tagged_json};
use crate::api::state::ApiState;
use crate::api::wire::sign::{RemoteSignRequest, RemoteSignResult};
use slateberg_catalog::RequestContext;
use slateberg_objects::sign::request::SignRequest;

/// The query parameter by which a client requests access to a staged table.
const STAGED: &str = "staged";
/// The only storage provider whose requests can be signed.
const PROVIDER: &str = "s3";

/// `GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials`.
pub async fn credentials(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    query: Query,
    ReadOperation(operation): ReadOperation,
) -> Result<Response> {
    let cx = through_views(&state, RequestContext::new(operation, warehouse), &query).await?;
    let staged = staged(&query)?;
    let delegated = state.catalog.delegations().credentials(&cx, &ident, staged).await?;
    let body = credentials_body(delegated.as_ref(), &cx.warehouse, &ident);
    Ok((NO_STORE, tagged_json(body.into(), None)).into_response())
}

/// `POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign`.
pub async fn sign(
    State(state): State<ApiState>,
    TabularPath { warehouse, ident }: TabularPath,
    query: Query,
    MutationWithBody(operation, body): MutationWithBody<RemoteSignRequest>,
) -> Result<Response> {
    let cx = RequestContext::new(operation, warehouse);
    let RemoteSignRequest { region, uri, method, headers, properties, body, provider } = body;
    // Clients send either the path or the properties that were in the response to the load.
    let property = properties.as_ref().and_then(|all| all.get(STAGED_PROPERTY));
    let staged = match property {
        Some(name) => Some(parse_staged(STAGED_PROPERTY, name)?),
        None => staged(&query)?,
    };
    if provider.is_some_and(|provider| provider != PROVIDER) {
        return Err(ApiError::bad_request("Invalid provider: expected s3"));
    }
    let request = SignRequest { method, region, uri, headers, body };
    let signed = state.catalog.planning().sign(&cx, &ident, staged, &request).await?;
    // A cacheable signature may be cached only by the client itself. Other signatures are valid for
    // one request.
    let keep = if signed.cacheable { "private" } else { "no-cache" };
    let mut response_headers = HeaderMap::new();
    response_headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
    let body = RemoteSignResult { uri: signed.uri, headers: signed.headers };
    Ok((response_headers, Json(body)).into_response())
}

fn staged(query: &Query) -> Result<Option<Uuid>> {
    query.get(STAGED).map(|text| parse_staged("query parameter staged", &text)).transpose()
}

fn parse_staged(what: &str, text: &str) -> Result<Uuid> {
    Uuid::try_parse(text).map_err(|_| {
        ApiError::bad_request(format!(
            "Invalid {what}: expected the name from the response that staged the table"
        ))
    })
}

//! `GET /v1/config`.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;

use super::Result;
use crate::api::endpoints::{ENDPOINTS, EVENTS, SIGN};
use crate::api::extract::body::ReadOperation;
use crate::api::extract::query::Query;
use crate::api::state::ApiState;
use crate::api::wire::CatalogConfig;
use slateberg_model::principal::Principal;
use slateberg_model::warehouse::{Delegation, Warehouse};

/// Returns the value of the access-delegation header that clients send for this warehouse. Clients
/// read this value from the response, so users do not have to configure it.
fn delegation_header(warehouse: &Warehouse) -> Option<String> {
    let modes = &warehouse.storage.access.delegation;
    let names = modes.iter().map(|mode| mode.name()).collect::<Vec<_>>();
    (!names.is_empty()).then(|| names.join(","))
}

/// Returns the client configuration: the warehouse's prefix, defaults, overrides and the endpoints.
pub async fn get_config(
    State(state): State<ApiState>,
    ReadOperation(operation): ReadOperation,
    query: Query,
) -> Result<Json<CatalogConfig>> {
    let warehouse = state
        .catalog
        .warehouses()
        .configured_warehouse(&operation, query.get("warehouse").as_deref())?;
    let mut overrides: BTreeMap<_, _> = warehouse.client_overrides.clone();
    overrides.insert("prefix".to_owned(), warehouse.name.clone());
    let mut defaults = warehouse.client_defaults.clone();
    // Clients with a token of an external issuer renew the token at that issuer. Clients with an
    // API key need no URL, because clients request tokens from the catalog by default.
    if let Principal::Identified(identity) = &operation.principal
        && let Some(url) = state.authn.issuers().of(identity).and_then(|issuer| issuer.token_url())
    {
        defaults.entry("oauth2-server-uri".to_owned()).or_insert(url);
    }
    if let Some(modes) = delegation_header(&warehouse) {
        defaults.entry("header.X-Iceberg-Access-Delegation".to_owned()).or_insert(modes);
    }
    let events = state.catalog.settings().events.then_some(&EVENTS);
    let signs = warehouse.storage.access.delegation.contains(&Delegation::RemoteSigning);
    let endpoints = ENDPOINTS.iter().chain(signs.then_some(&SIGN)).chain(events);
    let lifetime = state.catalog.settings().idempotency_lifetime_seconds;
    Ok(Json(CatalogConfig {
        defaults,
        overrides,
        endpoints: endpoints.map(ToString::to_string).collect(),
        idempotency_key_lifetime: format!("PT{lifetime}S"),
    }))
}

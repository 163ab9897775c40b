//! All routes, on one page.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{MethodRouter, get, post};

use super::admission::Admission;
use super::error::ApiError;
use super::guard::{Door, Guarded};
use super::iceberg::{
    config, files, metrics, namespaces, table_commit, tables, transactions, views,
};
use super::management::{
    api_keys, encryption, explain, grants, openapi, policies, server, warehouses, whoami,
};
use super::oauth;
use super::observe::Observer;
use super::ops::{health, metrics as counters};
use super::state::ApiState;
use crate::telemetry::http::HttpMetrics;

/// What `GET /v1/config` tells clients to be served: the routes of `catalog_routes` that a client
/// chooses by, in the specification's own spelling.
pub const ENDPOINTS: [&str; 27] = [
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/transactions/commit",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/register-view",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/views/rename",
];

/// What operators ask, however many requests are under way.
const ALWAYS_OPEN: [&str; 3] = ["/health", "/ready", "/metrics"];

/// What asks for no credential: there one gets one. So does what is always open, but `/metrics` if the
/// settings say so.
const FOR_EVERYBODY: [&str; 5] =
    ["/health", "/ready", "/v1/oauth/tokens", "/v1/oauth/jwks", "/management/v1/openapi.json"];

/// The beginning of what a warehouse serves: with its name as a prefix or, for the default one, without.
const PREFIXES: [&str; 2] = ["/v1", "/v1/{prefix}"];
/// The beginning of what managing the server takes.
const MANAGEMENT: &str = "/management/v1";

/// The whole server.
pub fn router(state: ApiState) -> Guarded {
    let admission = Admission::new(&state.settings);
    let observer = observer(&state);
    let mut routes = Router::new();
    for (path, endpoints) in own_routes() {
        routes = routes.route(path, endpoints);
    }
    let mut management = Router::new();
    for (path, endpoints) in management_routes() {
        management = management.route(path, endpoints);
    }
    routes = routes.nest(MANAGEMENT, management);
    for prefix in PREFIXES {
        for (path, endpoints) in catalog_routes() {
            routes = routes.route(&format!("{prefix}{path}"), endpoints);
        }
    }
    let routes = routes
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .with_state(state.clone());
    let door = Door::new(state, observer, &FOR_EVERYBODY);
    Guarded::new(routes, admission, &ALWAYS_OPEN, Some(door))
}

/// Observes requests by the templates of all routes.
fn observer(state: &ApiState) -> Observer {
    let own = own_routes().map(|(path, _)| path.to_owned());
    let management = management_routes().map(|(path, _)| format!("{MANAGEMENT}{path}"));
    let of_catalog = PREFIXES
        .iter()
        .flat_map(|prefix| catalog_routes().map(|(path, _)| format!("{prefix}{path}")));
    let templates: Vec<_> = own.into_iter().chain(management).chain(of_catalog).collect();
    let metrics = Arc::new(HttpMetrics::new(state.scheme, templates.clone()));
    let told = Arc::clone(&metrics);
    state.registry.register("http", move |into| told.collect(into));
    Observer::new(metrics, &templates, state.tracer.clone())
}

/// What belongs to no warehouse.
fn own_routes() -> [(&'static str, MethodRouter<ApiState>); 6] {
    [
        ("/v1/config", get(config::get_config)),
        ("/health", get(health::health)),
        ("/ready", get(health::ready)),
        ("/metrics", get(counters::metrics)),
        ("/v1/oauth/tokens", post(oauth::tokens::get_token)),
        ("/v1/oauth/jwks", get(oauth::jwks::get_jwks)),
    ]
}

/// What a warehouse serves, below its prefix.
fn catalog_routes() -> [(&'static str, MethodRouter<ApiState>); 16] {
    [
        ("/namespaces", get(namespaces::list).post(namespaces::create)),
        (
            "/namespaces/{namespace}",
            get(namespaces::load).head(namespaces::exists).delete(namespaces::drop),
        ),
        ("/namespaces/{namespace}/properties", post(namespaces::update_properties)),
        ("/namespaces/{namespace}/tables", get(tables::list).post(tables::create)),
        ("/namespaces/{namespace}/register", post(tables::register)),
        (
            "/namespaces/{namespace}/tables/{table}",
            get(tables::load).head(tables::exists).post(table_commit::commit).delete(tables::drop),
        ),
        ("/namespaces/{namespace}/tables/{table}/unregister", post(tables::unregister)),
        ("/namespaces/{namespace}/tables/{table}/metrics", post(metrics::report)),
        ("/namespaces/{namespace}/tables/{table}/credentials", get(files::credentials)),
        ("/namespaces/{namespace}/tables/{table}/sign", post(files::sign)),
        ("/tables/rename", post(tables::rename)),
        ("/transactions/commit", post(transactions::commit)),
        ("/namespaces/{namespace}/views", get(views::list).post(views::create)),
        ("/namespaces/{namespace}/register-view", post(views::register)),
        (
            "/namespaces/{namespace}/views/{view}",
            get(views::load).head(views::exists).post(views::commit).delete(views::drop),
        ),
        ("/views/rename", post(views::rename)),
    ]
}

/// What managing the server itself takes.
fn management_routes() -> [(&'static str, MethodRouter<ApiState>); 20] {
    [
        ("/openapi.json", get(openapi::document)),
        ("/whoami", get(whoami::whoami)),
        ("/server", get(server::server)),
        ("/api-keys", get(api_keys::list).post(api_keys::create)),
        ("/api-keys/{id}", get(api_keys::load).delete(api_keys::revoke)),
        ("/policies", get(policies::list).post(policies::create)),
        ("/policies/rollback", post(policies::roll_back)),
        ("/policies/revisions", get(policies::revisions)),
        ("/policies/revisions/{number}", get(policies::load_revision)),
        ("/policies/revisions/{number}/diff/{to}", get(policies::diff)),
        ("/policies/{id}", get(policies::load).put(policies::replace).delete(policies::remove)),
        ("/grants", get(grants::list).post(grants::create)),
        ("/grants/{id}", get(grants::load).delete(grants::revoke)),
        ("/warehouses", get(warehouses::list).post(warehouses::create)),
        (
            "/warehouses/{name}",
            get(warehouses::load).put(warehouses::update).delete(warehouses::delete),
        ),
        ("/encryption", get(encryption::load)),
        ("/encryption/rotate", post(encryption::rotate)),
        ("/encryption/rewrap", post(encryption::rewrap)),
        ("/authorize", post(explain::authorize)),
        ("/permissions", get(explain::permissions)),
    ]
}

async fn no_such_route(method: Method, uri: Uri) -> ApiError {
    let message = format!("No route for request: {method} {}", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "NotFoundException", message)
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("No route for request: {method} {}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "UnsupportedOperationException", message)
}

//! All routes, on one page.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{MethodRouter, get, post};

use super::admission::Admission;
use super::cors::Cors;
use super::error::ApiError;
use super::guard::{Door, Guarded};
use super::iceberg::{
    config, files, metrics, namespaces, table_commit, tables, transactions, views,
};
use super::management::{
    api_keys, checkpoints, encryption, explain, grants, jobs, openapi, policies, server, warehouses,
    whoami,
};
use super::oauth;
use super::ops::{health, metrics as counters};
use super::rate_limits::RateLimits;
use super::state::ApiState;

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

/// The routes of a server, by who asks for them.
pub struct Routers {
    /// Clients.
    pub clients: Guarded,
    /// Operators, if they have a port of their own.
    pub operators: Option<Guarded>,
}

/// The whole server.
pub fn routers(state: ApiState) -> Routers {
    let settings = &state.settings;
    // What one may do is one's own at both ports together.
    let limits = RateLimits::new(&settings.rate_limits).map(Arc::new);
    let cors = Cors::new(&settings.cors).map(Arc::new);
    let guarded = |routes: Router<ApiState>| {
        let routes = routes
            .route("/health", get(health::health))
            .route("/ready", get(health::ready))
            .fallback(no_such_route)
            .method_not_allowed_fallback(no_such_method)
            .with_state(state.clone());
        let door = Door::new(state.clone(), limits.clone(), &FOR_EVERYBODY);
        let admission = Admission::new(settings);
        Guarded::new(routes, admission, &ALWAYS_OPEN, Some(door)).with_cors(cors.clone())
    };
    match settings.management.listen {
        None => {
            let everything = client_routes().merge(operator_routes());
            Routers { clients: guarded(everything), operators: None }
        }
        Some(_) => Routers {
            clients: guarded(client_routes()),
            operators: Some(guarded(operator_routes())),
        },
    }
}

/// What clients ask for.
fn client_routes() -> Router<ApiState> {
    let mut routes = Router::new()
        .route("/v1/config", get(config::get_config))
        .route("/v1/oauth/tokens", post(oauth::tokens::get_token))
        .route("/v1/oauth/jwks", get(oauth::jwks::get_jwks));
    // What a warehouse serves, with its name as a prefix or, for the default one, without.
    for prefix in ["/v1", "/v1/{prefix}"] {
        for (path, endpoints) in catalog_routes() {
            routes = routes.route(&format!("{prefix}{path}"), endpoints);
        }
    }
    routes
}

/// What operators ask for.
fn operator_routes() -> Router<ApiState> {
    Router::new()
        .route("/metrics", get(counters::metrics))
        .nest("/management/v1", management_routes())
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
fn management_routes() -> Router<ApiState> {
    Router::new()
        .route("/openapi.json", get(openapi::document))
        .route("/whoami", get(whoami::whoami))
        .route("/server", get(server::server))
        .route("/api-keys", get(api_keys::list).post(api_keys::create))
        .route("/api-keys/{id}", get(api_keys::load).delete(api_keys::revoke))
        .route("/policies", get(policies::list).post(policies::create))
        .route("/policies/rollback", post(policies::roll_back))
        .route("/policies/revisions", get(policies::revisions))
        .route("/policies/revisions/{number}", get(policies::load_revision))
        .route("/policies/revisions/{number}/diff/{to}", get(policies::diff))
        .route(
            "/policies/{id}",
            get(policies::load).put(policies::replace).delete(policies::remove),
        )
        .route("/grants", get(grants::list).post(grants::create))
        .route("/grants/{id}", get(grants::load).delete(grants::revoke))
        .route("/warehouses", get(warehouses::list).post(warehouses::create))
        .route(
            "/warehouses/{name}",
            get(warehouses::load).put(warehouses::update).delete(warehouses::delete),
        )
        .route("/jobs", get(jobs::list).post(jobs::start))
        .route("/jobs/{id}", get(jobs::load))
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/checkpoints", get(checkpoints::list).post(checkpoints::create))
        .route("/checkpoints/{checkpoint}", get(checkpoints::load).delete(checkpoints::delete))
        .route("/encryption", get(encryption::load))
        .route("/encryption/rotate", post(encryption::rotate))
        .route("/encryption/rewrap", post(encryption::rewrap))
        .route("/authorize", post(explain::authorize))
        .route("/permissions", get(explain::permissions))
}

async fn no_such_route(method: Method, uri: Uri) -> ApiError {
    let message = format!("No route for request: {method} {}", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "NotFoundException", message)
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("No route for request: {method} {}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "UnsupportedOperationException", message)
}

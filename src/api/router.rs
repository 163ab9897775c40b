//! The routes of the server.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::routing::{MethodRouter, delete, get, post};

use super::admission::Admission;
use super::cors::Cors;
use super::error::ApiError;
use super::iceberg::{
    config, files, functions, metrics, namespaces, planning, table_commit, tables, transactions,
    views,
};
use super::management::{
    api_keys, checkpoints, cluster, dropped, encryption, explain, functions as managed_functions,
    grants, history, jobs, openapi, policies, protections, recursive_drop, scans, search, server,
    snapshots, table_health, table_usage, warehouses, watch, whoami,
};
use super::oauth;
use super::observe::Observer;
use super::ops::root::RootDocument;
use super::ops::{health, metrics as counters};
use super::rate_limits::RateLimits;
use super::service::{AuthLayer, PortService};
use super::state::ApiState;
use slateberg_telemetry::http::HttpMetrics;

/// Paths of probes and metrics. Requests to these paths are exempt from admission.
const UNLIMITED_PATHS: [&str; 3] = ["/health", "/ready", "/metrics"];

/// Paths without authentication. `/metrics` is added if the settings allow it.
const PUBLIC_PATHS: [&str; 6] =
    ["/", "/health", "/ready", "/v1/oauth/tokens", "/v1/oauth/jwks", "/management/v1/openapi.json"];

/// The prefixes of a warehouse's routes. The prefix without a name selects the default warehouse.
const PREFIXES: [&str; 2] = ["/v1", "/v1/{prefix}"];
/// The prefix of the management API.
const MANAGEMENT: &str = "/management/v1";

/// The routers of the server's ports.
pub struct Routers {
    /// The port for clients.
    pub clients: PortService,
    /// The port for operators, if it is separate.
    pub operators: Option<PortService>,
}

/// Paths and their handlers.
type Routes = Vec<(String, MethodRouter<ApiState>)>;

/// Creates the routers of all ports.
pub fn routers(state: ApiState) -> Routers {
    let settings = &state.settings;
    // Both ports share the rate limits: a client has one limit for both.
    let limits = RateLimits::new(&settings.rate_limits).map(Arc::new);
    let cors = Cors::new(&settings.cors).map(Arc::new);
    let observer = Arc::new(observer(&state));
    let service = |document: RootDocument, routes: Routes| {
        let all = shared_routes(document).into_iter().chain(routes);
        let routes = all.fold(Router::new(), |router, (path, route)| router.route(&path, route));
        let routes = routes
            .fallback(no_such_route)
            .method_not_allowed_fallback(no_such_method)
            .with_state(state.clone());
        let auth =
            AuthLayer::new(state.clone(), Arc::clone(&observer), limits.clone(), &PUBLIC_PATHS);
        let admission = Admission::new(settings);
        PortService::new(routes, admission, &UNLIMITED_PATHS, Some(auth)).with_cors(cors.clone())
    };
    match settings.management.listen {
        None => {
            let mut all_routes = client_routes();
            all_routes.extend(operator_routes());
            Routers {
                clients: service(RootDocument::for_port(true, true), all_routes),
                operators: None,
            }
        }
        Some(_) => Routers {
            clients: service(RootDocument::for_port(true, false), client_routes()),
            operators: Some(service(RootDocument::for_port(false, true), operator_routes())),
        },
    }
}

/// Creates the observer with the path templates of all routes.
fn observer(state: &ApiState) -> Observer {
    let both = shared_routes(RootDocument::for_port(true, true));
    let routes = [both, client_routes(), operator_routes()].into_iter().flatten();
    let templates: Vec<_> = routes.map(|(path, _)| path).collect();
    let metrics = Arc::new(HttpMetrics::new(state.scheme, templates.clone()));
    let source = Arc::clone(&metrics);
    state.registry.register("http", move |into| source.collect(into));
    Observer::new(metrics, &templates, state.traced, state.access_log)
}

/// The routes of every port.
fn shared_routes(document: RootDocument) -> Routes {
    let root = get(move |headers: HeaderMap| async move { document.respond(&headers) });
    vec![
        ("/".to_owned(), root),
        ("/health".to_owned(), get(health::health)),
        ("/ready".to_owned(), get(health::ready)),
    ]
}

/// The routes for clients.
fn client_routes() -> Routes {
    let mut routes = vec![
        ("/v1/config".to_owned(), get(config::get_config)),
        ("/v1/oauth/tokens".to_owned(), post(oauth::tokens::get_token)),
        ("/v1/oauth/jwks".to_owned(), get(oauth::jwks::get_jwks)),
    ];
    for prefix in PREFIXES {
        let per_warehouse = catalog_routes().into_iter();
        routes.extend(per_warehouse.map(|(path, route)| (format!("{prefix}{path}"), route)));
    }
    routes
}

/// The routes for operators.
fn operator_routes() -> Routes {
    let management = management_routes().into_iter();
    let management = management.map(|(path, route)| (format!("{MANAGEMENT}{path}"), route));
    let metrics = ("/metrics".to_owned(), get(counters::metrics));
    std::iter::once(metrics).chain(management).collect()
}

/// The routes of a warehouse, relative to its prefix.
fn catalog_routes() -> [(&'static str, MethodRouter<ApiState>); 21] {
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
        ("/namespaces/{namespace}/tables/{table}/plan", post(planning::plan)),
        (
            "/namespaces/{namespace}/tables/{table}/plan/{plan_id}",
            get(planning::result).delete(planning::cancel),
        ),
        ("/namespaces/{namespace}/tables/{table}/tasks", post(planning::tasks)),
        ("/tables/rename", post(tables::rename)),
        ("/transactions/commit", post(transactions::commit)),
        ("/namespaces/{namespace}/views", get(views::list).post(views::create)),
        ("/namespaces/{namespace}/register-view", post(views::register)),
        (
            "/namespaces/{namespace}/views/{view}",
            get(views::load).head(views::exists).post(views::commit).delete(views::drop),
        ),
        ("/views/rename", post(views::rename)),
        ("/namespaces/{namespace}/functions", get(functions::list)),
        ("/namespaces/{namespace}/functions/{function}", get(functions::load)),
    ]
}

/// The routes of the management API.
fn management_routes() -> [(&'static str, MethodRouter<ApiState>); 41] {
    [
        ("/openapi.json", get(openapi::document)),
        ("/whoami", get(whoami::whoami)),
        ("/server", get(server::server)),
        ("/cluster", get(cluster::status)),
        ("/cluster/transfer", post(cluster::transfer)),
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
        (
            "/functions",
            post(managed_functions::create)
                .put(managed_functions::replace)
                .delete(managed_functions::drop),
        ),
        ("/dropped", get(dropped::list)),
        ("/dropped/undrop", post(dropped::undrop)),
        ("/dropped/{id}", delete(dropped::delete)),
        ("/namespaces/drop", post(recursive_drop::drop)),
        ("/protections", get(protections::list).post(protections::protect)),
        ("/protections/{id}", delete(protections::unprotect)),
        ("/scans/explain", post(scans::explain)),
        ("/search", get(search::search)),
        ("/tables/health", get(table_health::load)),
        ("/tables/usage", get(table_usage::list)),
        ("/history", get(history::list)),
        ("/watch", get(watch::watch)),
        ("/snapshots/expire", post(snapshots::expire)),
        ("/jobs", get(jobs::list).post(jobs::start)),
        ("/jobs/{id}", get(jobs::load)),
        ("/jobs/{id}/cancel", post(jobs::cancel)),
        ("/checkpoints", get(checkpoints::list).post(checkpoints::create)),
        ("/checkpoints/{checkpoint}", get(checkpoints::load).delete(checkpoints::delete)),
        ("/encryption", get(encryption::load)),
        ("/encryption/rotate", post(encryption::rotate)),
        ("/encryption/rewrap", post(encryption::rewrap)),
        ("/authorize", post(explain::authorize)),
        ("/permissions", get(explain::permissions)),
    ]
}

async fn no_such_route(method: Method, uri: Uri) -> ApiError {
    let path = uri.path();
    let is_api = path.starts_with("/v1/") || path.starts_with("/management/");
    // Any other path was probably entered by a person with a browser.
    let hint = if is_api { "" } else { ". GET / describes this server" };
    let message = format!("No route for request: {method} {path}{hint}");
    ApiError::new(StatusCode::NOT_FOUND, "NotFoundException", message)
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("No route for request: {method} {}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "UnsupportedOperationException", message)
}

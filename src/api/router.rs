//! The routes of the server.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, Method, StatusCode, Uri};

use super::access_log::AccessLog;
use super::admission::Admission;
use super::cors::Cors;
use super::error::ApiError;
use super::frame::RequestFrame;
use super::iceberg::{
    config, events, files, functions, metrics, namespaces, planning, table_commit, tables,
    transactions, views,
};
use super::management::{
    api_keys, checkpoints, cluster, cursors, dropped, encryption, explain,
    functions as managed_functions, grants, history, jobs, labels, manifests, metrics_reports,
    openapi, past, policies, protections, recursive_drop, scans, search, server, snapshots,
    table_health, table_usage, warehouses, watch, webhooks, whoami,
};
use super::oauth;
use super::observe::Observer;
use super::ops::root::RootDocument;
use super::ops::{health, metrics as counters};
use super::probes::{HEALTH, METRICS, PROBES, READY};
use super::rate_limits::RateLimits;
use super::route::Route;
use super::route_index::{IndexedRoute, RouteIndex};
use super::service::{AuthLayer, PortService};
use super::state::ApiState;
use slateberg_telemetry::http::HttpMetrics;
use slateberg_telemetry::settings::Ratio;

/// Paths without authentication. `/metrics` is added if the settings allow it.
const PUBLIC_PATHS: [&str; 6] =
    ["/", HEALTH, READY, "/v1/oauth/tokens", "/v1/oauth/jwks", "/management/v1/openapi.json"];

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

/// Creates the routers of all ports.
pub fn routers(state: ApiState) -> Routers {
    let settings = &state.settings;
    // Both ports share the rate limits: a client has one limit for both.
    let limits = RateLimits::new(&settings.rate_limits).map(Arc::new);
    let cors = Cors::new(&settings.cors).map(Arc::new);
    let service = |document: RootDocument, routes: Vec<Route>| {
        let all = shared_routes(document).into_iter().chain(routes);
        let routes = all.fold(Router::new(), |router, Route { path, handlers, .. }| {
            router.route(&path, handlers)
        });
        let routes = routes
            .fallback(no_such_route)
            .method_not_allowed_fallback(no_such_method)
            .with_state(state.clone());
        let frame = RequestFrame::new(Arc::clone(&state.observer), state.catalog.new_run_id());
        let auth = AuthLayer::new(state.clone(), limits.clone(), &PUBLIC_PATHS);
        let admission = Admission::new(settings);
        PortService::new(routes, frame, admission, &PROBES, Some(auth)).with_cors(cors.clone())
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

/// Creates the index of the routes of all ports, and the observer of their requests.
pub fn observer(scheme: &'static str, traced: Option<Ratio>, access_log: AccessLog) -> Observer {
    let mut routes = shared_routes(RootDocument::for_port(true, true));
    routes.extend(client_routes());
    routes.extend(operator_routes());
    let indexed = |Route { path: template, methods, is_replicated, .. }| IndexedRoute {
        template,
        methods,
        is_replicated,
    };
    let index = RouteIndex::new(routes.into_iter().map(indexed).collect());
    let templates = index.templates().map(ToOwned::to_owned).collect();
    Observer::new(HttpMetrics::new(scheme, templates), index, traced, access_log)
}

/// The routes of every port.
fn shared_routes(document: RootDocument) -> Vec<Route> {
    let root = move |headers: HeaderMap| async move { document.respond(&headers) };
    vec![
        Route::at("/").get(root),
        Route::at(HEALTH).get(health::health),
        Route::at(READY).get(health::ready),
    ]
}

/// The routes for clients.
fn client_routes() -> Vec<Route> {
    let mut routes = vec![
        Route::at("/v1/config").get(config::get_config).replicated(),
        Route::at("/v1/oauth/tokens").read_only(Method::POST, oauth::tokens::get_token),
        Route::at("/v1/oauth/jwks").get(oauth::jwks::get_jwks),
    ];
    for prefix in PREFIXES {
        routes.extend(catalog_routes().into_iter().map(|route| route.below(prefix)));
    }
    routes
}

/// The routes for operators.
fn operator_routes() -> Vec<Route> {
    let management = management_routes().into_iter().chain(change_routes());
    let management = management.map(|route| route.below(MANAGEMENT));
    std::iter::once(Route::at(METRICS).get(counters::metrics)).chain(management).collect()
}

/// The routes of a warehouse, relative to its prefix.
fn catalog_routes() -> Vec<Route> {
    vec![
        Route::at("/namespaces")
            .get(namespaces::list)
            .keyed(Method::POST, namespaces::create)
            .replicated(),
        Route::at("/namespaces/{namespace}")
            .get(namespaces::load)
            .head(namespaces::exists)
            .keyed(Method::DELETE, namespaces::drop)
            .replicated(),
        Route::at("/namespaces/{namespace}/properties")
            .keyed(Method::POST, namespaces::update_properties),
        Route::at("/namespaces/{namespace}/tables")
            .get(tables::list)
            .keyed(Method::POST, tables::create)
            .replicated(),
        Route::at("/namespaces/{namespace}/register").keyed(Method::POST, tables::register),
        Route::at("/namespaces/{namespace}/tables/{table}")
            .get(tables::load)
            .head(tables::exists)
            .keyed(Method::POST, table_commit::commit)
            .keyed(Method::DELETE, tables::drop)
            .replicated(),
        Route::at("/namespaces/{namespace}/tables/{table}/unregister")
            .keyed(Method::POST, tables::unregister),
        Route::at("/namespaces/{namespace}/tables/{table}/metrics")
            .read_only(Method::POST, metrics::report),
        Route::at("/namespaces/{namespace}/tables/{table}/credentials")
            .get(files::credentials)
            .replicated(),
        Route::at("/namespaces/{namespace}/tables/{table}/sign")
            .read_only(Method::POST, files::sign)
            .replicated(),
        Route::at("/namespaces/{namespace}/tables/{table}/plan")
            .read_only(Method::POST, planning::plan)
            .replicated(),
        Route::at("/namespaces/{namespace}/tables/{table}/plan/{plan_id}")
            .get(planning::result)
            .read_only(Method::DELETE, planning::cancel)
            .replicated(),
        Route::at("/namespaces/{namespace}/tables/{table}/tasks")
            .read_only(Method::POST, planning::tasks)
            .replicated(),
        Route::at("/tables/rename").keyed(Method::POST, tables::rename),
        Route::at("/transactions/commit").keyed(Method::POST, transactions::commit),
        Route::at("/namespaces/{namespace}/views")
            .get(views::list)
            .keyed(Method::POST, views::create)
            .replicated(),
        Route::at("/namespaces/{namespace}/register-view").keyed(Method::POST, views::register),
        Route::at("/namespaces/{namespace}/views/{view}")
            .get(views::load)
            .head(views::exists)
            .keyed(Method::POST, views::commit)
            .keyed(Method::DELETE, views::drop)
            .replicated(),
        Route::at("/events").read_only(Method::POST, events::query),
        Route::at("/views/rename").keyed(Method::POST, views::rename),
        Route::at("/namespaces/{namespace}/functions").get(functions::list).replicated(),
        Route::at("/namespaces/{namespace}/functions/{function}").get(functions::load).replicated(),
    ]
}

/// The routes of the management API, except those about changes.
fn management_routes() -> Vec<Route> {
    vec![
        Route::at("/openapi.json").get(openapi::document),
        Route::at("/whoami").get(whoami::whoami),
        Route::at("/server").get(server::server),
        Route::at("/cluster").get(cluster::status).replicated(),
        Route::at("/cluster/pause").unkeyed(Method::POST, cluster::pause),
        Route::at("/cluster/transfer").unkeyed(Method::POST, cluster::transfer),
        Route::at("/api-keys").get(api_keys::list).unkeyed(Method::POST, api_keys::create),
        Route::at("/api-keys/{id}").get(api_keys::load).unkeyed(Method::DELETE, api_keys::revoke),
        Route::at("/policies").get(policies::list).keyed(Method::POST, policies::create),
        Route::at("/policies/rollback").keyed(Method::POST, policies::roll_back),
        Route::at("/policies/revisions").get(policies::revisions),
        Route::at("/policies/revisions/{number}").get(policies::load_revision),
        Route::at("/policies/revisions/{number}/diff/{to}").get(policies::diff),
        Route::at("/policies/{id}")
            .get(policies::load)
            .keyed(Method::PUT, policies::replace)
            .keyed(Method::DELETE, policies::remove),
        Route::at("/grants").get(grants::list).keyed(Method::POST, grants::create),
        Route::at("/grants/{id}").get(grants::load).keyed(Method::DELETE, grants::revoke),
        Route::at("/warehouses").get(warehouses::list).keyed(Method::POST, warehouses::create),
        Route::at("/warehouses/{name}")
            .get(warehouses::load)
            .keyed(Method::PUT, warehouses::update)
            .keyed(Method::DELETE, warehouses::delete),
        Route::at("/functions")
            .keyed(Method::POST, managed_functions::create)
            .keyed(Method::PUT, managed_functions::replace)
            .keyed(Method::DELETE, managed_functions::drop),
        Route::at("/dropped").get(dropped::list),
        Route::at("/dropped/undrop").keyed(Method::POST, dropped::undrop),
        Route::at("/dropped/{id}").keyed(Method::DELETE, dropped::delete),
        Route::at("/namespaces/drop").keyed(Method::POST, recursive_drop::drop),
        Route::at("/protections").get(protections::list).keyed(Method::POST, protections::protect),
        Route::at("/protections/{id}").keyed(Method::DELETE, protections::unprotect),
        Route::at("/labels").get(labels::load).keyed(Method::POST, labels::update),
        Route::at("/scans/explain").read_only(Method::POST, scans::explain),
        Route::at("/search").get(search::search),
        Route::at("/tables/health").get(table_health::load),
        Route::at("/tables/usage").get(table_usage::list),
        Route::at("/tables/metrics-reports").get(metrics_reports::list),
        Route::at("/manifests/rewrite").keyed(Method::POST, manifests::rewrite),
        Route::at("/snapshots/expire").keyed(Method::POST, snapshots::expire),
        Route::at("/jobs").get(jobs::list).keyed(Method::POST, jobs::start),
        Route::at("/jobs/{id}").get(jobs::load),
        Route::at("/jobs/{id}/cancel").keyed(Method::POST, jobs::cancel),
        Route::at("/checkpoints").get(checkpoints::list).unkeyed(Method::POST, checkpoints::create),
        Route::at("/checkpoints/{checkpoint}")
            .get(checkpoints::load)
            .unkeyed(Method::DELETE, checkpoints::delete),
        Route::at("/encryption").get(encryption::load),
        Route::at("/encryption/rotate").keyed(Method::POST, encryption::rotate),
        Route::at("/encryption/rewrap").keyed(Method::POST, encryption::rewrap),
        Route::at("/authorize").read_only(Method::POST, explain::authorize),
        Route::at("/permissions").get(explain::permissions),
    ]
}

/// The routes of the management API about past changes, past states and the change feed.
fn change_routes() -> Vec<Route> {
    vec![
        Route::at("/history").get(history::list),
        Route::at("/past/contents").get(past::contents),
        Route::at("/past/metadata").get(past::metadata),
        Route::at("/watch").get(watch::watch),
        Route::at("/watch/cursors").get(cursors::list),
        Route::at("/watch/cursors/{cursor}")
            .get(cursors::load)
            .keyed(Method::PUT, cursors::store)
            .keyed(Method::DELETE, cursors::delete),
        Route::at("/webhooks").get(webhooks::list).unkeyed(Method::POST, webhooks::create),
        Route::at("/webhooks/{webhook}")
            .get(webhooks::load)
            .keyed(Method::DELETE, webhooks::delete),
        Route::at("/webhooks/{webhook}/suspend").keyed(Method::POST, webhooks::suspend),
        Route::at("/webhooks/{webhook}/resume").keyed(Method::POST, webhooks::resume),
        Route::at("/webhooks/{webhook}/rotate").unkeyed(Method::POST, webhooks::rotate),
        Route::at("/webhooks/{webhook}/test").unkeyed(Method::POST, webhooks::test),
    ]
}

async fn no_such_route(method: Method, uri: Uri) -> ApiError {
    let path = uri.path();
    let is_api = path.starts_with("/v1/") || path.starts_with("/management/");
    // Any other path was probably entered by a person with a browser.
    let hint = if is_api { "" } else { ". GET / describes this server" };
    ApiError::no_such_route(&method, path, hint)
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("No route for request: {method} {}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "UnsupportedOperationException", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::route_index::Repeatability;

    fn repeatability(method: &Method, path: &str) -> Repeatability {
        observer("http", None, AccessLog::default()).routes().repeatability(method, path)
    }

    #[test]
    fn mutations_of_the_catalog_accept_a_key() {
        for (method, path) in [
            (Method::POST, "/v1/namespaces/ns/tables/t"),
            (Method::DELETE, "/v1/wh/namespaces/ns"),
            (Method::POST, "/v1/transactions/commit"),
            (Method::PUT, "/management/v1/policies/p"),
            (Method::POST, "/management/v1/jobs"),
            (Method::POST, "/management/v1/functions"),
            (Method::POST, "/management/v1/namespaces/drop"),
            (Method::POST, "/v1/namespaces/ns/tables/metrics"),
            (Method::POST, "/v1/wh/namespaces/ns/tables/plan"),
            (Method::POST, "/v1/namespaces/ns/views/sign"),
        ] {
            assert_eq!(repeatability(&method, path), Repeatability::Keyed, "{path}");
        }
    }

    #[test]
    fn reads_are_repeatable_without_a_key() {
        for (method, path) in [
            (Method::GET, "/v1/namespaces"),
            (Method::HEAD, "/v1/namespaces/ns"),
            (Method::POST, "/v1/oauth/tokens"),
            (Method::POST, "/v1/namespaces/ns/tables/t/plan"),
            (Method::DELETE, "/v1/namespaces/ns/tables/t/plan/id"),
            (Method::POST, "/v1/wh/namespaces/ns/tables/metrics/metrics"),
            (Method::POST, "/management/v1/authorize"),
        ] {
            assert_eq!(repeatability(&method, path), Repeatability::ReadOnly, "{path}");
        }
    }

    #[test]
    fn standbys_execute_reads_of_the_catalog_themselves() {
        let index = observer("http", None, AccessLog::default());
        let is_replicated =
            |method: Method, path: &str| index.routes().is_replicated(&method, path);
        for path in [
            "/v1/config",
            "/v1/namespaces",
            "/v1/wh/namespaces/ns/tables/t",
            "/v1/namespaces/ns/tables/t/credentials",
            "/v1/namespaces/ns/views",
            "/v1/namespaces/ns/functions/f",
        ] {
            assert!(is_replicated(Method::GET, path), "{path}");
            assert!(is_replicated(Method::HEAD, path), "{path}");
            assert!(!is_replicated(Method::POST, path), "{path}");
        }
        let plan = |part| format!("/v1/namespaces/ns/tables/t/{part}");
        for (method, part) in [
            (Method::POST, "plan"),
            (Method::GET, "plan/id"),
            (Method::DELETE, "plan/id"),
            (Method::POST, "tasks"),
            (Method::POST, "sign"),
        ] {
            let path = plan(part);
            assert!(is_replicated(method, &path), "{path}");
        }
        for path in [&plan("metrics"), "/management/v1/jobs", "/metrics"] {
            assert!(!is_replicated(Method::GET, path), "{path}");
            assert!(!is_replicated(Method::POST, path), "{path}");
        }
    }

    #[test]
    fn other_changes_are_never_repeated() {
        for path in [
            "/management/v1/api-keys",
            "/management/v1/checkpoints",
            "/management/v1/cluster/pause",
            "/management/v1/cluster/transfer",
            "/management/v1/of-a-later-version",
        ] {
            assert_eq!(repeatability(&Method::POST, path), Repeatability::Never, "{path}");
        }
    }
}

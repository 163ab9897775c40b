//! All routes, on one page.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;

use super::admission::{Admission, shed_load};
use super::error::ApiError;
use super::iceberg::{config, metrics, namespaces, table_commit, tables, transactions, views};
use super::ops::{health, metrics as counters};
use super::state::ApiState;
use crate::catalog;

/// What `GET /v1/config` tells clients to be served: the routes of `catalog_routes` that a client
/// chooses by, in the specification's own spelling.
pub const ENDPOINTS: [&str; 25] = [
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

/// The whole server.
pub fn router(state: ApiState) -> Router {
    let admission = Arc::new(Admission::new(&state.settings));
    Router::new()
        .route("/v1/config", get(config::get_config))
        .nest("/v1", catalog_routes())
        .nest("/v1/{prefix}", catalog_routes())
        .layer(from_fn_with_state(admission, shed_load))
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/metrics", get(counters::metrics))
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(state)
}

/// What a warehouse serves, with its name as a prefix or, for the default one, without.
fn catalog_routes() -> Router<ApiState> {
    Router::new()
        .route("/namespaces", get(namespaces::list).post(namespaces::create))
        .route(
            "/namespaces/{namespace}",
            get(namespaces::load).head(namespaces::exists).delete(namespaces::drop),
        )
        .route("/namespaces/{namespace}/properties", post(namespaces::update_properties))
        .route("/namespaces/{namespace}/tables", get(tables::list).post(tables::create))
        .route("/namespaces/{namespace}/register", post(tables::register))
        .route(
            "/namespaces/{namespace}/tables/{table}",
            get(tables::load).head(tables::exists).post(table_commit::commit).delete(tables::drop),
        )
        .route("/namespaces/{namespace}/tables/{table}/unregister", post(tables::unregister))
        .route("/namespaces/{namespace}/tables/{table}/metrics", post(metrics::report))
        .route("/tables/rename", post(tables::rename))
        .route("/transactions/commit", post(transactions::commit))
        .route("/namespaces/{namespace}/views", get(views::list).post(views::create))
        .route("/namespaces/{namespace}/register-view", post(views::register))
        .route(
            "/namespaces/{namespace}/views/{view}",
            get(views::load).head(views::exists).post(views::commit).delete(views::drop),
        )
        .route("/views/rename", post(views::rename))
}

async fn no_such_route(method: Method, uri: Uri) -> ApiError {
    let message = format!("No route for request: {method} {}", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "NotFoundException", message)
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("No route for request: {method} {}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "UnsupportedOperationException", message)
}

fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no text");
    ApiError::from(catalog::Error::internal(format!("panic: {text}"))).into_response()
}

//! `GET /management/v1/openapi.json`.

use axum::http::header;
use axum::response::IntoResponse;

/// The OpenAPI document, as published in `docs`.
const DOCUMENT: &str = include_str!("../../../docs/openapi/management.json");

/// Returns the OpenAPI document without authentication: it reveals nothing about the catalog.
pub async fn document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT)
}

//! `GET /management/v1/openapi.json`.

use axum::http::header;
use axum::response::IntoResponse;

/// The document, as it stands in `docs`.
const DOCUMENT: &str = include_str!("../../../docs/openapi/management.json");

/// Gives everybody the document of this API: it says nothing of what is behind it.
pub async fn document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT)
}

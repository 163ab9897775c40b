//! `GET /metrics`: counters, in Prometheus' text format.

use std::fmt::Write;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::api::state::ApiState;
use crate::catalog::version_cache::Usage;

/// All counters.
pub async fn metrics(State(state): State<ApiState>) -> impl IntoResponse {
    let mut text = state.counters.render();
    render_cache(&mut text, state.catalog.version_cache_usage());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

/// How the cache of ready versions is used: hits / (hits + misses) is its hit ratio.
fn render_cache(text: &mut String, usage: Usage) {
    let Usage { hits, misses, bytes } = usage;
    // Writing into memory cannot fail.
    let _ = write!(
        text,
        "# HELP slateberg_version_cache_requests_total Versions of tables and views asked of the cache.\n\
         # TYPE slateberg_version_cache_requests_total counter\n\
         slateberg_version_cache_requests_total{{result=\"hit\"}} {hits}\n\
         slateberg_version_cache_requests_total{{result=\"miss\"}} {misses}\n\
         # HELP slateberg_version_cache_bytes Bytes of versions that the cache keeps, about.\n\
         # TYPE slateberg_version_cache_bytes gauge\n\
         slateberg_version_cache_bytes {bytes}\n"
    );
}

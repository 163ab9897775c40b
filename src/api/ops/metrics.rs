//! `GET /metrics`: counters, in Prometheus' text format.

use std::fmt::Write;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::api::state::ApiState;
use crate::telemetry::cache::CacheUsage;

/// All counters.
pub async fn metrics(State(state): State<ApiState>) -> impl IntoResponse {
    let catalog = &state.catalog;
    let versions = catalog.version_cache_usage();
    let (records, pages) = (catalog.record_cache_usage(), catalog.page_cache_usage());
    let mut text = state.counters.render();
    text.push_str(&catalog.job_counters().render());
    render_cache(&mut text, "version", "Versions of tables and views", versions);
    render_cache(&mut text, "answer", "Answers to loadTable", state.answers.usage());
    render_cache(&mut text, "record", "Names and small records", records);
    render_cache(&mut text, "page", "Pages of names", pages);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

/// How a cache is used: hits / (hits + misses) is its hit ratio.
fn render_cache(text: &mut String, cache: &str, what: &str, usage: CacheUsage) {
    let CacheUsage { hits, misses, bytes } = usage;
    let requests = format!("slateberg_{cache}_cache_requests_total");
    let kept = format!("slateberg_{cache}_cache_bytes");
    // Writing into memory cannot fail.
    let _ = write!(
        text,
        "# HELP {requests} {what} asked of the cache.\n\
         # TYPE {requests} counter\n\
         {requests}{{result=\"hit\"}} {hits}\n\
         {requests}{{result=\"miss\"}} {misses}\n\
         # HELP {kept} Bytes that the cache keeps, about.\n\
         # TYPE {kept} gauge\n\
         {kept} {bytes}\n"
    );
}

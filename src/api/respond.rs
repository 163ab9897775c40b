//! Answers that hold metadata: put together out of ready JSON, without parsing it.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::catalog::tabulars::TabularState;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Which snapshots an answer holds (the query parameter `snapshots`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotMode {
    /// Every one.
    All,
    /// Those that a branch or tag points to.
    Refs,
}

impl SnapshotMode {
    fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Refs => "refs",
        }
    }
}

/// The ETag of a state: differs with every version and every way to show it.
pub fn etag(state: &TabularState, mode: SnapshotMode) -> String {
    format!("{}-{}-{}", state.id.simple(), state.version, mode.word())
}

/// Whether the client holds this representation already. Tags may come weak, quoted, bare or in a list.
pub fn client_has(headers: &HeaderMap, etag: &str) -> bool {
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|tag| tag.trim().trim_start_matches("W/").trim_matches('"'))
        .any(|tag| tag == etag || tag == "*")
}

/// 304, with the tag that still holds.
pub fn not_modified(etag: &str) -> Response {
    (StatusCode::NOT_MODIFIED, [(header::ETAG, quoted(etag))]).into_response()
}

/// A `LoadTableResult`, or with an empty configuration a `LoadViewResult`.
pub fn load_result(state: &TabularState, etag: Option<&str>) -> Response {
    let mut response = metadata_body(state, br#","config":{}}"#).into_response();
    tag(&mut response, etag);
    response
}

/// A `CommitTableResponse` or an `UnregisterTableResult`.
pub fn commit_result(state: &TabularState, etag: Option<&str>) -> Response {
    let mut response = metadata_body(state, b"}").into_response();
    tag(&mut response, etag);
    response
}

fn tag(response: &mut Response, etag: Option<&str>) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, JSON);
    if let Some(etag) = etag {
        headers.insert(header::ETAG, quoted(etag));
    }
}

fn quoted(etag: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{etag}\"")).expect("tags are made of hexadecimal and words")
}

fn metadata_body(state: &TabularState, tail: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(state.json.len() + 512);
    body.push(b'{');
    if let Some(location) = &state.metadata_location {
        body.extend_from_slice(br#""metadata-location":"#);
        serde_json::to_writer(&mut body, location).expect("text is JSON");
        body.push(b',');
    }
    body.extend_from_slice(br#""metadata":"#);
    body.extend_from_slice(&state.json);
    body.extend_from_slice(tail);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_known_in_every_spelling() {
        for value in ["\"x-1-all\"", "x-1-all", "W/\"x-1-all\"", "\"a\", \"x-1-all\"", "*"] {
            let headers = HeaderMap::from_iter([(
                header::IF_NONE_MATCH,
                HeaderValue::from_str(value).expect("a header value"),
            )]);
            assert!(client_has(&headers, "x-1-all"), "{value}");
            assert!(value == "*" || !client_has(&headers, "x-2-all"), "{value}");
        }
    }
}

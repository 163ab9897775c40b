//! Answers that hold metadata: put together out of ready JSON, without parsing it, and where it is long
//! without copying it.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use uuid::Uuid;

use crate::catalog::tabulars::TabularState;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Up to so many bytes of metadata are copied into one buffer, which costs less than several.
const COPIED_BYTES_MAX: usize = 64 << 10;

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
    etag_of(state.id, state.version, mode)
}

/// The ETag of a version of a table, which the version alone tells.
pub fn etag_of(id: Uuid, version: u64, mode: SnapshotMode) -> String {
    format!("{}-{version}-{}", id.simple(), mode.word())
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
    let mut response = metadata_answer(state, br#","config":{}}"#);
    tag(&mut response, etag);
    response
}

/// A `CommitTableResponse` or an `UnregisterTableResult`.
pub fn commit_result(state: &TabularState, etag: Option<&str>) -> Response {
    let mut response = metadata_answer(state, b"}");
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

/// The answer with the metadata between its location and `tail`.
fn metadata_answer(state: &TabularState, tail: &'static [u8]) -> Response {
    let text = &state.text;
    let copied = text.len() <= COPIED_BYTES_MAX;
    let mut head = Vec::with_capacity(512 + if copied { text.len() } else { 0 });
    head.push(b'{');
    if let Some(location) = &state.metadata_location {
        head.extend_from_slice(br#""metadata-location":"#);
        serde_json::to_writer(&mut head, location).expect("text is JSON");
        head.push(b',');
    }
    head.extend_from_slice(br#""metadata":"#);
    if copied {
        text.parts().for_each(|part| head.extend_from_slice(part));
        head.extend_from_slice(tail);
        return head.into_response();
    }
    let length = head.len() + text.len() + tail.len();
    let mut parts = Vec::with_capacity(text.segments().len() + 2);
    parts.push(Bytes::from(head));
    parts.extend(text.parts().cloned());
    parts.push(Bytes::from_static(tail));
    let body = Body::from_stream(stream::iter(parts.into_iter().map(Ok::<_, Infallible>)));
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::text::{Piece, Segment, Text};

    #[tokio::test]
    async fn a_long_text_is_answered_in_its_parts_and_says_its_length() {
        let long = "7,".repeat(COPIED_BYTES_MAX);
        for list in ["", "1,", long.as_str()] {
            let segments = [("[", false), (list, true), ("2]", false)].map(|(part, is_piece)| {
                let bytes = Bytes::copy_from_slice(part.as_bytes());
                if is_piece { Segment::Piece(Piece::new(bytes)) } else { Segment::Inline(bytes) }
            });
            let state = TabularState {
                id: Uuid::nil(),
                version: 1,
                metadata_location: Some("s3://b/\"m\"".to_owned()),
                text: Text::new(segments.into()),
            };
            let response = commit_result(&state, Some("x"));
            let expected =
                format!(r#"{{"metadata-location":"s3://b/\"m\"","metadata":[{list}2]}}"#);
            let length = response.headers().get(header::CONTENT_LENGTH).cloned();
            assert!(length.is_none_or(|length| length == expected.len().to_string()));
            assert_eq!(response.headers()[header::CONTENT_TYPE], JSON);
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
            assert_eq!(body.expect("it is in memory"), expected);
        }
    }

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

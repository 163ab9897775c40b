//! Answers that hold metadata: put together out of ready JSON, without parsing it, and where it is long
//! without copying it.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use uuid::Uuid;

use super::files::FilesTold;
use super::tag::{Shown, SnapshotMode, Tag};
use slateberg_catalog::TabularState;
use slateberg_catalog::{ReadAccess, ReadVersion, Readable};

/// The header of answers with a secret in them: nobody on the way keeps one.
pub const NO_STORE: [(HeaderName, HeaderValue); 1] =
    [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What ends a `LoadTableResult` for whoever may read all of the table and has not asked how to get at its
/// files, and every `LoadViewResult`.
const LOAD_TAIL: &[u8] = br#","config":{}}"#;

/// About so many bytes stand before the metadata.
const HEAD_BYTES: usize = 512;

/// Up to so many bytes are copied into one buffer, which costs less than several.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// An answer that was just made, uncompressed.
pub struct Fresh {
    /// Its body: these parts, one behind the other.
    pub parts: Vec<Bytes>,
    /// Its tag; none if it tells how to get at files, which nobody may keep.
    pub tag: Option<Tag>,
}

impl Fresh {
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }
}

/// The tag of a state with all of its snapshots, for whoever may read all of it.
pub fn tag_of(timeline: Option<Uuid>, state: &TabularState) -> Tag {
    let version = ReadVersion { id: state.id, version: state.version, rules: None };
    Tag::new(Shown { timeline, version, mode: SnapshotMode::All })
}

/// 304, with the tag that still holds.
pub fn not_modified(tag: &Tag) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    response.headers_mut().insert(header::ETAG, tag.value().clone());
    response
}

/// A `LoadTableResult` for whoever made the table. What is only staged has no tag, and neither has what tells
/// how to get at files.
pub fn made_result(timeline: Option<Uuid>, made: &Readable, files: Option<FilesTold>) -> Response {
    if let Some(files) = files {
        return (NO_STORE, in_parts(parts(&made.state, files.tail), None)).into_response();
    }
    let published = made.state.metadata_location.is_some();
    let shown = Shown { timeline, version: made.version(), mode: SnapshotMode::All };
    let tag = published.then(|| Tag::new(shown));
    in_parts(parts(&made.state, load_tail(&made.access)), tag.as_ref())
}

/// A `LoadTableResult` in its parts, to be kept.
pub fn fresh_load_result(loaded: &Readable, shown: Shown, files: Option<FilesTold>) -> Fresh {
    match files {
        Some(files) => Fresh { parts: parts(&loaded.state, files.tail), tag: None },
        None => {
            let tail = load_tail(&loaded.access);
            Fresh { parts: parts(&loaded.state, tail), tag: Some(Tag::new(shown)) }
        }
    }
}

/// A `LoadViewResult`.
pub fn view_result(state: &TabularState) -> Response {
    metadata_answer(state, LOAD_TAIL, None)
}

/// What ends a `LoadTableResult` for whoever is told nothing of how to get at the table's files, as everybody
/// who may read a part of it only. The others are told in [`super::files`].
fn load_tail(access: &ReadAccess) -> Bytes {
    match access {
        ReadAccess::Whole => Bytes::from_static(LOAD_TAIL),
        ReadAccess::Restricted(_, restrictions) => {
            let restrictions = restrictions.to_json();
            format!(r#","config":{{}},"read-restrictions":{restrictions}}}"#).into()
        }
    }
}

/// A `CommitTableResponse` or an `UnregisterTableResult`.
pub fn commit_result(state: &TabularState, tag: Option<&Tag>) -> Response {
    metadata_answer(state, b"}", tag)
}

/// 200 with JSON, and its tag if it has one.
pub fn tagged_json(body: Body, tag: Option<&Tag>) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, JSON);
    if let Some(tag) = tag {
        headers.insert(header::ETAG, tag.value().clone());
    }
    response
}

/// What stands before the metadata.
fn head(state: &TabularState) -> Bytes {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.push(b'{');
    if let Some(location) = &state.metadata_location {
        head.extend_from_slice(br#""metadata-location":"#);
        serde_json::to_writer(&mut head, location).expect("text is JSON");
        head.push(b',');
    }
    head.extend_from_slice(br#""metadata":"#);
    head.into()
}

/// The body with the metadata between its location and `tail`.
fn parts(state: &TabularState, tail: Bytes) -> Vec<Bytes> {
    let mut parts = Vec::with_capacity(state.text.segments().len() + 2);
    parts.push(head(state));
    parts.extend(state.text.parts().cloned());
    parts.push(tail);
    parts
}

/// The answer with the metadata between its location and `tail`.
fn metadata_answer(state: &TabularState, tail: &'static [u8], tag: Option<&Tag>) -> Response {
    in_parts(parts(state, Bytes::from_static(tail)), tag)
}

/// 200 with these parts of JSON, one behind the other, and its tag if it has one.
pub fn in_parts(parts: Vec<Bytes>, tag: Option<&Tag>) -> Response {
    let length: usize = parts.iter().map(Bytes::len).sum();
    if length <= COPIED_BYTES_MAX {
        return tagged_json(parts.concat().into(), tag);
    }
    let body = Body::from_stream(stream::iter(parts.into_iter().map(Ok::<_, Infallible>)));
    let mut response = tagged_json(body, tag);
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use slateberg_model::text::{Piece, Segment, Text};

    #[tokio::test]
    async fn a_long_text_is_answered_in_its_parts_and_says_its_length() {
        let long = "7,".repeat(COPIED_BYTES_MAX);
        let version = ReadVersion { id: Uuid::nil(), version: 1, rules: None };
        let tag = Tag::new(Shown { timeline: None, version, mode: SnapshotMode::All });
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
            let response = commit_result(&state, Some(&tag));
            let expected =
                format!(r#"{{"metadata-location":"s3://b/\"m\"","metadata":[{list}2]}}"#);
            let length = response.headers().get(header::CONTENT_LENGTH).cloned();
            assert!(length.is_none_or(|length| length == expected.len().to_string()));
            assert_eq!(response.headers()[header::CONTENT_TYPE], JSON);
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
            assert_eq!(body.expect("it is in memory"), expected);
        }
    }
}

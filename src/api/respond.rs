//! Renders responses with the metadata of tables and views. The stored JSON in a response is not
//! parsed. In a long response, it is not copied either.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use uuid::Uuid;

use super::coding::{Coding, PlainBody};
use super::delegation::DelegationConfig;
use super::etag::{ETag, Representation, SnapshotMode};
use super::scan_planning_mode::ScanPlanningMode;
use super::wire::labels::loaded_labels;
use slateberg_catalog::TabularState;
use slateberg_catalog::labels::LabelsRecord;
use slateberg_catalog::{ReadAccess, ReadVersion, Readable};

/// The header of responses with a secret: caches must not store them.
pub const NO_STORE: [(HeaderName, HeaderValue); 1] =
    [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The end of every `LoadViewResult`, and of a `LoadTableResult` that has neither file access nor
/// read restrictions.
const LOAD_TAIL: &[u8] = br#","config":{}}"#;

/// Expected size of the JSON before the metadata, in bytes.
const HEAD_BYTES: usize = 512;

/// Bodies of at most this size are copied into one buffer, which is faster than sending several
/// buffers.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// A new, uncompressed response.
pub struct RenderedResponse {
    /// The body.
    pub body: PlainBody,
    /// The ETag. `None` for a response with file access, which must not be cached.
    pub tag: Option<ETag>,
}

impl RenderedResponse {
    /// A response with the metadata location, the metadata, and `tail`.
    fn new(state: &TabularState, tail: Bytes, tag: Option<ETag>) -> Self {
        Self { body: PlainBody { head: head(state), document: state.text.clone(), tail }, tag }
    }
}

impl IntoResponse for RenderedResponse {
    fn into_response(self) -> Response {
        response_from_parts(Coding::Identity.encode(&self.body), self.tag.as_ref())
    }
}

/// The ETag of a table's state with all snapshots, for callers without read restrictions.
pub fn unrestricted_etag(timeline: Option<Uuid>, state: &TabularState) -> ETag {
    let version = ReadVersion { id: state.id, version: state.version, rules: None, labels: None };
    ETag::new(Representation { timeline, version, mode: SnapshotMode::All, planning: None })
}

/// Responds with 304 and the client's tag.
pub fn not_modified(tag: &ETag) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    response.headers_mut().insert(header::ETAG, tag.value().clone());
    response
}

/// A `LoadTableResult` for the creator of a table. A staged table and a response with file access
/// have no tag.
pub fn create_result(
    timeline: Option<Uuid>,
    created: &Readable,
    delegation: Option<DelegationConfig>,
    planning: Option<ScanPlanningMode>,
) -> Response {
    if let Some(delegation) = delegation {
        let tail = with_restrictions(&created.access, delegation.tail);
        let tail = with_planning(created, tail, planning);
        return (NO_STORE, RenderedResponse::new(&created.state, tail, None)).into_response();
    }
    let published = created.state.metadata_location.is_some();
    let representation =
        Representation { timeline, version: created.version(), mode: SnapshotMode::All, planning };
    let tag = published.then(|| ETag::new(representation));
    let tail = with_restrictions(&created.access, Bytes::from_static(LOAD_TAIL));
    let tail = with_planning(created, tail, planning);
    RenderedResponse::new(&created.state, tail, tag).into_response()
}

/// A `LoadTableResult`, for the cache.
pub fn load_result(
    loaded: &Readable,
    representation: Representation,
    delegation: Option<DelegationConfig>,
) -> RenderedResponse {
    let (tail, tag) = match delegation {
        Some(delegation) => (delegation.tail, None),
        None => (Bytes::from_static(LOAD_TAIL), Some(ETag::new(representation))),
    };
    let tail = with_restrictions(&loaded.access, tail);
    let tail = with_labels(loaded.labels.as_deref(), tail);
    let tail = with_planning(loaded, tail, representation.planning);
    RenderedResponse::new(&loaded.state, tail, tag)
}

/// Adds the mode of scan planning to the end of a `LoadTableResult`.
fn with_planning(table: &Readable, tail: Bytes, of_warehouse: Option<ScanPlanningMode>) -> Bytes {
    let mode = ScanPlanningMode::of(&table.state, &table.access, of_warehouse);
    ScanPlanningMode::added_to(mode, tail)
}

/// A `LoadViewResult` for the creator of a view or of a new version of it.
pub fn view_result(state: &TabularState) -> Response {
    RenderedResponse::new(state, Bytes::from_static(LOAD_TAIL), None).into_response()
}

/// A `LoadViewResult` with the labels of the view.
pub fn loaded_view_result(loaded: &Readable) -> Response {
    let tail = with_labels(loaded.labels.as_deref(), Bytes::from_static(LOAD_TAIL));
    RenderedResponse::new(&loaded.state, tail, None).into_response()
}

/// Adds labels to the end of a result. A result without labels has no such member.
fn with_labels(labels: Option<&LabelsRecord>, tail: Bytes) -> Bytes {
    let Some(labels) = labels else { return tail };
    let members = tail.strip_suffix(b"}").unwrap_or(&tail);
    let end = format!(r#","labels":{}}}"#, loaded_labels(labels));
    [members, end.as_bytes()].concat().into()
}

/// Adds the read restrictions to the end of a `LoadTableResult`. [`super::delegation`] renders the
/// end of results with file access.
fn with_restrictions(access: &ReadAccess, tail: Bytes) -> Bytes {
    let ReadAccess::Restricted { restrictions, .. } = access else { return tail };
    let members = tail.strip_suffix(b"}").unwrap_or(&tail);
    let end = format!(r#","read-restrictions":{}}}"#, restrictions.to_json());
    [members, end.as_bytes()].concat().into()
}

/// A `CommitTableResponse` or an `UnregisterTableResult`.
pub fn commit_result(state: &TabularState, tag: Option<ETag>) -> RenderedResponse {
    RenderedResponse::new(state, Bytes::from_static(b"}"), tag)
}

/// Responds with 200, JSON, and the tag if there is one.
pub fn tagged_json(body: Body, tag: Option<&ETag>) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, JSON);
    if let Some(tag) = tag {
        headers.insert(header::ETAG, tag.value().clone());
    }
    response
}

/// The JSON before the metadata.
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

/// Responds with 200, these consecutive parts of JSON, and the tag if there is one. The parts may
/// be compressed together.
pub fn response_from_parts(parts: Vec<Bytes>, tag: Option<&ETag>) -> Response {
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
    use slateberg_model::segmented_json::{Chunk, Segment, SegmentedJson};

    #[tokio::test]
    async fn long_metadata_is_sent_in_parts_with_its_content_length() {
        let long = "7,".repeat(COPIED_BYTES_MAX);
        let version = ReadVersion { id: Uuid::nil(), version: 1, rules: None, labels: None };
        let (mode, planning) = (SnapshotMode::All, None);
        let tag = ETag::new(Representation { timeline: None, version, mode, planning });
        for list in ["", "1,", long.as_str()] {
            let segments = [("[", false), (list, true), ("2]", false)].map(|(part, is_chunk)| {
                let bytes = Bytes::copy_from_slice(part.as_bytes());
                if is_chunk { Segment::Chunk(Chunk::new(bytes)) } else { Segment::Inline(bytes) }
            });
            let state = TabularState {
                id: Uuid::nil(),
                version: 1,
                metadata_location: Some("s3://b/\"m\"".to_owned()),
                text: SegmentedJson::new(segments.into()),
            };
            let response = commit_result(&state, Some(tag.clone())).into_response();
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

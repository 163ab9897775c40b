//! Compressed responses (`Accept-Encoding`): negotiation and content.

use std::io::Read;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, header};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::app::TestApp;
use crate::support::table::{append, main_is, set_property};

const TABLE: &str = "/v1/namespaces/ns/tables/t";
/// Size of metadata that is compressed immediately, and size of metadata that is compressed on a
/// separate thread and sent in chunks.
const LONG: usize = 20_000;
const VERY_LONG: usize = 2_000_000;

/// The response to a load, with the body's bytes as received.
struct Loaded {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Loaded {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("headers are ASCII here"))
    }

    /// Returns the decoded body.
    fn json(&self) -> Value {
        let text = match self.header(header::CONTENT_ENCODING) {
            "" => self.body.clone(),
            "gzip" => {
                let mut text = Vec::new();
                GzDecoder::new(self.body.as_slice()).read_to_end(&mut text).expect("it is gzip");
                text
            }
            "zstd" => zstd::decode_all(self.body.as_slice()).expect("it is zstd"),
            other => panic!("unknown coding {other}"),
        };
        serde_json::from_slice(&text).expect("the body is JSON")
    }
}

async fn load(app: &TestApp, path: &str, headers: &[(header::HeaderName, &str)]) -> Loaded {
    let mut request = Request::builder().uri(path).header(header::HOST, "localhost");
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    send(app, request.body(Body::empty()).expect("test requests are valid")).await
}

/// Commits as a client that accepts this coding.
async fn commit_taking(app: &TestApp, coding: &str, updates: Vec<Value>) -> Loaded {
    let request = Request::post(TABLE)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT_ENCODING, coding);
    let body = json!({ "requirements": [], "updates": updates }).to_string();
    let committed = send(app, request.body(body.into()).expect("test requests are valid")).await;
    assert_eq!(committed.status, 200);
    committed
}

async fn send(app: &TestApp, request: Request<Body>) -> Loaded {
    let response = app.router.clone().oneshot(request).await.expect("the router is infallible");
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("the body is in memory").to_vec();
    Loaded { status: parts.status.as_u16(), headers: parts.headers, body }
}

async fn load_taking(app: &TestApp, coding: &str) -> Loaded {
    let loaded = load(app, TABLE, &[(header::ACCEPT_ENCODING, coding)]).await;
    assert_eq!(loaded.status, 200);
    loaded
}

async fn with_long_table(bytes: usize) -> TestApp {
    let app = TestApp::with_table().await;
    lengthen(&app, bytes, "a").await;
    app
}

async fn lengthen(app: &TestApp, bytes: usize, letter: &str) {
    let update = set_property("long", &letter.repeat(bytes));
    app.commit("ns", "t", vec![], vec![update]).await.expect(200);
}

#[tokio::test]
async fn long_table_is_equal_in_every_coding() {
    for bytes in [LONG, VERY_LONG] {
        let app = with_long_table(bytes).await;
        let plain = load(&app, TABLE, &[]).await;
        assert_eq!(plain.header(header::CONTENT_ENCODING), "");
        assert_eq!(plain.header(header::VARY), "accept-encoding");
        assert!(plain.body.len() > bytes);
        // The second response of each coding comes from the cache.
        for (taken, coding) in [("gzip", "gzip"), ("gzip", "gzip"), ("zstd", "zstd"), ("*", "zstd")]
        {
            let compressed = load_taking(&app, taken).await;
            assert_eq!(compressed.header(header::CONTENT_ENCODING), coding);
            assert_eq!(compressed.header(header::VARY), "accept-encoding");
            assert_eq!(compressed.header(header::CONTENT_TYPE), "application/json");
            assert!(compressed.body.len() < bytes / 10);
            assert_eq!(compressed.json(), plain.json());
        }
        for taken in ["identity", "gzip;q=0", "br"] {
            let same = load_taking(&app, taken).await;
            assert_eq!((same.header(header::CONTENT_ENCODING), &same.body), ("", &plain.body));
        }
    }
}

#[tokio::test]
async fn short_table_is_sent_uncompressed() {
    let app = TestApp::with_table().await;
    let loaded = load_taking(&app, "gzip, zstd").await;
    assert_eq!(loaded.header(header::CONTENT_ENCODING), "");
    assert_eq!(loaded.header(header::VARY), "accept-encoding");
    let from_one_byte_on =
        TestApp::with_settings(|settings| settings.server.compression_bytes_min = 1).await;
    from_one_byte_on.create_namespace(&["ns"]).await;
    from_one_byte_on.create_table("ns", "t").await;
    let compressed = load_taking(&from_one_byte_on, "gzip, zstd").await;
    assert_eq!(compressed.header(header::CONTENT_ENCODING), "zstd");
}

#[tokio::test]
async fn response_too_large_for_the_cache_is_not_compressed() {
    let app = TestApp::with_settings(|settings| settings.server.answer_cache_bytes = 1).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    lengthen(&app, LONG, "a").await;
    assert_eq!(load_taking(&app, "gzip").await.header(header::CONTENT_ENCODING), "");
}

#[tokio::test]
async fn etag_of_a_compressed_table_is_valid_in_every_coding() {
    let app = with_long_table(LONG).await;
    let (plain, gzip) = (load(&app, TABLE, &[]).await, load_taking(&app, "gzip").await);
    let strong = plain.header(header::ETAG).to_owned();
    let weak = gzip.header(header::ETAG).to_owned();
    assert!(strong.starts_with('"'), "{strong}");
    assert_eq!(weak, format!("W/{strong}"), "the tag is weak, because the bytes differ");
    for known in [&strong, &weak] {
        for (taken, expected) in [("identity", &strong), ("gzip", &weak), ("zstd", &weak)] {
            let headers = [(header::ACCEPT_ENCODING, taken), (header::IF_NONE_MATCH, known)];
            let unchanged = load(&app, TABLE, &headers).await;
            assert_eq!((unchanged.status, unchanged.body.len()), (304, 0), "{known} {taken}");
            assert_eq!(unchanged.header(header::ETAG), expected);
            assert_eq!(unchanged.header(header::VARY), "accept-encoding");
            let refs = load(&app, &format!("{TABLE}?snapshots=refs"), &headers).await;
            assert_eq!(refs.status, 200, "the tag is not valid for another snapshot mode");
        }
    }
    lengthen(&app, LONG, "b").await;
    let headers = [(header::ACCEPT_ENCODING, "gzip"), (header::IF_NONE_MATCH, &weak)];
    let changed = load(&app, TABLE, &headers).await;
    assert_eq!(changed.status, 200);
    assert_eq!(changed.json()["metadata"]["properties"]["long"], "b".repeat(LONG));
}

#[tokio::test]
async fn concurrent_loads_share_one_compression() {
    let app = with_long_table(VERY_LONG).await;
    let loads = (0..32).map(|_| load_taking(&app, "gzip"));
    let loaded = futures::future::join_all(loads).await;
    assert!(loaded.iter().all(|one| one.header(header::CONTENT_ENCODING) == "gzip"));
    assert!(loaded.iter().all(|one| one.body == loaded[0].body));
}

/// Returns a table with a long history. Its older snapshots are in chunks.
async fn with_long_history() -> TestApp {
    let app = TestApp::with_table().await;
    let mut updates = Vec::new();
    for id in 1..=SNAPSHOTS {
        updates.extend(append(id, (id > 1).then(|| id - 1), id));
    }
    app.commit("ns", "t", vec![main_is(None)], updates).await.expect(200);
    app
}

const SNAPSHOTS: i64 = 200;

#[tokio::test]
async fn table_with_chunks_is_equal_in_every_coding_and_gzip_is_preferred() {
    let app = with_long_history().await;
    let plain = load(&app, TABLE, &[]).await.json();
    assert_eq!(plain["metadata"]["snapshots"].as_array().map(Vec::len), Some(200));
    for (taken, coding) in
        [("gzip, zstd", "gzip"), ("zstd", "zstd"), ("gzip;q=0.5, zstd", "zstd"), ("gzip", "gzip")]
    {
        // The first load caches the uncompressed response, so each load needs a version of its own.
        set(&app, "coding", taken).await;
        let loaded = load_taking(&app, taken).await;
        assert_eq!(loaded.header(header::CONTENT_ENCODING), coding, "{taken}");
        assert_eq!(loaded.json()["metadata"]["snapshots"], plain["metadata"]["snapshots"]);
        assert_eq!(loaded.json()["metadata"]["properties"]["coding"], taken);
    }
}

async fn set(app: &TestApp, key: &str, value: &str) {
    app.commit("ns", "t", vec![], vec![set_property(key, value)]).await.expect(200);
}

#[tokio::test]
async fn response_to_a_commit_is_compressed_if_the_table_has_chunks() {
    let app = with_long_history().await;
    for (number, taken) in ["gzip", "gzip, deflate, br, zstd", "gzip"].into_iter().enumerate() {
        let update = set_property("number", &number.to_string());
        let committed = commit_taking(&app, taken, vec![update]).await;
        assert_eq!(committed.header(header::CONTENT_ENCODING), "gzip");
        assert_eq!(committed.header(header::VARY), "accept-encoding");
        assert_eq!(committed.header(header::CONTENT_TYPE), "application/json");
        let loaded = load(&app, TABLE, &[]).await;
        let weak = format!("W/{}", loaded.header(header::ETAG));
        assert_eq!(committed.header(header::ETAG), weak, "a load has the strong tag");
        let (committed, loaded) = (committed.json(), loaded.json());
        assert_eq!(committed["metadata"]["properties"]["number"], number.to_string());
        for member in ["metadata", "metadata-location"] {
            assert_eq!(committed[member], loaded[member], "{member}");
        }
    }
    for taken in ["identity", "zstd", "gzip;q=0"] {
        let committed = commit_taking(&app, taken, vec![set_property("taken", taken)]).await;
        assert_eq!(committed.header(header::CONTENT_ENCODING), "", "{taken}");
        assert_eq!(committed.json()["metadata"]["properties"]["taken"], taken);
    }
}

#[tokio::test]
async fn response_to_a_commit_without_chunks_is_not_compressed() {
    let app = TestApp::with_table().await;
    for bytes in [1, LONG] {
        let update = set_property("long", &"a".repeat(bytes));
        let committed = commit_taking(&app, "gzip", vec![update]).await;
        assert_eq!(committed.header(header::CONTENT_ENCODING), "");
        assert_eq!(committed.header(header::VARY), "");
        assert!(committed.header(header::ETAG).starts_with('"'));
    }
}

#[tokio::test]
async fn compressed_metadata_file_of_a_long_history_has_its_metadata() {
    let app = with_long_history().await;
    set(&app, "write.metadata.compression-codec", "gzip").await;
    let loaded = load(&app, TABLE, &[]).await.json();
    let location = loaded["metadata-location"].as_str().expect("a location");
    let file = app.file(location).await.expect("the file");
    let mut text = Vec::new();
    GzDecoder::new(file.as_slice()).read_to_end(&mut text).expect("it is gzip");
    let metadata: Value = serde_json::from_slice(&text).expect("it is JSON");
    assert_eq!(metadata, loaded["metadata"]);
}

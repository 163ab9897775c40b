//! Registration: of metadata files, over existing tables, and again after an unregistration.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::app::TestApp;
use crate::support::table::{append, set_property};

const REGISTER: &str = "/v1/namespaces/ns/register";
const TABLE: &str = "/v1/namespaces/ns/tables/t";

async fn location(app: &TestApp, path: &str) -> String {
    let loaded = app.get(path).await.expect(200);
    loaded.body["metadata-location"].as_str().expect("a location").to_owned()
}

fn register(name: &str, location: &str) -> Value {
    json!({ "name": name, "metadata-location": location })
}

fn overwrite(name: &str, location: &str) -> Value {
    json!({ "name": name, "metadata-location": location, "overwrite": true })
}

#[tokio::test]
async fn table_is_registered_from_its_metadata_file() {
    let app = TestApp::with_table().await;
    app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    let before = app.get(TABLE).await.expect(200);
    let file = location(&app, TABLE).await;
    app.delete(TABLE).await.expect(204);
    let registered = app.post(REGISTER, register("u", &file)).await.expect(200);
    assert_eq!(registered.body, before.body);
    let loaded = app.get("/v1/namespaces/ns/tables/u").await.expect(200);
    assert_eq!(loaded.body, before.body);
    assert_eq!(loaded.header("etag"), registered.header("etag"));
    assert_ne!(loaded.header("etag"), before.header("etag"));
    let committed = app.commit("ns", "u", vec![], append(2, Some(1), 2)).await.expect(200);
    let next = committed.body["metadata-location"].as_str().expect("a location");
    assert!(next.contains("/metadata/00002-"), "the file numbers continue: {next}");
}

#[tokio::test]
async fn registration_over_an_existing_name_needs_overwrite() {
    let app = TestApp::with_table_and_view().await;
    app.create_table("ns", "u").await;
    let file = location(&app, "/v1/namespaces/ns/tables/u").await;
    for body in [
        register("t", &file),
        json!({ "name": "t", "metadata-location": file, "overwrite": false }),
    ] {
        let taken = app.post_rejected(REGISTER, body).await;
        assert_eq!(taken.error(), (409, "AlreadyExistsException", "Table already exists: ns.t"));
    }
    for body in [register("v", &file), overwrite("v", &file)] {
        let view = app.post_rejected(REGISTER, body).await;
        assert_eq!(
            view.error(),
            (409, "AlreadyExistsException", "View with same name already exists: ns.v")
        );
    }
}

#[tokio::test]
async fn overwriting_registration_replaces_the_metadata() {
    let app = TestApp::with_overlapping_tables().await;
    let first = location(&app, TABLE).await;
    let created = app.get(TABLE).await.expect(200);
    let committed = app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    let back = app.post(REGISTER, overwrite("t", &first)).await.expect(200);
    assert_eq!(back.body, created.body);
    assert_ne!(back.header("etag"), created.header("etag"), "the record has another version");
    let loaded = app.get(TABLE).await.expect(200);
    assert_eq!(loaded.body, created.body);
    let again = app.post(REGISTER, overwrite("t", &first)).await.expect(200);
    assert_eq!(again.header("etag"), back.header("etag"), "the repetition changes nothing");
    let forth = committed.body["metadata-location"].as_str().expect("a location");
    app.post(REGISTER, overwrite("t", forth)).await.expect(200);
    assert_eq!(app.get(TABLE).await.expect(200).body["metadata"], committed.body["metadata"]);
    // If the table does not exist, the request registers it.
    app.post(REGISTER, overwrite("fresh", &first)).await.expect(200);
}

#[tokio::test]
async fn overwriting_registration_replaces_the_table_uuid() {
    let app = TestApp::with_table().await;
    app.create_table("ns", "u").await;
    let other = app.get("/v1/namespaces/ns/tables/u").await.expect(200);
    let file = location(&app, "/v1/namespaces/ns/tables/u").await;
    app.delete("/v1/namespaces/ns/tables/u").await.expect(204);
    app.post(REGISTER, overwrite("t", &file)).await.expect(200);
    assert_eq!(app.get(TABLE).await.expect(200).body, other.body);
    let app = app.restart().await;
    assert_eq!(app.get(TABLE).await.expect(200).body, other.body);
}

/// Another program has compressed the registered file. If slateberg wrote the file again, its bytes
/// would change.
#[tokio::test]
async fn crash_after_an_overwriting_registration_keeps_the_registered_file() {
    let app = TestApp::with_table().await;
    let mut metadata = app.get(TABLE).await.expect(200).body["metadata"].clone();
    metadata["properties"]["a"] = json!("1");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(metadata.to_string().as_bytes()).expect("memory accepts all writes");
    let content = encoder.finish().expect("memory accepts all writes");
    let file = "memory:///warehouse/foreign.gz.metadata.json";
    app.put_file(file, content.clone()).await;
    app.post(REGISTER, overwrite("t", file)).await.expect(200);
    // The first catalog is never closed, so the second catalog opens the state as after a crash.
    let opening = TestApp::on(app.bucket.clone());
    let anew = timeout(Duration::from_secs(10), opening).await.expect("the catalog opens");
    assert_eq!(anew.get(TABLE).await.expect(200).body["metadata"], metadata);
    assert_eq!(anew.file(file).await, Some(content));
}

#[tokio::test]
async fn unregistered_table_keeps_its_files_and_can_be_registered_again() {
    let app = TestApp::with_table().await;
    app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    let before = app.get(TABLE).await.expect(200);
    let path = format!("{TABLE}/unregister");
    let last = app.post(&path, Value::Null).await.expect(200);
    assert_eq!(last.body["metadata"], before.body["metadata"]);
    assert_eq!(last.body["metadata-location"], before.body["metadata-location"]);
    assert_eq!(last.body.as_object().map(serde_json::Map::len), Some(2));
    app.get(TABLE).await.expect_error(404, "NoSuchTableException");
    app.post(&path, Value::Null).await.expect_error(404, "NoSuchTableException");
    let late = app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await;
    late.expect_error(404, "NoSuchTableException");
    let file = before.body["metadata-location"].as_str().expect("a location");
    assert!(app.file(file).await.is_some());
    app.post(REGISTER, register("t", file)).await.expect(200);
    assert_eq!(app.get(TABLE).await.expect(200).body, before.body);
}

#[tokio::test]
async fn registration_of_a_missing_or_invalid_file_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    let missing = "memory:///warehouse/nope.metadata.json";
    let message = format!("Failed to open input stream for file: {missing}");
    for path in [REGISTER, "/v1/namespaces/ns/register-view"] {
        let response = app.post_rejected(path, register("x", missing)).await;
        assert_eq!(response.error(), (404, "NotFoundException", message.as_str()));
        let empty = app.post_rejected(path, register("x", "")).await;
        assert_eq!(empty.error().0, 400);
    }
    let view = location(&app, "/v1/namespaces/ns/views/v").await;
    let table = location(&app, TABLE).await;
    app.put_file("memory:///warehouse/text.metadata.json", "not JSON").await;
    app.put_file("memory:///warehouse/empty.metadata.json", "").await;
    app.put_file("memory:///warehouse/broken.gz.metadata.json", [0x1f, 0x8b, 8, 0, 1]).await;
    for wrong in ["text.metadata.json", "empty.metadata.json", "broken.gz.metadata.json"] {
        let wrong = format!("memory:///warehouse/{wrong}");
        for path in [REGISTER, "/v1/namespaces/ns/register-view"] {
            let response = app.post_rejected(path, register("x", &wrong)).await;
            assert_eq!(response.error().1, "IllegalArgumentException", "{}", response.message());
            assert!(response.message().contains(&wrong), "{}", response.message());
        }
    }
    let response = app.post_rejected(REGISTER, register("x", &view)).await;
    assert_eq!(response.error().0, 400, "a view cannot be registered as a table");
    let response =
        app.post_rejected("/v1/namespaces/ns/register-view", register("x", &table)).await;
    assert_eq!(response.error().0, 400, "a table cannot be registered as a view");
}

#[tokio::test]
async fn registration_of_a_file_that_is_too_long_compressed_or_not_is_rejected() {
    let app = TestApp::with_settings(|settings| settings.catalog.file_bytes_max = 10_000).await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let table = location(&app, TABLE).await;
    let mut short = app.file(&table).await.expect("it is there");
    app.delete(TABLE).await.expect(204);
    let long = [&short[..], &vec![b' '; 10_000]].concat();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&long).expect("it is written");
    let folded = encoder.finish().expect("it is written");
    assert!(folded.len() < 10_000);
    for (name, content, reason) in [
        ("long.metadata.json", long.clone(), "but at most 10000 are read (catalog.file_bytes_max)"),
        ("much.gz.metadata.json", folded, "decompresses to more than 10000 bytes"),
    ] {
        let file = format!("memory:///warehouse/{name}");
        app.put_file(&file, content).await;
        for path in [REGISTER, "/v1/namespaces/ns/register-view"] {
            for _ in 0..10 {
                let response = app.post_rejected(path, register("x", &file)).await;
                assert_eq!(
                    (response.error().0, response.error().1),
                    (400, "IllegalArgumentException")
                );
                assert!(response.message().contains(reason), "{}", response.message());
            }
        }
    }
    short.resize(10_000, b' ');
    app.put_file("memory:///warehouse/just.metadata.json", short).await;
    let just = register("x", "memory:///warehouse/just.metadata.json");
    app.post(REGISTER, just).await.expect(200);
}

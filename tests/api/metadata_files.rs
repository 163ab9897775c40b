//! Metadata files: names, locations, compression, and retention of old ones.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::table::{create_table, set_property};
use crate::support::view::replace_query;

const TABLE: &str = "/v1/namespaces/ns/tables/t";

async fn with_properties(properties: Value) -> (TestApp, TestResponse) {
    // One of the tests registers the file a second time.
    let app = TestApp::with_settings(|it| it.catalog.overlapping_locations = true).await;
    app.create_namespace(&["ns"]).await;
    let mut body = create_table("t");
    body["properties"] = properties;
    let created = app.post("/v1/namespaces/ns/tables", body).await.expect(200);
    (app, created)
}

async fn set(app: &TestApp, key: &str, value: &str) -> TestResponse {
    app.commit("ns", "t", vec![], vec![set_property(key, value)]).await.expect(200)
}

fn file(response: &TestResponse) -> &str {
    response.body["metadata-location"].as_str().expect("a location")
}

/// Returns the directory, number and rest of a metadata file's name.
#[track_caller]
fn parts(location: &str) -> (&str, &str, &str) {
    let (directory, name) = location.rsplit_once('/').expect("a directory");
    let (number, rest) = name.split_once('-').expect("a number");
    let (uuid, extension) = rest.split_at(36);
    assert!(uuid.parse::<uuid::Uuid>().is_ok(), "{location}");
    (directory, number, extension)
}

fn log(response: &TestResponse) -> Vec<String> {
    let log = response.body["metadata"]["metadata-log"].as_array().expect("a list").iter();
    log.map(|entry| entry["metadata-file"].as_str().expect("a location").to_owned()).collect()
}

#[tokio::test]
async fn metadata_file_numbers_increase() {
    let (app, created) = with_properties(json!({})).await;
    let directory =
        format!("{}/metadata", created.body["metadata"]["location"].as_str().expect("one"));
    assert_eq!(parts(file(&created)), (directory.as_str(), "00000", ".metadata.json"));
    for n in 1..=12 {
        let committed = set(&app, "n", &n.to_string()).await;
        let number = format!("{n:05}");
        assert_eq!(
            parts(file(&committed)),
            (directory.as_str(), number.as_str(), ".metadata.json")
        );
    }
    assert_eq!(app.files(&directory).await.len(), 13);
}

#[tokio::test]
async fn views_name_their_files_the_same_way() {
    let app = TestApp::with_table_and_view().await;
    let response = app.commit_view("ns", "v", vec![], replace_query("SELECT 2")).await.expect(200);
    let directory =
        format!("{}/metadata", response.body["metadata"]["location"].as_str().expect("one"));
    assert_eq!(parts(file(&response)), (directory.as_str(), "00001", ".metadata.json"));
    let stored = app.file(file(&response)).await.expect("the file");
    let stored: Value = serde_json::from_slice(&stored).expect("JSON");
    assert_eq!(stored, response.body["metadata"]);
}

#[tokio::test]
async fn metadata_files_are_written_to_the_tables_configured_path() {
    let path = "memory:///warehouse/meta/of/t/";
    let (app, created) = with_properties(json!({ "write.metadata.path": path })).await;
    assert_eq!(parts(file(&created)).0, "memory:///warehouse/meta/of/t");
    let moved = set(&app, "write.metadata.path", "memory:///warehouse/elsewhere").await;
    assert_eq!(parts(file(&moved)).0, "memory:///warehouse/elsewhere");
    assert!(app.file(file(&moved)).await.is_some());
    let removal = json!({ "action": "remove-properties", "removals": ["write.metadata.path"] });
    let back = app.commit("ns", "t", vec![], vec![removal]).await.expect(200);
    let location = back.body["metadata"]["location"].as_str().expect("a location");
    assert_eq!(
        parts(file(&back)),
        (format!("{location}/metadata").as_str(), "00002", ".metadata.json")
    );
}

#[tokio::test]
async fn metadata_files_are_compressed_if_the_table_requests_it() {
    let codec = "write.metadata.compression-codec";
    let (app, created) = with_properties(json!({ (codec): "gzip" })).await;
    assert_eq!(parts(file(&created)).2, ".gz.metadata.json");
    let stored = app.file(file(&created)).await.expect("the file");
    let mut text = String::new();
    GzDecoder::new(stored.as_slice()).read_to_string(&mut text).expect("gzip");
    let stored: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(stored, created.body["metadata"]);
    // A compressed metadata file can be registered.
    let body = json!({ "name": "r", "metadata-location": file(&created) });
    app.post("/v1/namespaces/ns/register", body).await.expect(200);
    let plain = set(&app, codec, "none").await;
    assert_eq!(parts(file(&plain)).2, ".metadata.json");
    assert!(app.file(file(&plain)).await.expect("the file").starts_with(b"{"));
    let upper = set(&app, codec, "GZIP").await;
    assert_eq!(parts(file(&upper)).2, ".gz.metadata.json");
    let body = json!({ "requirements": [], "updates": [set_property(codec, "lz77")] });
    let response = app.post_rejected(TABLE, body).await;
    assert_eq!(
        response.error(),
        (
            400,
            "IllegalArgumentException",
            "Invalid codec name for write.metadata.compression-codec: lz77"
        )
    );
}

#[tokio::test]
async fn metadata_log_is_trimmed_to_the_tables_maximum_and_files_stay() {
    let limit = json!({ "write.metadata.previous-versions-max": "2" });
    let (app, created) = with_properties(limit).await;
    let mut written = vec![file(&created).to_owned()];
    for n in 0..5 {
        let committed = set(&app, "n", &n.to_string()).await;
        let newest: Vec<_> = written.iter().rev().take(2).rev().cloned().collect();
        assert_eq!(log(&committed), newest);
        written.push(file(&committed).to_owned());
    }
    app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run");
    for file in &written {
        assert!(app.file(file).await.is_some(), "{file} was deleted, though no property says so");
    }
}

#[tokio::test]
async fn metadata_files_outside_the_log_are_deleted_if_the_table_requests_it() {
    let limit = json!({
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "true",
    });
    let (app, created) = with_properties(limit).await;
    let mut written = vec![file(&created).to_owned()];
    for n in 0..5 {
        let committed = set(&app, "n", &n.to_string()).await;
        written.push(file(&committed).to_owned());
    }
    for file in &written {
        assert!(app.file(file).await.is_some(), "no request deletes a file");
    }
    // A restart before the background job runs loses nothing.
    let app = app.restart().await;
    app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run");
    let (outdated, kept) = written.split_at(3);
    for file in outdated {
        assert!(app.file(file).await.is_none(), "{file} is still there");
    }
    for file in kept {
        assert!(app.file(file).await.is_some(), "{file} is gone");
    }
    let loaded = app.get(TABLE).await.expect(200);
    assert_eq!(log(&loaded), written[3..5]);
}

#[tokio::test]
async fn a_table_survives_the_loss_of_its_metadata_file() {
    use object_store::ObjectStoreExt;
    let (app, created) = with_properties(json!({})).await;
    let path = file(&created).strip_prefix("memory:///").expect("in memory").into();
    app.bucket.delete(&path).await.expect("the file can be deleted");
    assert_eq!(app.get(TABLE).await.expect(200).body, created.body);
    set(&app, "a", "1").await;
}

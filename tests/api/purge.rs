//! Drop with purge: the background job deletes the table's files, and no others.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::Value;
use slateberg_config::Settings;

use crate::support::app::TestApp;
use crate::support::avro::decompressing_manifest;
use crate::support::table::create_table;
use crate::support::table_with_files::{ALL, TableWithFiles};

const PURGE: &str = "/v1/namespaces/ns/tables/t?purgeRequested=true";

#[tokio::test]
async fn purge_deletes_all_referenced_files() {
    let table = TableWithFiles::new().await;
    table.app.delete(PURGE).await.expect(204);
    table.app.get("/v1/namespaces/ns/tables/t").await.expect_error(404, "NoSuchTableException");
    assert_eq!(table.remaining_files().await, ALL, "the request itself deletes nothing");
    assert_eq!(table.metadata_files().await, 3);
    assert_eq!(table.run().await, 1);
    // A file that the table does not name is not deleted, even below its location.
    assert_eq!(table.remaining_files().await, ["stranger"]);
    assert_eq!(table.metadata_files().await, 0);
    // Files outside of the warehouse are not deleted.
    assert!(table.app.file("memory:///other/3.parquet").await.is_some());
    assert_eq!(table.run().await, 0, "the job is done");
}

#[tokio::test]
async fn the_files_of_a_small_table_are_deleted_when_its_purge_is_answered() {
    // The wait is much longer than the job, so that the test also passes on a slow machine.
    let patient = |settings: &mut Settings| settings.catalog.purge_wait_ms = 600_000;
    let app = TestApp::with_settings(patient).await;
    app.create_namespace(&["ns"]).await;
    app.post("/v1/namespaces/ns/tables", create_table("t")).await.expect(200);
    let table = TableWithFiles::of(app).await;
    let catalog = table.app.app.runtime.catalog.clone();
    let jobs = tokio::spawn(async move {
        loop {
            catalog.jobs().wait_until_due(Duration::from_secs(600)).await;
            catalog.jobs().run_jobs().await.expect("the jobs can be read");
        }
    });
    table.app.delete(PURGE).await.expect(204);
    assert_eq!(table.remaining_files().await, ["stranger"]);
    assert_eq!(table.metadata_files().await, 0);
    jobs.abort();
}

#[tokio::test]
async fn a_purge_survives_a_restart() {
    let table = TableWithFiles::new().await;
    table.app.delete(PURGE).await.expect(204);
    let table = TableWithFiles { app: table.app.restart().await, location: table.location };
    assert_eq!(table.remaining_files().await, ALL);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.remaining_files().await, ["stranger"]);
    let table = TableWithFiles { app: table.app.restart().await, location: table.location };
    assert_eq!(table.run().await, 0);
}

#[tokio::test]
async fn interrupted_purge_is_completed() {
    use object_store::ObjectStoreExt;
    let table = TableWithFiles::new().await;
    table.app.delete(PURGE).await.expect(204);
    // These files are missing, as if an earlier run of the job had deleted them.
    for file in ["data/1.parquet", "metadata/m1.avro"] {
        let path = table.at(file).strip_prefix("memory:///").expect("in memory").into();
        table.app.bucket.delete(&path).await.expect("the file can be deleted");
    }
    assert_eq!(table.run().await, 1);
    assert_eq!(
        table.remaining_files().await,
        ["data/2.parquet", "stranger"],
        "the manifest of data/2.parquet is gone"
    );
    assert_eq!(table.metadata_files().await, 0);
}

#[tokio::test]
async fn a_manifest_that_cannot_be_read_does_not_stop_a_purge() {
    let table = TableWithFiles::new().await;
    table.app.put_file(&table.at("metadata/m1.avro"), "no Avro").await;
    table.app.delete(PURGE).await.expect(204);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.remaining_files().await, ["data/1.parquet", "data/2.parquet", "stranger"]);
}

#[tokio::test]
async fn manifest_that_is_too_long_compressed_or_not_does_not_stop_a_purge() {
    let few = |settings: &mut Settings| settings.catalog.file_bytes_max = 100_000;
    let long = vec![0; 100_001];
    let much = decompressing_manifest("memory:///w/", 100_001);
    assert!(much.len() < 10_000, "the compressed manifest is short");
    for (file, content, left) in [
        ("metadata/m1.avro", &long, &["data/1.parquet", "data/2.parquet", "stranger"][..]),
        ("metadata/m1.avro", &much, &["data/1.parquet", "data/2.parquet", "stranger"]),
        // The manifest is only reachable through this list.
        (
            "metadata/snap-1.avro",
            &long,
            &["data/1.parquet", "data/2.parquet", "metadata/m1.avro", "stranger"],
        ),
    ] {
        let app = TestApp::with_settings(few).await;
        app.create_namespace(&["ns"]).await;
        app.create_table("ns", "t").await;
        let table = TableWithFiles::of(app).await;
        table.app.put_file(&table.at(file), content.clone()).await;
        table.app.delete(PURGE).await.expect(204);
        assert_eq!(table.run().await, 1, "{file}");
        assert_eq!(table.remaining_files().await, left, "{file}");
        assert_eq!(table.metadata_files().await, 0);
        assert_eq!(table.run().await, 0, "the job is done");
    }
}

#[tokio::test]
async fn purge_keeps_the_data_of_a_table_with_gc_disabled() {
    let table = TableWithFiles::new().await;
    table.set("gc.enabled", "false").await;
    table.app.delete(PURGE).await.expect(204);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.remaining_files().await, ["data/1.parquet", "data/2.parquet", "stranger"]);
}

#[tokio::test]
async fn a_drop_without_purge_deletes_nothing() {
    let table = TableWithFiles::new().await;
    for query in ["", "?purgeRequested=false"] {
        let path = format!("/v1/namespaces/ns/tables/t{query}");
        let status = table.app.delete(&path).await.status;
        assert!(matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_FOUND));
        assert_eq!(table.run().await, 0);
        assert_eq!(table.remaining_files().await, ALL);
    }
}

#[tokio::test]
async fn name_of_a_purged_table_is_reusable_immediately() {
    let table = TableWithFiles::new().await;
    table.app.delete(PURGE).await.expect(204);
    let anew = table.app.create_table("ns", "t").await;
    assert_eq!(table.run().await, 1);
    let loaded: Value = table.app.get("/v1/namespaces/ns/tables/t").await.expect(200).body;
    assert_eq!(loaded, anew.body);
    let file = anew.body["metadata-location"].as_str().expect("a location");
    assert!(table.app.file(file).await.is_some(), "the new table's file is its own");
}

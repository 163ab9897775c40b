//! Drop with purge: a table's files are deleted in the background, and nothing else is.

use apache_avro::types::Value as Avro;
use apache_avro::{Schema, Writer};
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::{append, set_property};

const PURGE: &str = "/v1/namespaces/ns/tables/t?purgeRequested=true";

/// A manifest list that names these manifests.
fn manifest_list(manifests: &[&str]) -> Vec<u8> {
    let schema = Schema::parse_str(
        r#"{"type":"record","name":"manifest_file","fields":[
            {"name":"manifest_path","type":"string"},
            {"name":"manifest_length","type":"long"}]}"#,
    )
    .expect("a schema");
    let mut writer = Writer::new(&schema, Vec::new());
    for manifest in manifests {
        let entry = Avro::Record(vec![
            ("manifest_path".into(), Avro::String((*manifest).to_owned())),
            ("manifest_length".into(), Avro::Long(1)),
        ]);
        writer.append(entry).expect("an entry");
    }
    writer.into_inner().expect("a file")
}

/// A manifest that names these data files.
fn manifest(files: &[&str]) -> Vec<u8> {
    let schema = Schema::parse_str(
        r#"{"type":"record","name":"manifest_entry","fields":[
            {"name":"status","type":"int"},
            {"name":"data_file","type":{"type":"record","name":"r2","fields":[
                {"name":"file_path","type":"string"}]}}]}"#,
    )
    .expect("a schema");
    let mut writer = Writer::new(&schema, Vec::new());
    for file in files {
        let data_file = Avro::Record(vec![("file_path".into(), Avro::String((*file).to_owned()))]);
        let entry =
            Avro::Record(vec![("status".into(), Avro::Int(1)), ("data_file".into(), data_file)]);
        writer.append(entry).expect("an entry");
    }
    writer.into_inner().expect("a file")
}

/// A table with one snapshot of two data files, statistics, and three metadata files.
struct Filled {
    app: TestApp,
    location: String,
}

impl Filled {
    async fn new() -> Self {
        let app = TestApp::with_table().await;
        let loaded = app.get("/v1/namespaces/ns/tables/t").await.expect(200);
        let location = loaded.body["metadata"]["location"].as_str().expect("one").to_owned();
        let filled = Self { app, location };
        let (list, one) = (filled.at("metadata/snap-1.avro"), filled.at("metadata/m1.avro"));
        let data = [filled.at("data/1.parquet"), filled.at("data/2.parquet")];
        let outside = "memory:///other/3.parquet";
        let data: Vec<_> = data.iter().map(String::as_str).collect();
        filled.app.put_file(&one, manifest(&[data[0], data[1], outside])).await;
        filled.app.put_file(&list, manifest_list(&[&one])).await;
        for file in [data[0], data[1], outside, &filled.at("stats.puffin"), &filled.at("stranger")]
        {
            filled.app.put_file(file, "content").await;
        }
        let mut updates = append(1, None, 1);
        updates[0]["snapshot"]["manifest-list"] = json!(list);
        updates.push(json!({ "action": "set-statistics", "statistics": {
            "snapshot-id": 1, "statistics-path": filled.at("stats.puffin"),
            "file-size-in-bytes": 7, "file-footer-size-in-bytes": 1, "blob-metadata": [] } }));
        filled.app.commit("ns", "t", vec![], updates).await.expect(200);
        filled.set("a", "1").await;
        filled
    }

    fn at(&self, file: &str) -> String {
        format!("{}/{file}", self.location)
    }

    async fn set(&self, key: &str, value: &str) {
        self.app.commit("ns", "t", vec![], vec![set_property(key, value)]).await.expect(200);
    }

    /// What is left of the table's files, without the metadata's.
    async fn left(&self) -> Vec<String> {
        let files = self.app.files(&self.location).await.into_iter();
        let below = |file: String| file[self.location.len() + 1..].to_owned();
        files.map(below).filter(|file| !file.ends_with(".metadata.json")).collect()
    }

    async fn metadata_files(&self) -> usize {
        let files = self.app.files(&self.location).await;
        files.iter().filter(|file| file.ends_with(".metadata.json")).count()
    }

    async fn run(&self) -> usize {
        self.app.app.catalog.run_file_deletions().await.expect("deletions run")
    }
}

const ALL: [&str; 6] = [
    "data/1.parquet",
    "data/2.parquet",
    "metadata/m1.avro",
    "metadata/snap-1.avro",
    "stats.puffin",
    "stranger",
];

#[tokio::test]
async fn a_purge_deletes_what_the_table_leads_to() {
    let table = Filled::new().await;
    table.app.delete(PURGE).await.expect(204);
    table.app.get("/v1/namespaces/ns/tables/t").await.expect_error(404, "NoSuchTableException");
    assert_eq!(table.left().await, ALL, "the request itself deletes nothing");
    assert_eq!(table.metadata_files().await, 3);
    assert_eq!(table.run().await, 1);
    // What the table does not name is not the table's, even below its location.
    assert_eq!(table.left().await, ["stranger"]);
    assert_eq!(table.metadata_files().await, 0);
    // And what lies outside of the warehouse is not the warehouse's.
    assert!(table.app.file("memory:///other/3.parquet").await.is_some());
    assert_eq!(table.run().await, 0, "the job is done");
}

#[tokio::test]
async fn a_purge_survives_a_restart() {
    let table = Filled::new().await;
    table.app.delete(PURGE).await.expect(204);
    let table = Filled { app: table.app.restart().await, location: table.location };
    assert_eq!(table.left().await, ALL);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.left().await, ["stranger"]);
    let table = Filled { app: table.app.restart().await, location: table.location };
    assert_eq!(table.run().await, 0);
}

#[tokio::test]
async fn a_purge_that_was_cut_off_is_finished() {
    use object_store::ObjectStoreExt;
    let table = Filled::new().await;
    table.app.delete(PURGE).await.expect(204);
    // An earlier run got as far as this.
    for file in ["data/1.parquet", "metadata/m1.avro"] {
        let path = table.at(file).strip_prefix("memory:///").expect("in memory").into();
        table.app.bucket.delete(&path).await.expect("the file can be deleted");
    }
    assert_eq!(table.run().await, 1);
    assert_eq!(table.left().await, ["data/2.parquet", "stranger"], "nothing leads there any more");
    assert_eq!(table.metadata_files().await, 0);
}

#[tokio::test]
async fn a_manifest_that_cannot_be_read_does_not_stop_a_purge() {
    let table = Filled::new().await;
    table.app.put_file(&table.at("metadata/m1.avro"), "no Avro").await;
    table.app.delete(PURGE).await.expect(204);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.left().await, ["data/1.parquet", "data/2.parquet", "stranger"]);
}

#[tokio::test]
async fn a_table_that_keeps_its_data_keeps_it() {
    let table = Filled::new().await;
    table.set("gc.enabled", "false").await;
    table.app.delete(PURGE).await.expect(204);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.left().await, ["data/1.parquet", "data/2.parquet", "stranger"]);
}

#[tokio::test]
async fn a_drop_without_purge_deletes_nothing() {
    let table = Filled::new().await;
    for query in ["", "?purgeRequested=false"] {
        let path = format!("/v1/namespaces/ns/tables/t{query}");
        let status = table.app.delete(&path).await.status;
        assert!(matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_FOUND));
        assert_eq!(table.run().await, 0);
        assert_eq!(table.left().await, ALL);
    }
}

#[tokio::test]
async fn a_purged_name_is_free_at_once() {
    let table = Filled::new().await;
    table.app.delete(PURGE).await.expect(204);
    let anew = table.app.create_table("ns", "t").await;
    assert_eq!(table.run().await, 1);
    let loaded: Value = table.app.get("/v1/namespaces/ns/tables/t").await.expect(200).body;
    assert_eq!(loaded, anew.body);
    let file = anew.body["metadata-location"].as_str().expect("a location");
    assert!(table.app.file(file).await.is_some(), "the new table's file is its own");
}

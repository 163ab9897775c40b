//! [`TableWithFiles`]: a table with files, in an in-memory warehouse.

use serde_json::json;

use super::app::TestApp;
use super::avro::{AppendedManifest, append_list, manifest, manifest_list};
use super::table::{append, set_property};

/// A table with one snapshot of two data files, statistics, and three metadata files.
pub struct TableWithFiles {
    /// The catalog.
    pub app: TestApp,
    /// The location of the table.
    pub location: String,
}

impl TableWithFiles {
    /// Creates the table in a new catalog with overlapping locations.
    pub async fn new() -> Self {
        Self::of(TestApp::with_overlapping_tables().await).await
    }

    /// Fills the table `ns.t` of this catalog.
    pub async fn of(app: TestApp) -> Self {
        let loaded = app.get("/v1/namespaces/ns/tables/t").await.expect(200);
        let location = loaded.body["metadata"]["location"].as_str().expect("one").to_owned();
        let table = Self { app, location };
        let (list, one) = (table.at("metadata/snap-1.avro"), table.at("metadata/m1.avro"));
        let data = [table.at("data/1.parquet"), table.at("data/2.parquet")];
        let outside = "memory:///other/3.parquet";
        let data: Vec<_> = data.iter().map(String::as_str).collect();
        table.app.put_file(&one, manifest(&[data[0], data[1], outside])).await;
        table.app.put_file(&list, manifest_list(&[&one])).await;
        for file in [data[0], data[1], outside, &table.at("stats.puffin"), &table.at("stranger")] {
            table.app.put_file(file, "content").await;
        }
        let mut updates = append(1, None, 1);
        updates[0]["snapshot"]["manifest-list"] = json!(list);
        updates.push(json!({ "action": "set-statistics", "statistics": {
            "snapshot-id": 1, "statistics-path": table.at("stats.puffin"),
            "file-size-in-bytes": 7, "file-footer-size-in-bytes": 1, "blob-metadata": [] } }));
        table.app.commit("ns", "t", vec![], updates).await.expect(200);
        table.set("a", "1").await;
        table
    }

    /// Upgrades the table `ns.NAME`, which has these files, to format version 4. Appends a snapshot
    /// whose only manifest is a Parquet file, as Iceberg for Java does. This manifest references
    /// `data/4.parquet`.
    pub async fn append_with_parquet_manifest(&self, name: &str) {
        let app = &self.app;
        let upgrade = json!({ "action": "upgrade-format-version", "format-version": 4 });
        let upgraded = app.commit("ns", name, vec![], vec![upgrade]).await.expect(200);
        let metadata = &upgraded.body["metadata"];
        let number = metadata["last-sequence-number"].as_i64().expect("a number") + 1;
        let (list, path) = (self.at("metadata/snap-4.avro"), self.at("metadata/m4.parquet"));
        app.put_file(&path, "PAR1 a manifest PAR1").await;
        app.put_file(&self.at("data/4.parquet"), "content").await;
        let manifest =
            AppendedManifest { path, snapshot: (4, number), rows: 1, first_row_id: Some(0) };
        app.put_file(&list, append_list(4, &[manifest])).await;
        let mut updates = append(4, metadata["current-snapshot-id"].as_i64(), number);
        updates[0]["snapshot"]["manifest-list"] = json!(list);
        updates[0]["snapshot"]["first-row-id"] = json!(0);
        updates[0]["snapshot"]["added-rows"] = json!(1);
        app.commit("ns", name, vec![], updates).await.expect(200);
    }

    /// Returns the location of one of its files.
    pub fn at(&self, file: &str) -> String {
        format!("{}/{file}", self.location)
    }

    /// Sets a property.
    pub async fn set(&self, key: &str, value: &str) {
        self.app.commit("ns", "t", vec![], vec![set_property(key, value)]).await.expect(200);
    }

    /// Returns the remaining files of the table, except metadata files.
    pub async fn remaining_files(&self) -> Vec<String> {
        let files = self.app.files(&self.location).await.into_iter();
        let below = |file: String| file[self.location.len() + 1..].to_owned();
        files.map(below).filter(|file| !file.ends_with(".metadata.json")).collect()
    }

    /// Returns the number of remaining metadata files.
    pub async fn metadata_files(&self) -> usize {
        let files = self.app.files(&self.location).await;
        files.iter().filter(|file| file.ends_with(".metadata.json")).count()
    }

    /// Runs the background jobs. Returns the number of ended jobs.
    pub async fn run(&self) -> usize {
        self.app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run")
    }
}

/// The files of the table except metadata files, and one that is not reachable from it.
pub const ALL: [&str; 6] = [
    "data/1.parquet",
    "data/2.parquet",
    "metadata/m1.avro",
    "metadata/snap-1.avro",
    "stats.puffin",
    "stranger",
];

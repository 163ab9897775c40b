//! Writers that append to one table, as clients of its format version do.

use axum::http::Method;
use iceberg::spec::{FormatVersion, ManifestFile, ManifestList};
use serde_json::{Value, json};
use slateberg_base::clock::{Clock, SystemClock};

use super::app::{TestApp, TestResponse};
use super::avro::{AppendedManifest, append_list};
use super::table::{create_table, main_is, set_property};

/// The table of the writers.
pub const TABLE: &str = "/v1/namespaces/ns/tables/t";
/// Number of rows that each append adds.
pub const ROWS: i64 = 10;

/// A state of the table that a writer has loaded.
#[derive(Debug, Clone)]
pub struct LoadedTable {
    metadata: Value,
}

/// An append that a writer has prepared: its manifest list is in the warehouse.
#[derive(Debug, Clone)]
pub struct PreparedAppend {
    /// Headers of the commit.
    pub headers: Vec<(&'static str, &'static str)>,
    /// Requirements of the commit.
    pub requirements: Vec<Value>,
    /// Updates of the commit.
    pub updates: Vec<Value>,
    /// Location of its manifest.
    pub manifest: String,
}

impl LoadedTable {
    /// Loads the table.
    pub async fn load(app: &TestApp) -> Self {
        Self::load_named(app, "t").await
    }

    /// Loads a table of the namespace `ns`.
    pub async fn load_named(app: &TestApp, name: &str) -> Self {
        let loaded = app.get(&format!("/v1/namespaces/ns/tables/{name}")).await.expect(200);
        Self { metadata: loaded.body["metadata"].clone() }
    }

    /// Loads the table with only the snapshots of its branches, like a client that needs no others.
    /// Retries while the server responds that the table changes too fast, as clients do.
    pub async fn load_refs(app: &TestApp) -> Self {
        loop {
            let loaded = app.get(&format!("{TABLE}?snapshots=refs")).await;
            if loaded.status != 503 {
                return Self { metadata: loaded.expect(200).body["metadata"].clone() };
            }
        }
    }

    /// Returns the state after an append to this state, for a writer that adds several snapshots in
    /// one commit.
    pub fn after(&self, append: &PreparedAppend) -> Self {
        let mut metadata = self.metadata.clone();
        let snapshot = append.updates[0]["snapshot"].clone();
        metadata["last-sequence-number"] = snapshot["sequence-number"].clone();
        metadata["next-row-id"] =
            (self.number("next-row-id") + snapshot["added-rows"].as_i64().unwrap_or(0)).into();
        metadata["refs"]["main"] =
            json!({ "type": "branch", "snapshot-id": snapshot["snapshot-id"] });
        if let Some(snapshots) = metadata["snapshots"].as_array_mut() {
            snapshots.push(snapshot);
        }
        Self { metadata }
    }

    /// Returns the location of the table.
    pub fn location(&self) -> &str {
        self.metadata["location"].as_str().expect("a location")
    }

    /// Returns the location of a file of the table.
    pub fn at(&self, file: &str) -> String {
        format!("{}/{file}", self.location())
    }

    /// Returns the snapshot of `main`.
    pub fn head(&self) -> Option<i64> {
        self.metadata["refs"]["main"]["snapshot-id"].as_i64()
    }

    /// Returns the snapshots, in the order in which they were added.
    pub fn snapshots(&self) -> &[Value] {
        self.metadata["snapshots"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns a member of the metadata.
    pub fn member(&self, member: &str) -> &Value {
        &self.metadata[member]
    }

    /// Returns a member of the metadata that is a number.
    pub fn number(&self, member: &str) -> i64 {
        self.metadata[member].as_i64().unwrap_or_default()
    }

    fn format_version(&self) -> u8 {
        u8::try_from(self.number("format-version")).expect("a version")
    }

    /// Writes the manifest list of an append with this snapshot id, and returns its commit.
    pub async fn append(&self, app: &TestApp, id: i64) -> PreparedAppend {
        let version = self.format_version();
        let sequence_number = self.number("last-sequence-number") + 1;
        let manifest = self.at(&format!("metadata/m-{id}.avro"));
        let list = self.at(&format!("metadata/snap-{id}-client.avro"));
        let first_row_id = (version >= 3).then(|| self.number("next-row-id"));
        let snapshot = (id, sequence_number);
        let own = AppendedManifest { path: manifest.clone(), snapshot, rows: ROWS, first_row_id };
        let mut manifests = vec![own];
        if let Some(head) =
            self.snapshots().iter().find(|it| it["snapshot-id"].as_i64() == self.head())
        {
            manifests.extend(self.manifests(app, head).await.iter().map(appended));
        }
        app.put_file(&list, append_list(version, &manifests)).await;
        let mut snapshot = self.snapshot(id, &list);
        if let Some(first) = first_row_id {
            snapshot["first-row-id"] = first.into();
            snapshot["added-rows"] = ROWS.into();
        }
        self.commit_of(snapshot, manifest)
    }

    /// Returns a snapshot that adds a file to this state.
    pub fn snapshot(&self, id: i64, list: &str) -> Value {
        let number = self.number("last-sequence-number") + i64::from(self.format_version() > 1);
        let mut snapshot = json!({
            "snapshot-id": id,
            "sequence-number": number,
            "timestamp-ms": SystemClock.now_ms(),
            "manifest-list": list,
            "summary": { "operation": "append", "added-data-files": "1",
                "added-records": ROWS.to_string() },
            "schema-id": 0,
        });
        if let Some(head) = self.head() {
            snapshot["parent-snapshot-id"] = head.into();
        }
        snapshot
    }

    /// Returns the commit that adds a snapshot to `main`.
    pub fn commit_of(&self, snapshot: Value, manifest: String) -> PreparedAppend {
        let id = &snapshot["snapshot-id"];
        let updates = vec![
            json!({ "action": "add-snapshot", "snapshot": snapshot }),
            json!({ "action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
                "snapshot-id": id }),
        ];
        let requirements = vec![main_is(self.head())];
        PreparedAppend { headers: Vec::new(), requirements, updates, manifest }
    }

    /// Returns the manifests of a snapshot, read by the crate `iceberg`.
    pub async fn manifests(&self, app: &TestApp, snapshot: &Value) -> Vec<ManifestFile> {
        let location = snapshot["manifest-list"].as_str().expect("a location");
        let content = app.file(location).await.expect("the list exists");
        let version = match self.format_version() {
            1 => FormatVersion::V1,
            2 => FormatVersion::V2,
            _ => FormatVersion::V3,
        };
        let list = ManifestList::parse_with_version(&content, version).expect("a manifest list");
        list.entries().to_vec()
    }
}

fn appended(manifest: &ManifestFile) -> AppendedManifest {
    AppendedManifest {
        path: manifest.manifest_path.clone(),
        snapshot: (manifest.added_snapshot_id, manifest.sequence_number),
        rows: ROWS,
        first_row_id: manifest.first_row_id.and_then(|id| i64::try_from(id).ok()),
    }
}

impl PreparedAppend {
    /// Declares in the summary that the append is blind.
    pub fn blind(mut self) -> Self {
        self.updates[0]["snapshot"]["summary"]["slateberg.blind-append"] = "true".into();
        self
    }

    /// Sends the commit.
    pub async fn commit(&self, app: &TestApp) -> TestResponse {
        let Self { headers, requirements, updates, .. } = self;
        let body = json!({ "requirements": requirements, "updates": updates });
        app.request(Method::POST, TABLE, headers, &body).await
    }
}

impl TestApp {
    /// Returns a catalog with the value `max` of `append_rebase`, and with a table of this format
    /// version. `property` is the value of the table's property `slateberg.append-rebase`. `None`
    /// leaves it unset.
    pub async fn rebasing(max: &str, property: Option<&str>, format_version: u8) -> Self {
        let max = serde_json::from_value(json!(max)).expect("a value of append_rebase");
        let app = Self::with_settings(|settings| settings.catalog.append_rebase = max).await;
        app.create_namespace(&["ns"]).await;
        let mut table = create_table("t");
        table["properties"] = json!({ "format-version": format_version.to_string() });
        app.post("/v1/namespaces/ns/tables", table).await.expect(200);
        if let Some(value) = property {
            let updates = vec![set_property("slateberg.append-rebase", value)];
            app.commit("ns", "t", vec![], updates).await.expect(200);
        }
        app
    }
}

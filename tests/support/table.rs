//! Tables in tests.

use serde_json::{Value, json};

use super::app::{TestApp, TestResponse};

/// Returns a schema with a required long `id` and an optional string `data`.
pub fn schema() -> Value {
    json!({ "type": "struct", "schema-id": 0, "fields": [
        { "id": 1, "name": "id", "required": true, "type": "long" },
        { "id": 2, "name": "data", "required": false, "type": "string" },
    ]})
}

/// Returns the body that creates a table with that schema.
pub fn create_table(name: &str) -> Value {
    json!({ "name": name, "schema": schema() })
}

/// Returns the updates of a commit that creates a table with that schema.
pub fn creating_updates() -> Vec<Value> {
    vec![
        json!({ "action": "upgrade-format-version", "format-version": 2 }),
        json!({ "action": "add-schema", "schema": schema() }),
        json!({ "action": "set-current-schema", "schema-id": -1 }),
        json!({ "action": "add-spec", "spec": { "fields": [] } }),
        json!({ "action": "set-default-spec", "spec-id": -1 }),
        json!({ "action": "add-sort-order", "sort-order": { "order-id": 0, "fields": [] } }),
        json!({ "action": "set-default-sort-order", "sort-order-id": -1 }),
    ]
}

/// Returns the update that sets a property.
pub fn set_property(key: &str, value: &str) -> Value {
    json!({ "action": "set-properties", "updates": { key: value } })
}

/// Returns the updates that append a snapshot to `main`, on top of `parent`.
pub fn append(snapshot_id: i64, parent: Option<i64>, sequence_number: i64) -> Vec<Value> {
    let mut snapshot = json!({
        "snapshot-id": snapshot_id,
        "sequence-number": sequence_number,
        "timestamp-ms": 1_700_000_000_000_i64 + sequence_number,
        "manifest-list": format!("memory:///warehouse/lists/{snapshot_id}.avro"),
        "summary": { "operation": "append" },
        "schema-id": 0,
    });
    if let Some(parent) = parent {
        snapshot["parent-snapshot-id"] = json!(parent);
    }
    vec![
        json!({ "action": "add-snapshot", "snapshot": snapshot }),
        json!({ "action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
                "snapshot-id": snapshot_id }),
    ]
}

/// Returns the requirement that `main` points to this snapshot.
pub fn main_is(snapshot_id: Option<i64>) -> Value {
    json!({ "type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": snapshot_id })
}

/// Returns the properties with which a client requests a format version.
pub fn of_version(version: u8) -> Value {
    json!({ "format-version": version.to_string() })
}

impl TestApp {
    /// Returns a catalog with the namespace `ns` and the table `ns.t`.
    pub async fn with_table() -> Self {
        let app = Self::new().await;
        app.create_namespace(&["ns"]).await;
        app.create_table("ns", "t").await;
        app
    }

    /// Like [`with_table`](Self::with_table), with overlapping locations allowed.
    pub async fn with_overlapping_tables() -> Self {
        let app = Self::with_settings(|it| it.catalog.overlapping_locations = true).await;
        app.create_namespace(&["ns"]).await;
        app.create_table("ns", "t").await;
        app
    }

    /// Creates a namespace. Panics on failure.
    pub async fn create_namespace(&self, levels: &[&str]) -> TestResponse {
        self.post("/v1/namespaces", json!({ "namespace": levels })).await.expect(200)
    }

    /// Creates a table. Panics on failure.
    pub async fn create_table(&self, namespace: &str, name: &str) -> TestResponse {
        let path = format!("/v1/namespaces/{namespace}/tables");
        self.post(&path, create_table(name)).await.expect(200)
    }

    /// Commits to a table.
    pub async fn commit(
        &self,
        namespace: &str,
        table: &str,
        requirements: Vec<Value>,
        updates: Vec<Value>,
    ) -> TestResponse {
        let path = format!("/v1/namespaces/{namespace}/tables/{table}");
        self.post(&path, json!({ "requirements": requirements, "updates": updates })).await
    }
}

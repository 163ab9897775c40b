//! Views in tests.

use serde_json::{Value, json};

use super::app::{TestApp, TestResponse};
use super::table::schema;

/// Returns a version of a view with one query for Spark.
pub fn view_version(sql: &str) -> Value {
    view_version_of(json!([{ "type": "sql", "sql": sql, "dialect": "spark" }]))
}

/// Returns a version of a view with these representations.
pub fn view_version_of(representations: Value) -> Value {
    json!({
        "version-id": 1,
        "timestamp-ms": 1_700_000_000_000_i64,
        "schema-id": 0,
        "summary": { "engine-name": "spark" },
        "default-namespace": ["ns"],
        "representations": representations,
    })
}

/// Returns the body that creates a view.
pub fn create_view(name: &str) -> Value {
    json!({
        "name": name,
        "schema": schema(),
        "view-version": view_version("SELECT 1"),
        "properties": { "comment": "a view" },
    })
}

/// Returns the updates that replace the query of a view.
pub fn replace_query(sql: &str) -> Vec<Value> {
    let mut version = view_version(sql);
    version["schema-id"] = json!(-1);
    vec![
        json!({ "action": "add-schema", "schema": schema() }),
        json!({ "action": "add-view-version", "view-version": version }),
        json!({ "action": "set-current-view-version", "view-version-id": -1 }),
    ]
}

impl TestApp {
    /// Returns a catalog with the namespace `ns`, the table `ns.t` and the view `ns.v`.
    pub async fn with_table_and_view() -> Self {
        let app = Self::with_table().await;
        app.create_view("ns", "v").await;
        app
    }

    /// Creates a view. Panics on failure.
    pub async fn create_view(&self, namespace: &str, name: &str) -> TestResponse {
        self.post(&format!("/v1/namespaces/{namespace}/views"), create_view(name)).await.expect(200)
    }

    /// Commits to a view.
    pub async fn commit_view(
        &self,
        namespace: &str,
        view: &str,
        requirements: Vec<Value>,
        updates: Vec<Value>,
    ) -> TestResponse {
        let path = format!("/v1/namespaces/{namespace}/views/{view}");
        self.post(&path, json!({ "requirements": requirements, "updates": updates })).await
    }
}

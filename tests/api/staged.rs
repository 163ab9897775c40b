//! Staged tables: metadata without a table, and the commit that creates the table.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::table::{append, create_table, set_property};
use crate::support::view::create_view;

const TABLE: &str = "/v1/namespaces/ns/tables/t";

async fn empty_namespace() -> TestApp {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    app
}

async fn stage(app: &TestApp, name: &str) -> TestResponse {
    let mut body = create_table(name);
    body["stage-create"] = json!(true);
    app.post("/v1/namespaces/ns/tables", body).await
}

/// Returns the updates that create a table from staged metadata, as the Java client sends them.
fn updates_of(metadata: &Value) -> Vec<Value> {
    vec![
        json!({ "action": "assign-uuid", "uuid": metadata["table-uuid"] }),
        json!({ "action": "upgrade-format-version", "format-version": metadata["format-version"] }),
        json!({ "action": "add-schema", "schema": metadata["schemas"][0], "last-column-id": 2 }),
        json!({ "action": "set-current-schema", "schema-id": -1 }),
        json!({ "action": "add-spec", "spec": metadata["partition-specs"][0] }),
        json!({ "action": "set-default-spec", "spec-id": -1 }),
        json!({ "action": "add-sort-order", "sort-order": metadata["sort-orders"][0] }),
        json!({ "action": "set-default-sort-order", "sort-order-id": -1 }),
        json!({ "action": "set-location", "location": metadata["location"] }),
        json!({ "action": "set-properties", "updates": metadata["properties"] }),
    ]
}

fn create() -> Value {
    json!({ "type": "assert-create" })
}

#[tokio::test]
async fn staged_table_does_not_exist() {
    let app = empty_namespace().await;
    let before = app.dump().await;
    let staged = stage(&app, "t").await.expect(200);
    assert_eq!(staged.body.get("metadata-location"), None);
    assert_eq!(staged.header("etag"), "");
    assert_eq!(staged.body["metadata"]["format-version"], 2);
    assert_eq!(app.dump().await, before);
    app.get(TABLE).await.expect_error(404, "NoSuchTableException");
    app.create_table("ns", "t").await;
    let taken = stage(&app, "t").await;
    assert_eq!(taken.error(), (409, "AlreadyExistsException", "Table already exists: ns.t"));
}

#[tokio::test]
async fn commit_creates_a_staged_table_with_its_first_snapshot() {
    let app = empty_namespace().await;
    let staged = stage(&app, "t").await.expect(200).body["metadata"].clone();
    let mut updates = updates_of(&staged);
    updates.extend(append(1, None, 1));
    let response = app.commit("ns", "t", vec![create()], updates).await.expect(200);
    let metadata = &response.body["metadata"];
    for member in ["table-uuid", "location", "schemas", "partition-specs", "sort-orders"] {
        assert_eq!(metadata[member], staged[member], "{member}");
    }
    assert_eq!(metadata["current-snapshot-id"], 1);
    let file = response.body["metadata-location"].as_str().expect("a location");
    assert!(file.contains("/metadata/00000-"), "{file}");
    let loaded = app.get(TABLE).await.expect(200);
    assert_eq!(&loaded.body["metadata"], metadata);
    assert_eq!(loaded.header("etag"), response.header("etag"));
}

#[tokio::test]
async fn commit_creates_a_table_that_was_not_staged() {
    let app = empty_namespace().await;
    let staged = stage(&app, "t").await.expect(200).body["metadata"].clone();
    let updates: Vec<_> = updates_of(&staged)
        .into_iter()
        .filter(|update| update["action"] != "set-location" && update["action"] != "assign-uuid")
        .collect();
    let response = app.commit("ns", "t", vec![create()], updates).await.expect(200);
    let location = response.body["metadata"]["location"].as_str().expect("a location");
    assert!(location.starts_with("memory:///warehouse/ns/t-"), "{location}");
    assert_ne!(response.body["metadata"]["table-uuid"], staged["table-uuid"]);
}

#[tokio::test]
async fn one_of_several_concurrent_creations_wins() {
    let app = empty_namespace().await;
    let staged = stage(&app, "t").await.expect(200).body["metadata"].clone();
    let commits = (0..8).map(|n| {
        let mut updates = updates_of(&staged);
        updates.push(set_property("who", &format!("{n}")));
        let app = &app;
        async move { app.commit("ns", "t", vec![create()], updates).await }
    });
    let responses = join_all(commits).await;
    assert_eq!(responses.iter().filter(|response| response.status == 200).count(), 1);
    for lost in responses.iter().filter(|response| response.status != 200) {
        assert_eq!(lost.status, 409);
        let text = lost.message();
        assert!(
            text == "Requirement failed: table already exists"
                || text == "Table already exists: ns.t",
            "{text}"
        );
    }
}

#[tokio::test]
async fn invalid_creating_commit_is_rejected() {
    let app = empty_namespace().await;
    let staged = stage(&app, "t").await.expect(200).body["metadata"].clone();
    let updates = updates_of(&staged);
    let commit = |requirements: Value, updates: &[Value]| json!({ "requirements": requirements, "updates": updates });
    let extra = json!({ "type": "assert-default-spec-id", "default-spec-id": 0 });
    let with_more = commit(json!([create(), extra]), &updates);
    let response = app.post_rejected(TABLE, with_more).await;
    assert_eq!(
        response.error(),
        (400, "IllegalArgumentException", "Invalid create requirements: [assert-default-spec-id]")
    );
    let bare = app.post_rejected(TABLE, commit(json!([create()]), &[])).await;
    assert_eq!(bare.status, 400);
    let elsewhere = "/v1/namespaces/nope/tables/t";
    let response = app.post_rejected(elsewhere, commit(json!([create()]), &updates)).await;
    assert_eq!(
        response.error(),
        (404, "NoSuchNamespaceException", "Namespace does not exist: nope")
    );
    let without = app.post_rejected(TABLE, commit(json!([]), &updates)).await;
    assert_eq!(without.error(), (404, "NoSuchTableException", "Table does not exist: ns.t"));

    app.post("/v1/namespaces/ns/views", create_view("t")).await.expect(200);
    let view = app.post_rejected(TABLE, commit(json!([create()]), &updates)).await;
    assert_eq!(
        view.error(),
        (409, "AlreadyExistsException", "View with same name already exists: ns.t")
    );
    app.delete("/v1/namespaces/ns/views/t").await.expect(204);
    app.create_table("ns", "t").await;
    let table = app.post_rejected(TABLE, commit(json!([create()]), &updates)).await;
    assert_eq!(
        table.error(),
        (409, "CommitFailedException", "Requirement failed: table already exists")
    );
}

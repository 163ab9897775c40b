//! Labels of tables, views and columns.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};

use crate::checkpoints::{exported_and_imported, keep, restored};
use crate::support::app::{TestApp, TestResponse};
use crate::support::fsck::assert_sound;
use crate::support::view::create_view;

const LABELS: &str = "/management/v1/labels";
const TABLE: &str = "/v1/namespaces/ns/tables/t";

/// Changes the labels of a table or view, by default of `ns.t`.
pub(crate) async fn update(app: &TestApp, mut change: Value) -> TestResponse {
    if change["resource"].is_null() {
        change["resource"] = json!("table:default/ns/t");
    }
    app.post(LABELS, change).await
}

async fn loaded(app: &TestApp, path: &str) -> Value {
    app.get(path).await.expect(200).body["labels"].clone()
}

#[tokio::test]
async fn loads_contain_the_labels_of_a_table_and_its_columns() {
    let app = TestApp::with_table().await;
    let before = app.get(TABLE).await.expect(200).body;
    assert!(before.get("labels").is_none(), "{before}");

    update(&app, json!({ "set": { "domain": "sales", "tier": "1" } })).await.expect(200);
    let columns = json!({ "column": "data", "set": { "pii": "email" } });
    let updated = update(&app, columns).await.expect(200).body;
    let expected = json!({
        "resource": "table:default/ns/t",
        "object-labels": { "domain": "sales", "tier": "1" },
        "fields": [{ "field-id": 2, "column": "data", "labels": { "pii": "email" } }],
    });
    assert_eq!(updated, expected);
    let shown = app.get(&format!("{LABELS}?resource=table:default/ns/t")).await.expect(200);
    assert_eq!(shown.body, expected);
    let labels = json!({
        "object-labels": { "domain": "sales", "tier": "1" },
        "fields": [{ "field-id": 2, "labels": { "pii": "email" } }],
    });
    assert_eq!(loaded(&app, TABLE).await, labels);
    assert_eq!(loaded(&app, &format!("{TABLE}?snapshots=refs")).await, labels);

    let changed = json!({ "set": { "tier": "2" }, "remove": ["domain", "none"] });
    update(&app, changed).await.expect(200);
    assert_eq!(loaded(&app, TABLE).await["object-labels"], json!({ "tier": "2" }));
    update(&app, json!({ "remove": ["tier"] })).await.expect(200);
    update(&app, json!({ "field-id": 2, "remove": ["pii"] })).await.expect(200);
    assert_eq!(loaded(&app, TABLE).await, Value::Null);
}

#[tokio::test]
async fn loads_of_a_view_contain_its_labels() {
    let app = TestApp::with_table().await;
    app.post("/v1/namespaces/ns/views", create_view("v")).await.expect(200);
    let view = "/v1/namespaces/ns/views/v";
    assert_eq!(loaded(&app, view).await, Value::Null);
    let change = json!({ "resource": "view:default/ns/v", "set": { "a": "b" } });
    update(&app, change).await.expect(200);
    assert_eq!(loaded(&app, view).await, json!({ "object-labels": { "a": "b" }, "fields": [] }));
}

#[tokio::test]
async fn a_change_of_labels_changes_the_etag() {
    let app = TestApp::with_table().await;
    let load = async |tag: String| {
        app.request(Method::GET, TABLE, &[("If-None-Match", &tag)], &Value::Null).await
    };
    let mut tags = vec![app.get(TABLE).await.expect(200).header("etag").to_owned()];
    let first = tags[0].clone();
    for change in [json!({ "set": { "a": "1" } }), json!({ "set": { "a": "2" } })] {
        update(&app, change.clone()).await.expect(200);
        let stale = load(tags[tags.len() - 1].clone()).await.expect(200);
        assert_eq!(stale.body["labels"]["object-labels"], change["set"]);
        let tag = stale.header("etag").to_owned();
        assert!(!tags.contains(&tag), "{tag}");
        load(tag.clone()).await.expect(304);
        tags.push(tag);
    }
    // The same labels do not change the tag.
    update(&app, json!({ "set": { "a": "2" } })).await.expect(200);
    load(tags[2].clone()).await.expect(304);
    update(&app, json!({ "remove": ["a"] })).await.expect(200);
    load(tags[2].clone()).await.expect(200);
    load(first).await.expect(304);
}

#[tokio::test]
async fn labels_survive_a_rename_an_undrop_and_a_restart() {
    let app = TestApp::with_table().await;
    update(&app, json!({ "set": { "a": "b" } })).await.expect(200);
    let ident = |name: &str| json!({ "namespace": ["ns"], "name": name });
    let rename = json!({ "source": ident("t"), "destination": ident("u") });
    app.post("/v1/tables/rename", rename).await.expect(204);
    let renamed = "/v1/namespaces/ns/tables/u";
    assert_eq!(loaded(&app, renamed).await["object-labels"], json!({ "a": "b" }));
    app.delete(renamed).await.expect(204);
    let undrop = json!({ "resource": "table:default/ns/u" });
    app.post("/management/v1/dropped/undrop", undrop).await.expect(200);
    assert_eq!(loaded(&app, renamed).await["object-labels"], json!({ "a": "b" }));
    let app = app.restart().await;
    assert_eq!(loaded(&app, renamed).await["object-labels"], json!({ "a": "b" }));
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn labels_survive_the_drop_and_undrop_of_their_namespace() {
    let app = TestApp::with_table().await;
    update(&app, json!({ "set": { "a": "b" }, "column": "data" })).await.expect(200);
    let labels = loaded(&app, TABLE).await;
    let namespace = json!({ "resource": "namespace:default/ns", "dry-run": false });
    app.post("/management/v1/namespaces/drop", namespace).await.expect(200);
    let undrop = json!({ "resource": "namespace:default/ns" });
    app.post("/management/v1/dropped/undrop", undrop).await.expect(200);
    assert_eq!(loaded(&app, TABLE).await, labels);
    assert_eq!(labels["fields"][0]["labels"], json!({ "a": "b" }));
}

#[tokio::test]
async fn restore_returns_to_the_labels_of_the_checkpoint() {
    let app = TestApp::with_table().await;
    update(&app, json!({ "set": { "a": "1" } })).await.expect(200);
    update(&app, json!({ "set": { "pii": "email" }, "column": "data" })).await.expect(200);
    keep(&app, "before").await;
    let before = loaded(&app, TABLE).await;
    update(&app, json!({ "set": { "a": "2", "b": "1" } })).await.expect(200);
    update(&app, json!({ "remove": ["pii"], "field-id": 2 })).await.expect(200);
    let tag = app.get(TABLE).await.expect(200).header("etag").to_owned();
    let (app, _) = restored(app, "before").await;
    assert_eq!(loaded(&app, TABLE).await, before);
    let known = [("If-None-Match", tag.as_str())];
    app.request(Method::GET, TABLE, &known, &Value::Null).await.expect(200);
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn labels_survive_an_export_and_an_import() {
    let app = TestApp::with_table().await;
    app.create_table("ns", "dropped").await;
    app.post("/v1/namespaces/ns/views", create_view("v")).await.expect(200);
    update(&app, json!({ "set": { "a": "b" } })).await.expect(200);
    update(&app, json!({ "set": { "pii": "email" }, "column": "data" })).await.expect(200);
    for resource in ["view:default/ns/v", "table:default/ns/dropped"] {
        let change = json!({ "resource": resource, "set": { "c": "d" } });
        update(&app, change).await.expect(200);
    }
    app.delete("/v1/namespaces/ns/tables/dropped").await.expect(204);
    let (app, imported) = exported_and_imported(app).await;
    for path in [TABLE, "/v1/namespaces/ns/views/v"] {
        let labels = loaded(&imported, path).await;
        assert_eq!(labels, loaded(&app, path).await);
        assert_ne!(labels, Value::Null);
    }
    imported.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&imported.bucket)).await;
}

#[tokio::test]
async fn a_new_table_with_the_name_of_a_dropped_one_has_no_labels() {
    let app = TestApp::with_table().await;
    update(&app, json!({ "set": { "a": "b" } })).await.expect(200);
    app.delete(&format!("{TABLE}?purgeRequested=true")).await.expect(204);
    app.create_table("ns", "t").await;
    assert_eq!(loaded(&app, TABLE).await, Value::Null);
}

#[tokio::test]
async fn labels_beyond_the_limits_or_of_unknown_columns_are_rejected() {
    let app = TestApp::with_table().await;
    let many: serde_json::Map<_, _> = (0..51).map(|n| (n.to_string(), json!(""))).collect();
    for (change, expected) in [
        (json!({}), "expected set or remove"),
        (json!({ "set": { "": "a" } }), "1 to 128 bytes"),
        (json!({ "set": { "k".repeat(129): "a" } }), "1 to 128 bytes"),
        (json!({ "set": { "a": "v".repeat(1025) } }), "at most 1024 bytes"),
        (json!({ "set": many }), "at most 50"),
        (json!({ "set": { "a": "b" }, "remove": ["a"] }), "both set and removed"),
        (json!({ "set": { "a": "b" }, "field-id": 9 }), "not in the current schema"),
        (json!({ "set": { "a": "b" }, "column": "none" }), "not in the current schema"),
        (json!({ "set": { "a": "b" }, "column": "data", "field-id": 2 }), "at most one"),
    ] {
        let rejected = update(&app, change).await.expect(400).body;
        let message = rejected["error"]["message"].as_str().expect("a message");
        assert!(message.contains(expected), "{message}");
    }
    let long: serde_json::Map<_, _> =
        (0..50).map(|n| (n.to_string(), json!("v".repeat(1000)))).collect();
    update(&app, json!({ "set": long })).await.expect(200);
    let rejected = update(&app, json!({ "set": long, "column": "data" })).await.expect(400).body;
    assert!(rejected.to_string().contains("65536 bytes"), "{rejected}");
    let missing = json!({ "resource": "table:default/ns/none", "set": { "a": "b" } });
    update(&app, missing).await.expect_error(404, "NoSuchTableException");
}

#[tokio::test]
async fn a_change_of_labels_is_in_the_change_log() {
    let app = TestApp::with_table().await;
    update(&app, json!({ "set": { "a": "b" } })).await.expect(200);
    update(&app, json!({ "set": { "a": "b" } })).await.expect(200);
    let history = app.get("/management/v1/history?resource=table:default/ns/t").await.expect(200);
    let changes = history.body["entries"].as_array().expect("changes").iter();
    let actions: Vec<_> = changes.map(|change| change["action"].clone()).collect();
    assert_eq!(actions.iter().filter(|action| **action == "update_labels").count(), 1);
}

//! Namespaces: create, list, load, change, drop.

use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};

async fn create(app: &TestApp, levels: &[&str], properties: Value) -> TestResponse {
    app.post("/v1/namespaces", json!({ "namespace": levels, "properties": properties })).await
}

async fn listed(app: &TestApp, query: &str) -> Value {
    app.get(&format!("/v1/namespaces{query}")).await.expect(200).body["namespaces"].clone()
}

async fn update(app: &TestApp, body: Value) -> TestResponse {
    app.post("/v1/namespaces/ns/properties", body).await
}

/// Returns the properties of a namespace without the location that every namespace has.
async fn own_properties(app: &TestApp, name: &str) -> Value {
    let loaded = app.get(&format!("/v1/namespaces/{name}")).await.expect(200);
    let mut properties = loaded.body["properties"].clone();
    let location = properties.as_object_mut().and_then(|properties| properties.remove("location"));
    assert_eq!(location, Some(json!(format!("memory:///warehouse/{name}"))));
    properties
}

#[tokio::test]
async fn namespace_is_created_loaded_and_dropped() {
    let app = TestApp::new().await;
    let expected = create(&app, &["ns"], json!({ "owner": "ann" })).await.expect(200);
    assert_eq!(expected.body, json!({ "namespace": ["ns"], "properties": { "owner": "ann" } }));
    assert_eq!(own_properties(&app, "ns").await, expected.body["properties"]);
    assert_eq!(app.head("/v1/namespaces/ns").await.expect(204).body, Value::Null);
    assert_eq!(app.delete("/v1/namespaces/ns").await.expect(204).body, Value::Null);
    let response = app.get("/v1/namespaces/ns").await;
    assert_eq!(response.error(), (404, "NoSuchNamespaceException", "Namespace does not exist: ns"));
    assert_eq!(app.head("/v1/namespaces/ns").await.expect(404).body, Value::Null);
    assert_eq!(listed(&app, "").await, json!([]));
}

#[tokio::test]
async fn a_namespace_without_properties_has_none() {
    let app = TestApp::new().await;
    for (name, properties) in [("absent", None), ("null", Some(Value::Null))] {
        let mut body = json!({ "namespace": [name] });
        if let Some(properties) = properties {
            body["properties"] = properties;
        }
        let response = app.post("/v1/namespaces", body).await.expect(200);
        assert_eq!(response.body["properties"], json!({}));
        assert_eq!(own_properties(&app, name).await, json!({}));
    }
}

#[tokio::test]
async fn namespace_is_created_once_and_needs_its_parent() {
    let app = TestApp::new().await;
    create(&app, &["a"], json!({})).await.expect(200);
    let again = create(&app, &["a"], json!({ "other": "properties" })).await;
    assert_eq!(again.error(), (409, "AlreadyExistsException", "Namespace already exists: a"));
    let orphan = create(&app, &["b", "c"], json!({})).await;
    assert_eq!(orphan.error(), (404, "NoSuchNamespaceException", "Namespace does not exist: b"));
    create(&app, &["a", "b"], json!({})).await.expect(200);
    let again = create(&app, &["a", "b"], json!({})).await;
    assert_eq!(again.message(), "Namespace already exists: a.b");
    assert_eq!(own_properties(&app, "a").await, json!({}), "the refused request changed nothing");
}

#[tokio::test]
async fn listing_of_namespaces_shows_one_level() {
    let app = TestApp::new().await;
    for levels in [&["b"][..], &["a"], &["a", "x"], &["a", "x", "deep"], &["a", "w"], &["a.x"]] {
        create(&app, levels, json!({})).await.expect(200);
    }
    assert_eq!(listed(&app, "").await, json!([["a"], ["a.x"], ["b"]]));
    assert_eq!(listed(&app, "?parent=").await, json!([["a"], ["a.x"], ["b"]]));
    assert_eq!(listed(&app, "?parent=a").await, json!([["a", "w"], ["a", "x"]]));
    assert_eq!(listed(&app, "?parent=a%1Fx").await, json!([["a", "x", "deep"]]));
    assert_eq!(listed(&app, "?parent=a.x").await, json!([]));
    let missing = app.get("/v1/namespaces?parent=nope").await;
    assert_eq!(
        missing.error(),
        (404, "NoSuchNamespaceException", "Namespace does not exist: nope")
    );
    let missing = app.get("/v1/namespaces?parent=a%1Fnope").await;
    assert_eq!(missing.message(), "Namespace does not exist: a.nope");
}

#[tokio::test]
async fn every_request_for_a_missing_namespace_returns_404() {
    let app = TestApp::new().await;
    let base = "/v1/namespaces/nope";
    let table = crate::support::table::create_table("t");
    let view = crate::support::view::create_view("v");
    let register = json!({ "name": "t", "metadata-location": "memory:///warehouse/x.json" });
    let responses = [
        app.get(base).await,
        app.delete(base).await,
        app.post(&format!("{base}/properties"), json!({ "updates": {} })).await,
        app.get(&format!("{base}/tables")).await,
        app.get(&format!("{base}/views")).await,
        app.post(&format!("{base}/tables"), table).await,
        app.post(&format!("{base}/views"), view).await,
        app.post(&format!("{base}/register"), register.clone()).await,
        app.post(&format!("{base}/register-view"), register).await,
    ];
    for response in responses {
        assert_eq!(
            response.error(),
            (404, "NoSuchNamespaceException", "Namespace does not exist: nope")
        );
    }
}

#[tokio::test]
async fn namespace_properties_are_set_and_removed() {
    let app = TestApp::new().await;
    create(&app, &["ns"], json!({ "a": "1", "b": "2" })).await.expect(200);
    let updates = json!({ "removals": ["b", "z"], "updates": { "a": "3", "c": "4" } });
    let updated = update(&app, updates).await.expect(200);
    let expected = json!({ "updated": ["a", "c"], "removed": ["b"], "missing": ["z"] });
    assert_eq!(updated.body, expected);
    assert_eq!(own_properties(&app, "ns").await, json!({ "a": "3", "c": "4" }));
    for nothing in [json!({}), json!({ "removals": null, "updates": null })] {
        let updated = update(&app, nothing).await.expect(200);
        assert_eq!(updated.body, json!({ "updated": [], "removed": [], "missing": [] }));
    }
}

#[tokio::test]
async fn property_key_that_is_both_set_and_removed_is_rejected() {
    let app = TestApp::new().await;
    create(&app, &["ns"], json!({ "a": "1" })).await.expect(200);
    let both = json!({ "removals": ["a", "b"], "updates": { "a": "2" } });
    let response = update(&app, both).await;
    assert_eq!(
        response.error(),
        (
            422,
            "UnprocessableEntityException",
            "Invalid namespace update, cannot simultaneously set and remove keys: [\"a\"]"
        )
    );
    let twice = update(&app, json!({ "removals": ["a", "a"] })).await;
    twice.expect_error(400, "BadRequestException");
    assert_eq!(own_properties(&app, "ns").await, json!({ "a": "1" }));
}

#[tokio::test]
async fn only_an_empty_namespace_is_dropped() {
    let app = TestApp::new().await;
    for levels in [&["with-child"][..], &["with-child", "c"], &["with-table"], &["with-view"]] {
        create(&app, levels, json!({})).await.expect(200);
    }
    app.create_table("with-table", "t").await;
    app.create_view("with-view", "v").await;
    for (name, contents) in
        [("with-child", "namespaces"), ("with-table", "tables"), ("with-view", "views")]
    {
        let response = app.delete(&format!("/v1/namespaces/{name}")).await;
        let message = format!("Namespace {name} is not empty: it contains {contents}");
        assert_eq!(response.error(), (409, "NamespaceNotEmptyException", message.as_str()));
    }
    app.delete("/v1/namespaces/with-child%1Fc").await.expect(204);
    app.delete("/v1/namespaces/with-table/tables/t").await.expect(204);
    app.delete("/v1/namespaces/with-view/views/v").await.expect(204);
    for name in ["with-child", "with-table", "with-view"] {
        app.delete(&format!("/v1/namespaces/{name}")).await.expect(204);
    }
    assert_eq!(listed(&app, "").await, json!([]));
}

#[tokio::test]
async fn recreated_namespace_does_not_keep_properties() {
    let app = TestApp::new().await;
    create(&app, &["ns"], json!({ "a": "1" })).await.expect(200);
    app.delete("/v1/namespaces/ns").await.expect(204);
    app.delete("/v1/namespaces/ns").await.expect_error(404, "NoSuchNamespaceException");
    create(&app, &["ns"], json!({ "b": "2" })).await.expect(200);
    assert_eq!(own_properties(&app, "ns").await, json!({ "b": "2" }));
}

#[tokio::test]
async fn namespaces_survive_a_restart() {
    let app = TestApp::new().await;
    create(&app, &["a"], json!({ "k": "v" })).await.expect(200);
    create(&app, &["a", "b"], json!({})).await.expect(200);
    let before = app.dump().await;
    let app = app.restart().await;
    assert_eq!(app.dump().await.visible, before.visible);
}

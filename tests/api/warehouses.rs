//! Several warehouses in one server, each with its own names and files. The default warehouse is
//! also available without a prefix.

use serde_json::{Value, json};
use slateberg_config::WarehouseSettings;

use crate::support::app::TestApp;
use crate::support::table::{create_table, set_property};
use crate::support::view::create_view;

/// The default warehouse, and `lake`, which may also use `memory:///shared`.
async fn two_warehouses() -> TestApp {
    TestApp::with_settings(|settings| {
        let lake = WarehouseSettings {
            location: "memory:///lake/".to_owned(),
            allowed_locations: vec!["memory:///shared".to_owned()],
            client_defaults: [("rest-page-size".to_owned(), "7".to_owned())].into(),
            client_overrides: [("s3.region".to_owned(), "eu".to_owned())].into(),
            ..WarehouseSettings::default()
        };
        settings.warehouses.insert("lake".to_owned(), lake);
    })
    .await
}

#[tokio::test]
async fn config_contains_the_warehouses_prefix_and_properties() {
    let app = two_warehouses().await;
    for word in ["lake", "memory:///lake", "memory:///lake/"] {
        let config = app.get(&format!("/v1/config?warehouse={word}")).await.expect(200);
        assert_eq!(config.body["overrides"], json!({ "prefix": "lake", "s3.region": "eu" }));
        assert_eq!(config.body["defaults"], json!({ "rest-page-size": "7" }));
    }
    let config = app.get("/v1/config").await.expect(200);
    assert_eq!(config.body["overrides"], json!({ "prefix": "default" }));
}

#[tokio::test]
async fn the_default_warehouse_has_two_paths() {
    let app = TestApp::with_table_and_view().await;
    assert_eq!(app.visible_state("/v1").await, app.visible_state("/v1/default").await);
    let with = app.get("/v1/default/namespaces/ns/tables/t").await.expect(200);
    let without = app.get("/v1/namespaces/ns/tables/t").await.expect(200);
    assert_eq!(with.header("etag"), without.header("etag"));
    let path = "/v1/default/namespaces/ns/tables/t";
    let body = json!({ "requirements": [], "updates": [set_property("a", "1")] });
    app.post(path, body).await.expect(200);
    let without = app.get("/v1/namespaces/ns/tables/t").await.expect(200);
    assert_eq!(without.body["metadata"]["properties"]["a"], "1");
}

#[tokio::test]
async fn changes_in_one_warehouse_do_not_affect_another() {
    let app = two_warehouses().await;
    for base in ["/v1", "/v1/lake"] {
        let namespaces = format!("{base}/namespaces");
        app.post(&namespaces, json!({ "namespace": ["ns"] })).await.expect(200);
        app.post(&format!("{namespaces}/ns/tables"), create_table("t")).await.expect(200);
        app.post(&format!("{namespaces}/ns/views"), create_view("v")).await.expect(200);
    }
    let before = app.visible_state("/v1").await;
    let table = app.get("/v1/lake/namespaces/ns/tables/t").await.expect(200);
    let location = table.body["metadata"]["location"].as_str().expect("a location");
    assert!(location.starts_with("memory:///lake/ns/t-"), "{location}");
    app.post("/v1/lake/namespaces/ns/properties", json!({ "updates": { "a": "1" } }))
        .await
        .expect(200);
    let rename = json!({ "source": { "namespace": ["ns"], "name": "t" },
                         "destination": { "namespace": ["ns"], "name": "u" } });
    app.post("/v1/lake/tables/rename", rename).await.expect(204);
    app.delete("/v1/lake/namespaces/ns/tables/u").await.expect(204);
    app.delete("/v1/lake/namespaces/ns/views/v").await.expect(204);
    app.delete("/v1/lake/namespaces/ns").await.expect(204);
    assert_eq!(app.visible_state("/v1").await, before);
    assert_eq!(app.visible_state("/v1/lake").await, json!({}));
}

#[tokio::test]
async fn location_of_another_warehouse_is_rejected() {
    let app = two_warehouses().await;
    for base in ["/v1", "/v1/lake"] {
        app.post(&format!("{base}/namespaces"), json!({ "namespace": ["ns"] })).await.expect(200);
    }
    let at = |name: &str, location: &str| {
        let mut body = create_table(name);
        body["location"] = json!(location);
        body
    };
    let lake = "/v1/lake/namespaces/ns/tables";
    app.post(lake, at("a", "memory:///lake/a")).await.expect(200);
    app.post(lake, at("b", "memory:///shared/b")).await.expect(200);
    let default = "/v1/namespaces/ns/tables";
    app.post(default, at("c", "memory:///warehouse/c")).await.expect(200);
    for (path, location) in [
        (lake, "memory:///warehouse/x"),
        (default, "memory:///lake/x"),
        (default, "memory:///shared/x"),
    ] {
        let response = app.post_rejected(path, at("x", location)).await;
        let message = format!("Location '{location}' is outside of the warehouse");
        assert_eq!(response.error(), (400, "IllegalArgumentException", message.as_str()));
    }
    // A file of another warehouse cannot be registered.
    let file = app.get(&format!("{lake}/a")).await.expect(200).body["metadata-location"].clone();
    let body = json!({ "name": "x", "metadata-location": file });
    let response = app.post_rejected("/v1/namespaces/ns/register", body).await;
    assert_eq!(response.error().1, "IllegalArgumentException");
}

#[tokio::test]
async fn unknown_prefix_returns_404() {
    let app = TestApp::with_table().await;
    let paths = ["namespaces", "namespaces/ns", "namespaces/ns/tables", "namespaces/ns/tables/t"];
    for path in paths {
        let response = app.get(&format!("/v1/nope/{path}")).await;
        assert_eq!(
            response.error(),
            (404, "NoSuchWarehouseException", "Warehouse does not exist: nope")
        );
    }
    for path in ["namespaces", "tables/rename", "transactions/commit", "views/rename"] {
        let response = app.post_rejected(&format!("/v1/nope/{path}"), json!({})).await;
        assert_eq!(response.error_type(), "NoSuchWarehouseException");
    }
}

#[tokio::test]
async fn idempotency_key_is_separate_per_warehouse() {
    let app = two_warehouses().await;
    let headers = [("Idempotency-Key", "0195f1e0-0000-7000-8000-000000000001")];
    let body = json!({ "namespace": ["a"] });
    let send =
        async |path: &str| app.request(axum::http::Method::POST, path, &headers, &body).await;
    send("/v1/namespaces").await.expect(200);
    send("/v1/lake/namespaces").await.expect_error(422, "UnprocessableEntityException");
    assert_eq!(app.visible_state("/v1/lake").await, json!({}));
}

#[tokio::test]
async fn warehouses_survive_a_restart() {
    let app = two_warehouses().await;
    app.post("/v1/lake/namespaces", json!({ "namespace": ["ns"] })).await.expect(200);
    app.post("/v1/lake/namespaces/ns/tables", create_table("t")).await.expect(200);
    let before: Value = app.visible_state("/v1/lake").await;
    let app = app.restart().await;
    assert_eq!(app.visible_state("/v1/lake").await, before);
    assert_eq!(app.visible_state("/v1").await, json!({}));
}

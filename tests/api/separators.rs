//! The namespace separator that a warehouse advertises to its clients.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::create_table;

/// A server whose default warehouse advertises this separator, with the namespaces `a` and `a`/`b`.
async fn with_separator(value: &str) -> TestApp {
    let app = TestApp::with_settings(|settings| {
        let warehouse = settings.warehouses.get_mut("default").expect("the default warehouse");
        warehouse.client_overrides.insert("namespace-separator".to_owned(), value.to_owned());
    })
    .await;
    app.create_namespace(&["a"]).await;
    app.create_namespace(&["a", "b"]).await;
    app
}

#[tokio::test]
async fn nested_namespaces_are_found_with_the_advertised_separator_and_with_the_default_one() {
    let app = with_separator("%2E").await;
    let config = app.get("/v1/config").await.expect(200);
    assert_eq!(config.body["overrides"]["namespace-separator"], "%2E");
    // Java clients encode the separator, PyIceberg does not, and old clients send the default.
    for path in ["a%2Eb", "a%2eb", "a.b", "a%1Fb"] {
        let found = app.get(&format!("/v1/namespaces/{path}")).await.expect(200);
        assert_eq!(found.body["namespace"], json!(["a", "b"]), "{path}");
    }
    app.post("/v1/namespaces/a%2Eb/tables", create_table("t")).await.expect(200);
    for path in ["a.b", "a%1Fb"] {
        app.head(&format!("/v1/default/namespaces/{path}/tables/t")).await.expect(204);
    }
    app.create_namespace(&["a", "b", "c"]).await;
    for parent in ["a.b", "a%2Eb", "a%1Fb", "a%252Eb"] {
        let listed = app.get(&format!("/v1/namespaces?parent={parent}")).await.expect(200);
        assert_eq!(listed.body["namespaces"], json!([["a", "b", "c"]]), "{parent}");
    }
}

#[tokio::test]
async fn a_level_that_contains_the_advertised_separator_is_rejected() {
    let app = with_separator(".").await;
    let response = app.post("/v1/namespaces", json!({ "namespace": ["x.y"] })).await;
    let body = response.expect_error(400, "IllegalArgumentException").body;
    let message = body["error"]["message"].as_str().expect("a text");
    assert!(message.contains("contains '.'"), "{message}");
    app.post("/v1/namespaces", json!({ "namespace": ["x:y"] })).await.expect(200);
}

#[tokio::test]
async fn without_an_advertised_separator_a_dot_is_part_of_a_name() {
    let app = TestApp::new().await;
    app.create_namespace(&["a.b"]).await;
    for path in ["a.b", "a%2Eb"] {
        let found = app.get(&format!("/v1/namespaces/{path}")).await.expect(200);
        assert_eq!(found.body["namespace"], json!(["a.b"]), "{path}");
    }
}

#[tokio::test]
async fn a_warehouse_that_is_created_at_run_time_has_its_own_separator() {
    let app = TestApp::secured().await;
    let warehouse_request = |separator: &str| -> Value {
        json!({
            "name": "lake", "storage": { "location": "memory:///lake" },
            "client-overrides": { "namespace-separator": separator },
        })
    };
    let warehouses = "/management/v1/warehouses";
    app.post(warehouses, warehouse_request("%2F")).await.expect(400);
    app.post(warehouses, warehouse_request("%2E")).await.expect(201);
    for levels in [json!(["a"]), json!(["a", "b"])] {
        app.post("/v1/lake/namespaces", json!({ "namespace": levels })).await.expect(200);
        app.post("/v1/namespaces", json!({ "namespace": levels })).await.expect(200);
    }
    let found = app.get("/v1/lake/namespaces/a%2Eb").await.expect(200);
    assert_eq!(found.body["namespace"], json!(["a", "b"]));
    app.get("/v1/namespaces/a%2Eb").await.expect_error(404, "NoSuchNamespaceException");
}

//! All errors have the same format.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::create_table;

#[tokio::test]
async fn error_has_the_shape_of_the_specification() {
    let app = TestApp::new().await;
    let response = app.get("/v1/namespaces/nope").await;
    assert_eq!(response.header("content-type"), "application/json");
    assert_eq!(
        response.body,
        json!({ "error": {
            "message": "Namespace does not exist: nope",
            "type": "NoSuchNamespaceException",
            "code": 404,
        }})
    );
}

#[tokio::test]
async fn error_response_to_head_has_no_body() {
    let app = TestApp::with_table_and_view().await;
    for path in [
        "/v1/namespaces/nope",
        "/v1/namespaces/nope/tables/t",
        "/v1/namespaces/ns/tables/nope",
        "/v1/namespaces/ns/views/nope",
        "/v1/nope/namespaces/ns",
        "/v1/namespaces/%00",
        "/v1/namespaces/ns/tables/%1F",
        "/nowhere",
    ] {
        let response = app.head(path).await.expect(404);
        assert_eq!(response.body, Value::Null, "{path}");
    }
}

#[tokio::test]
async fn request_beyond_the_limit_gets_503_before_any_work() {
    let app = TestApp::with_settings(|settings| settings.server.requests_in_flight_max = 0).await;
    let requests = [
        (Method::GET, "/v1/config", Value::Null),
        (Method::GET, "/v1/namespaces", Value::Null),
        (Method::POST, "/v1/namespaces", json!({ "namespace": ["a"] })),
        (Method::POST, "/v1/default/namespaces", json!({ "namespace": ["a"] })),
    ];
    for (method, path, body) in requests {
        let response = app.request(method, path, &[], &body).await;
        assert_eq!(response.error(), (503, "SlowDownException", "Too many requests"));
        assert_eq!(response.header("retry-after"), "1");
        assert!(response.is_error_model());
    }
    // Probes and scrapes are still served.
    for path in ["/health", "/ready", "/metrics"] {
        app.get(path).await.expect(200);
    }
}

#[tokio::test]
async fn bodies_beyond_the_memory_limit_get_503() {
    let app = TestApp::with_settings(|settings| {
        settings.server.body_bytes_max = 64 << 10;
        settings.server.bodies_bytes_max = 64 << 10;
    })
    .await;
    let padding = "x".repeat(50 << 10);
    let create = |name: &str| json!({ "namespace": [name], "ignored": padding });
    // The memory suffices for one request. Of two concurrent requests, the second gets 503.
    app.post("/v1/namespaces", create("a")).await.expect(200);
    let (first, second) = futures::future::join(
        app.post("/v1/namespaces", create("b")),
        app.post("/v1/namespaces", create("c")),
    )
    .await;
    first.expect(200);
    second.expect_error(503, "SlowDownException");
    app.post("/v1/namespaces", create("c")).await.expect(200);
}

#[tokio::test]
async fn stopping_server_responds_503() {
    let app = TestApp::with_table_and_view().await;
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    let table = "/v1/namespaces/ns/tables/t";
    let commit = json!({ "requirements": [], "updates": [
        { "action": "set-properties", "updates": { "a": "1" } } ]});
    let requests = [
        (Method::POST, "/v1/namespaces", json!({ "namespace": ["a"] })),
        (Method::POST, "/v1/namespaces/ns/tables", create_table("u")),
        (Method::POST, table, commit),
        (Method::DELETE, table, Value::Null),
        (Method::DELETE, "/v1/namespaces/ns", Value::Null),
        (Method::GET, table, Value::Null),
        (Method::GET, "/v1/namespaces", Value::Null),
    ];
    for (method, path, body) in requests {
        let response = app.request(method.clone(), path, &[], &body).await;
        assert_eq!(response.status, 503, "{method} {path}: {}", response.body);
        assert_eq!(response.header("retry-after"), "1");
        assert!(response.is_error_model(), "{method} {path}: {}", response.body);
    }
}

#[tokio::test]
async fn path_that_is_not_utf8_is_rejected() {
    let app = TestApp::with_table().await;
    for path in [
        "/v1/namespaces/%FF",
        "/v1/namespaces/ns/tables/%C3%28",
        "/v1/%FF/namespaces",
        "/v1/namespaces/ns/views/%80",
    ] {
        let response = app.get(path).await;
        assert!(matches!(response.status.as_u16(), 400 | 404), "{path}: {}", response.status);
        assert!(response.is_error_model(), "{path}: {}", response.body);
    }
}

#[tokio::test]
async fn invalid_boolean_query_parameter_is_rejected() {
    let app = TestApp::with_table().await;
    for value in ["1", "yes", "", "truee"] {
        let path = format!("/v1/namespaces/ns/tables/t?purgeRequested={value}");
        let rejection = app.request_without_effect(Method::DELETE, &path, &[], &Value::Null).await;
        let message = format!(
            "Invalid query parameter purgeRequested: expected true or false, got '{value}'"
        );
        assert_eq!(rejection.error(), (400, "BadRequestException", message.as_str()));
    }
    app.delete("/v1/namespaces/ns/tables/t?purgeRequested=FALSE").await.expect(204);
}

//! All errors have the same format.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::create_table;

#[tokio::test]
async fn an_error_is_the_specifications_model() {
    let app = TestApp::new().await;
    let answer = app.get("/v1/namespaces/nope").await;
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(
        answer.body,
        json!({ "error": {
            "message": "Namespace does not exist: nope",
            "type": "NoSuchNamespaceException",
            "code": 404,
        }})
    );
}

#[tokio::test]
async fn an_error_of_a_head_has_no_body() {
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
        let answer = app.head(path).await.expect(404);
        assert_eq!(answer.body, Value::Null, "{path}");
    }
}

#[tokio::test]
async fn a_server_with_too_much_to_do_says_so_before_it_does_anything() {
    let app = TestApp::with_settings(|settings| settings.server.requests_in_flight_max = 0).await;
    let requests = [
        (Method::GET, "/v1/config", Value::Null),
        (Method::GET, "/v1/namespaces", Value::Null),
        (Method::POST, "/v1/namespaces", json!({ "namespace": ["a"] })),
        (Method::POST, "/v1/default/namespaces", json!({ "namespace": ["a"] })),
    ];
    for (method, path, body) in requests {
        let answer = app.request(method, path, &[], &body).await;
        assert_eq!(answer.error(), (503, "SlowDownException", "Too many requests"));
        assert_eq!(answer.header("retry-after"), "1");
        assert!(answer.is_error_model());
    }
    // Monitoring requests are not affected.
    for path in ["/health", "/ready", "/metrics"] {
        app.get(path).await.expect(200);
    }
}

#[tokio::test]
async fn bodies_that_do_not_fit_into_memory_together_are_turned_away() {
    let app = TestApp::with_settings(|settings| {
        settings.server.body_bytes_max = 64 << 10;
        settings.server.bodies_bytes_max = 64 << 10;
    })
    .await;
    let padding = "x".repeat(50 << 10);
    let create = |name: &str| json!({ "namespace": [name], "ignored": padding });
    // One request at a time fits; of two concurrent ones, the second gets 503.
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
async fn a_server_that_stops_says_503_and_not_500() {
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
        let answer = app.request(method.clone(), path, &[], &body).await;
        assert_eq!(answer.status, 503, "{method} {path}: {}", answer.body);
        assert_eq!(answer.header("retry-after"), "1");
        assert!(answer.is_error_model(), "{method} {path}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused() {
    let app = TestApp::with_table().await;
    for path in [
        "/v1/namespaces/%FF",
        "/v1/namespaces/ns/tables/%C3%28",
        "/v1/%FF/namespaces",
        "/v1/namespaces/ns/views/%80",
    ] {
        let answer = app.get(path).await;
        assert!(matches!(answer.status.as_u16(), 400 | 404), "{path}: {}", answer.status);
        assert!(answer.is_error_model(), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn flags_are_true_or_false() {
    let app = TestApp::with_table().await;
    for value in ["1", "yes", "", "truee"] {
        let path = format!("/v1/namespaces/ns/tables/t?purgeRequested={value}");
        let refused = app.harmless(Method::DELETE, &path, &[], &Value::Null).await;
        let message = format!(
            "Invalid query parameter purgeRequested: expected true or false, got '{value}'"
        );
        assert_eq!(refused.error(), (400, "BadRequestException", message.as_str()));
    }
    app.delete("/v1/namespaces/ns/tables/t?purgeRequested=FALSE").await.expect(204);
}

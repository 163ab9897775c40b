//! CORS: responses to pages of other origins.

use axum::http::Method;
use serde_json::Value;

use crate::support::app::{TestApp, TestResponse};

const PAGE: &str = "https://lake.example.com";

async fn allowing(origins: &[&str]) -> TestApp {
    TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.server.cors.allowed_origins = origins.iter().map(|&it| it.to_owned()).collect();
    })
    .await
}

async fn preflight(app: &TestApp, origin: &str) -> TestResponse {
    let headers = [
        ("authorization", ""),
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    app.request(Method::OPTIONS, "/v1/namespaces", &headers[1..], &Value::Null).await
}

#[tokio::test]
async fn a_preflight_is_answered_without_a_credential() {
    let mut app = allowing(&[PAGE]).await;
    let key = app.credential.take().expect("there is one");
    let found = preflight(&app, PAGE).await.expect(200);
    assert_eq!(found.header("access-control-allow-origin"), PAGE);
    assert_eq!(found.header("access-control-allow-headers"), "authorization,content-type");
    assert!(found.header("access-control-allow-methods").contains("DELETE"));
    assert_eq!(found.header("access-control-max-age"), "3600");
    assert_eq!(found.header("access-control-allow-credentials"), "");

    // The request itself needs a credential. The page may also read the response to a request
    // without a credential.
    let query = [("origin", PAGE)];
    let response = app.request(Method::GET, "/v1/config", &query, &Value::Null).await.expect(401);
    assert_eq!(response.header("access-control-allow-origin"), PAGE);
    let bearer = format!("Bearer {key}");
    let query = [("origin", PAGE), ("authorization", &bearer)];
    let found = app.request(Method::GET, "/v1/config", &query, &Value::Null).await.expect(200);
    let exposed = found.header("access-control-expose-headers");
    for header in ["etag", "slateberg-position", "x-request-id"] {
        assert!(exposed.contains(header), "{exposed}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_get_no_cors_headers() {
    let app = allowing(&[PAGE]).await;
    let found = preflight(&app, "https://elsewhere.example.com").await;
    assert_eq!(found.header("access-control-allow-origin"), "");
    let any = allowing(&["*"]).await;
    let found = preflight(&any, "https://elsewhere.example.com").await;
    assert_eq!(found.header("access-control-allow-origin"), "*");
}

#[tokio::test]
async fn cors_is_off_by_default() {
    let mut app = TestApp::secured().await;
    app.credential = None;
    let found = preflight(&app, PAGE).await.expect(401);
    assert_eq!(found.header("access-control-allow-origin"), "");
}

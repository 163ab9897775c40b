//! CORS: responses to pages of other origins.

use axum::http::Method;
use serde_json::Value;

use crate::support::app::{Answer, TestApp};

const PAGE: &str = "https://lake.example.com";

async fn allowing(origins: &[&str]) -> TestApp {
    TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.server.cors.allowed_origins = origins.iter().map(|&it| it.to_owned()).collect();
    })
    .await
}

async fn preflight(app: &TestApp, origin: &str) -> Answer {
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
    let told = preflight(&app, PAGE).await.expect(200);
    assert_eq!(told.header("access-control-allow-origin"), PAGE);
    assert_eq!(told.header("access-control-allow-headers"), "authorization,content-type");
    assert!(told.header("access-control-allow-methods").contains("DELETE"));
    assert_eq!(told.header("access-control-max-age"), "3600");
    assert_eq!(told.header("access-control-allow-credentials"), "");

    // The request itself needs a credential. The page may read the response in any case.
    let asked = [("origin", PAGE)];
    let refused = app.request(Method::GET, "/v1/config", &asked, &Value::Null).await.expect(401);
    assert_eq!(refused.header("access-control-allow-origin"), PAGE);
    let bearer = format!("Bearer {key}");
    let asked = [("origin", PAGE), ("authorization", &bearer)];
    let told = app.request(Method::GET, "/v1/config", &asked, &Value::Null).await.expect(200);
    let exposed = told.header("access-control-expose-headers");
    assert!(exposed.contains("etag") && exposed.contains("x-request-id"), "{exposed}");
}

#[tokio::test]
async fn other_pages_are_told_nothing() {
    let app = allowing(&[PAGE]).await;
    let told = preflight(&app, "https://elsewhere.example.com").await;
    assert_eq!(told.header("access-control-allow-origin"), "");
    let any = allowing(&["*"]).await;
    let told = preflight(&any, "https://elsewhere.example.com").await;
    assert_eq!(told.header("access-control-allow-origin"), "*");
}

#[tokio::test]
async fn it_is_off_by_default() {
    let mut app = TestApp::secured().await;
    app.credential = None;
    let told = preflight(&app, PAGE).await.expect(401);
    assert_eq!(told.header("access-control-allow-origin"), "");
}

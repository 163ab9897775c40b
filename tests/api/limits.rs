//! Rate limits: excess requests get 429 with `Retry-After`, and other clients are not affected.

use axum::http::Method;
use serde_json::{Value, json};
use slateberg_config::server::listen::RateLimitSettings;

use crate::support::app::{TestApp, TestResponse};
use crate::support::served_app::ServedApp;

/// A number of requests that exceeds the limits: the limits allow fewer requests in the time that
/// it takes to send them.
const MANY: usize = 5_000;

fn limits(change: impl FnOnce(&mut RateLimitSettings)) -> RateLimitSettings {
    let mut limits = RateLimitSettings::default();
    change(&mut limits);
    limits
}

async fn secured(limits: RateLimitSettings) -> TestApp {
    TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.server.rate_limits = limits;
    })
    .await
}

/// Sends requests until one is rejected.
async fn until_rejected(app: &TestApp, credential: &str) -> TestResponse {
    for _ in 0..MANY {
        let response = app.get_as(credential, "/v1/config").await;
        if response.status.as_u16() != 200 {
            return response;
        }
    }
    panic!("none of {MANY} requests was rejected");
}

#[tokio::test]
async fn principal_beyond_its_rate_limit_gets_429_with_retry_after() {
    let app = secured(limits(|it| {
        it.principal_requests_per_second = 1;
        it.principal_burst_requests_max = 20;
    }))
    .await;
    let other = app.key_with_role("reader").await;
    let rejection = until_rejected(&app, app.credential()).await;
    assert!(rejection.is_error_model(), "{}", rejection.body);
    let rejection = rejection.expect_error(429, "SlowDownException");
    assert_eq!(rejection.header("retry-after"), "1");
    assert!(rejection.message().starts_with("Too many requests"), "{}", rejection.message());
    // Each principal has its own limit, and the operator routes have none.
    app.get_as(&other, "/v1/config").await.expect(200);
    for path in ["/health", "/ready", "/metrics"] {
        for _ in 0..30 {
            app.get_as("", path).await.expect(200);
        }
    }
}

#[tokio::test]
async fn address_beyond_its_rate_limit_gets_429_regardless_of_its_credential() {
    let app = secured(limits(|it| {
        it.address_requests_per_second = 1;
        it.address_burst_requests_max = 5;
    }))
    .await;
    let server = ServedApp::start(app).await;
    let mut rejection = None;
    for _ in 0..MANY {
        let response = server.get("/v1/config").send().await.expect("it answers");
        if response.status().as_u16() != 401 {
            rejection = Some(response);
            break;
        }
    }
    let rejection = rejection.expect("one request is rejected");
    assert_eq!(rejection.status().as_u16(), 429);
    assert_eq!(rejection.headers()["retry-after"], "1");
    let body: Value = rejection.json().await.expect("JSON");
    assert_eq!(body["error"]["code"], json!(429));
    let health = server.get("/health").send().await.expect("it answers");
    assert_eq!(health.status().as_u16(), 200);
    // This request is passed to the router directly, without a TCP connection. It has no address,
    // so the limit per address does not apply to it.
    let credential = server.app.credential().to_owned();
    server.app.get_as(&credential, "/v1/config").await.expect(200);
}

#[tokio::test]
async fn principal_limit_does_not_apply_without_authentication() {
    let app = TestApp::with_settings(|settings| {
        settings.server.rate_limits.principal_requests_per_second = 1;
    })
    .await;
    for _ in 0..50 {
        app.request(Method::GET, "/v1/config", &[], &Value::Null).await.expect(200);
    }
}

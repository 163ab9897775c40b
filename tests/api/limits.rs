//! Rate limits: excess requests get 429 with `Retry-After`, and other clients are not affected.

use axum::http::Method;
use serde_json::{Value, json};
use slateberg_config::server::listen::RateLimitSettings;

use crate::support::app::{Answer, TestApp};
use crate::support::served::Served;

/// Number of requests of which at least one must be rejected, because the limits do not allow as
/// many in the time that the requests take.
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
async fn until_refused(app: &TestApp, credential: &str) -> Answer {
    for _ in 0..MANY {
        let answer = app.get_as(credential, "/v1/config").await;
        if answer.status.as_u16() != 200 {
            return answer;
        }
    }
    panic!("{MANY} requests were let in");
}

#[tokio::test]
async fn a_principal_that_comes_too_often_is_told_when_to_come_back() {
    let app = secured(limits(|it| {
        it.principal_requests_per_second = 1;
        it.principal_burst_requests_max = 20;
    }))
    .await;
    let other = app.key_with_role("reader").await;
    let refused = until_refused(&app, app.credential()).await;
    assert!(refused.is_error_model(), "{}", refused.body);
    let refused = refused.expect_error(429, "SlowDownException");
    assert_eq!(refused.header("retry-after"), "1");
    assert!(refused.message().starts_with("Too many requests"), "{}", refused.message());
    // Other clients have their own tokens, and operators are never limited.
    app.get_as(&other, "/v1/config").await.expect(200);
    for path in ["/health", "/ready", "/metrics"] {
        for _ in 0..30 {
            app.get_as("", path).await.expect(200);
        }
    }
}

#[tokio::test]
async fn an_address_that_comes_too_often_is_refused_whatever_it_brings() {
    let app = secured(limits(|it| {
        it.address_requests_per_second = 1;
        it.address_burst_requests_max = 5;
    }))
    .await;
    let server = Served::start(app).await;
    let mut refused = None;
    for _ in 0..MANY {
        let answer = server.get("/v1/config").send().await.expect("it answers");
        if answer.status().as_u16() != 401 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("one is refused");
    assert_eq!(refused.status().as_u16(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let body: Value = refused.json().await.expect("JSON");
    assert_eq!(body["error"]["code"], json!(429));
    let health = server.get("/health").send().await.expect("it answers");
    assert_eq!(health.status().as_u16(), 200);
    // Requests without a connection have no address.
    let credential = server.app.credential().to_owned();
    server.app.get_as(&credential, "/v1/config").await.expect(200);
}

#[tokio::test]
async fn where_everybody_is_let_in_nobody_is_one_principal() {
    let app = TestApp::with_settings(|settings| {
        settings.server.rate_limits.principal_requests_per_second = 1;
    })
    .await;
    for _ in 0..50 {
        app.request(Method::GET, "/v1/config", &[], &Value::Null).await.expect(200);
    }
}

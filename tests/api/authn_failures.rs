//! Invalid credentials are never accepted and never cause a 5xx. Repeated failures are delayed.

use axum::http::{HeaderName, HeaderValue, Method, Request, header};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use crate::support::app::TestApp;
use crate::support::served_app::ServedApp;

#[tokio::test]
async fn wrong_unknown_and_revoked_credentials_get_the_same_response() {
    let app = TestApp::secured().await;
    let (revoked_id, revoked) = app.make_key(json!({ "name": "gone" })).await;
    app.delete(&format!("/management/v1/api-keys/{revoked_id}")).await.expect(204);
    let elsewhere = TestApp::secured().await;
    let unknown = elsewhere.credential();
    let long = "x".repeat(20_000);
    let responses = [unknown, revoked.as_str(), "sb_", "nonsense", "a.b.c", long.as_str()];
    let mut texts = Vec::new();
    for credential in responses {
        let response = app.get_as(credential, "/v1/config").await;
        texts.push((
            response.error().0,
            response.body.clone(),
            response.header("www-authenticate").to_owned(),
        ));
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
}

/// Header values from well-formed to garbage.
fn credentials(good: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let good = good.to_owned();
    let part = "[A-Za-z0-9_-]{0,40}";
    prop_oneof![
        "[ -~]{0,200}".prop_map(String::into_bytes),
        proptest::collection::vec(32_u8..=255, 0..100),
        (part, part, part).prop_map(|(a, b, c)| format!("Bearer {a}.{b}.{c}").into_bytes()),
        "sb_[0-9A-Za-z]{49}".prop_map(|key| format!("Bearer {key}").into_bytes()),
        (0..good.len(), 33_u8..127).prop_map(move |(at, byte)| {
            let mut key = good.clone().into_bytes();
            key[at] = if key[at] == byte { b'!' } else { byte };
            [b"Bearer ", &key[..]].concat()
        }),
    ]
}

#[test]
fn forged_headers_are_rejected() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let app = runtime.block_on(TestApp::secured());
    let mut runner = TestRunner::new(Config { cases: 2000, ..Config::default() });
    let names = prop_oneof![Just("authorization"), Just("x-api-key")];
    let output = runner.run(&(names, credentials(app.credential())), |(name, value)| {
        let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
        for path in ["/v1/config", "/v1/oauth/tokens"] {
            let is_tokens = path.ends_with("tokens");
            let method = if is_tokens { Method::POST } else { Method::GET };
            let body = if is_tokens { "grant_type=client_credentials" } else { "" };
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header(HeaderName::from_static(name), value.clone())
                .header(header::CONTENT_LENGTH, body.len())
                .body(body.into())
                .expect("a request");
            let response = runtime.block_on(app.send(request));
            prop_assert_eq!(response.status.as_u16(), 401, "{} {:?}", path, &value);
        }
        Ok(())
    });
    output.expect("forged headers are rejected");
}

#[tokio::test]
async fn failures_of_one_address_are_counted_and_delay_no_other() {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.authn.failures_before_delay = 1;
        settings.authn.failure_delay_ms_max = 50;
    })
    .await;
    let server = ServedApp::start(app).await;
    let key = server.app.credential().to_owned();
    let failing = futures::future::join_all((0..8).map(|_| server.status("nonsense")));
    let (failed, good) = futures::join!(failing, server.status(&key));
    assert_eq!((failed, good), (vec![401; 8], 200));
    let metrics = server.get("/metrics").send().await.expect("it answers").text().await;
    let metrics = metrics.expect("text");
    assert!(metrics.contains("slateberg_authentication_failures_total 8"), "{metrics}");
}

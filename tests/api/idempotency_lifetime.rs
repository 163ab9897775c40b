//! Lifetime of `Idempotency-Key`s, and the state in replayed responses.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::bucket::bucket;
use crate::support::clock::HandClock;
use crate::support::table::{append, create_table, set_property};

const KEY: &str = "0195f1e0-0000-7000-8000-000000000001";
const TABLE: &str = "/v1/namespaces/ns/tables/t";

async fn with_key(app: &TestApp, method: Method, path: &str, body: &Value) -> TestResponse {
    app.request(method, path, &[("Idempotency-Key", KEY)], body).await
}

/// A catalog with a manual clock.
async fn with_hand_clock() -> (TestApp, Arc<HandClock>) {
    let clock = Arc::new(HandClock::default());
    let bucket = bucket();
    (TestApp::with_clock(bucket, memory_settings(), clock.clone()).await, clock)
}

#[tokio::test]
async fn idempotency_record_expires() {
    let (app, clock) = with_hand_clock().await;
    let body = json!({ "namespace": ["a"] });
    with_key(&app, Method::POST, "/v1/namespaces", &body).await.expect(200);
    clock.advance_seconds(30 * 60 - 1);
    with_key(&app, Method::POST, "/v1/namespaces", &body).await.expect(200);
    clock.advance_seconds(1);
    let anew = with_key(&app, Method::POST, "/v1/namespaces", &body).await;
    anew.expect_error(409, "AlreadyExistsException");
}

#[tokio::test]
async fn expired_idempotency_key_can_be_reused() {
    let (app, clock) = with_hand_clock().await;
    with_key(&app, Method::POST, "/v1/namespaces", &json!({ "namespace": ["a"] }))
        .await
        .expect(200);
    clock.advance_seconds(30 * 60);
    let other = json!({ "namespace": ["b"] });
    with_key(&app, Method::POST, "/v1/namespaces", &other).await.expect(200);
    with_key(&app, Method::POST, "/v1/namespaces", &other).await.expect(200);
}

#[tokio::test]
async fn background_task_removes_only_expired_idempotency_records() {
    let (app, clock) = with_hand_clock().await;
    let a = json!({ "namespace": ["a"] });
    with_key(&app, Method::POST, "/v1/namespaces", &a).await.expect(200);
    assert_eq!(app.app.runtime.catalog.maintenance().expire().await.expect("expiry works"), 0);
    clock.advance_seconds(30 * 60);
    assert_eq!(app.app.runtime.catalog.maintenance().expire().await.expect("expiry works"), 1);
    assert_eq!(app.app.runtime.catalog.maintenance().expire().await.expect("expiry works"), 0);
}

#[tokio::test]
async fn config_contains_the_idempotency_key_lifetime() {
    let app =
        TestApp::with_settings(|settings| settings.catalog.idempotency_lifetime_seconds = 7).await;
    let config = app.get("/v1/config").await.expect(200);
    assert_eq!(config.body["idempotency-key-lifetime"], "PT7S");
}

#[tokio::test]
async fn replayed_commit_may_return_the_newer_table_state() {
    let app = TestApp::with_table().await;
    let body = json!({ "requirements": [], "updates": append(1, None, 1) });
    with_key(&app, Method::POST, TABLE, &body).await.expect(200);
    app.commit("ns", "t", vec![], append(2, Some(1), 2)).await.expect(200);
    let loaded = app.get(TABLE).await.expect(200);
    let replayed = with_key(&app, Method::POST, TABLE, &body).await.expect(200);
    assert_eq!(replayed.body["metadata"], loaded.body["metadata"]);
    assert_eq!(replayed.header("etag"), loaded.header("etag"), "the tag of the returned state");
}

#[tokio::test]
async fn replayed_commit_to_a_dropped_table_returns_the_original_response() {
    let app = TestApp::with_table().await;
    let body = json!({ "requirements": [], "updates": append(1, None, 1) });
    let first = with_key(&app, Method::POST, TABLE, &body).await.expect(200);
    app.delete(TABLE).await.expect(204);
    let replayed = with_key(&app, Method::POST, TABLE, &body).await.expect(200);
    assert_eq!(replayed.body, first.body);
    app.get(TABLE).await.expect_error(404, "NoSuchTableException");
}

#[tokio::test]
async fn a_staged_create_may_be_staged_again() {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    let mut body = create_table("t");
    body["stage-create"] = json!(true);
    let path = "/v1/namespaces/ns/tables";
    with_key(&app, Method::POST, path, &body).await.expect(200);
    with_key(&app, Method::POST, path, &body).await.expect(200);
    app.get(TABLE).await.expect_error(404, "NoSuchTableException");
}

#[tokio::test]
async fn a_commit_without_effect_is_remembered_too() {
    let app = TestApp::with_table().await;
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    let body = json!({ "requirements": [], "updates": [set_property("a", "1")] });
    let first = with_key(&app, Method::POST, TABLE, &body).await.expect(200);
    app.commit("ns", "t", vec![], vec![set_property("a", "2")]).await.expect(200);
    with_key(&app, Method::POST, TABLE, &body).await.expect(200);
    let loaded = app.get(TABLE).await.expect(200);
    assert_eq!(loaded.body["metadata"]["properties"]["a"], "2", "the replay changes nothing");
    assert_ne!(loaded.body, first.body);
}

/// Without a record, a repeated registration would revert later commits to the table.
#[tokio::test]
async fn a_registration_without_effect_is_remembered_too() {
    let app = TestApp::with_table().await;
    let response = app.get(TABLE).await.expect(200);
    let location = &response.body["metadata-location"];
    let body = json!({ "name": "t", "metadata-location": location, "overwrite": true });
    let path = "/v1/namespaces/ns/register";
    with_key(&app, Method::POST, path, &body).await.expect(200);
    app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    let committed = app.get(TABLE).await.expect(200);
    with_key(&app, Method::POST, path, &body).await.expect(200);
    assert_eq!(app.get(TABLE).await.expect(200).body, committed.body, "the commit was reverted");
}

#[tokio::test]
async fn reads_ignore_an_idempotency_key() {
    let app = TestApp::with_table().await;
    for value in [KEY, "not a key"] {
        let headers = [("Idempotency-Key", value)];
        app.request(Method::GET, TABLE, &headers, &Value::Null).await.expect(200);
        app.request(Method::HEAD, TABLE, &headers, &Value::Null).await.expect(204);
    }
}

//! Cursors: the positions that consumers of the change feed store in the catalog.

use axum::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::{TestApp, TestResponse};
use crate::support::bucket::fresh_id;

const CURSORS: &str = "/management/v1/watch/cursors";

/// Returns the current position of the change feed.
async fn present(app: &TestApp) -> String {
    let body = app.get("/management/v1/watch").await.expect(200).body;
    body["next"].as_str().expect("a position").to_owned()
}

/// Creates a namespace, and returns the position after it.
async fn advance(app: &TestApp, name: &str) -> String {
    app.create_namespace(&[name]).await;
    present(app).await
}

async fn store(
    app: &TestApp,
    name: &str,
    (previous, position): (Option<&str>, &str),
    consumer: Uuid,
) -> TestResponse {
    let body = json!({ "position": position, "previous": previous, "consumer": consumer });
    app.request(Method::PUT, &format!("{CURSORS}/{name}"), &[], &body).await
}

async fn load(app: &TestApp, name: &str) -> Value {
    app.get(&format!("{CURSORS}/{name}")).await.expect(200).body
}

/// Returns the types of the events of cursors.
async fn events(app: &TestApp) -> Vec<String> {
    let body =
        app.get("/management/v1/watch?after=oldest&wait=0&type=cursor").await.expect(200).body;
    let events = body["events"].as_array().expect("a list").iter();
    events.map(|event| event["type"].as_str().expect("a type").to_owned()).collect()
}

#[tokio::test]
async fn cursor_keeps_its_position_across_a_restart() {
    let app = TestApp::new().await;
    let consumer = fresh_id();
    let begin = present(&app).await;
    store(&app, "c", (None, &begin), consumer).await.expect(204);
    let next = advance(&app, "a").await;
    assert_eq!(load(&app, "c").await["lag-changes"], 2, "its own creation, and a namespace");
    store(&app, "c", (Some(&begin), &next), consumer).await.expect(204);
    let app = app.restart().await;
    let cursor = load(&app, "c").await;
    assert_eq!((&cursor["position"], &cursor["lag-changes"]), (&json!(next), &json!(0)));
    assert_eq!(app.get(CURSORS).await.expect(200).body, json!({ "cursors": [cursor] }));
    app.delete(&format!("{CURSORS}/c")).await.expect(204);
    app.get(&format!("{CURSORS}/c")).await.expect_error(404, "NotFoundException");
    app.delete(&format!("{CURSORS}/c")).await.expect_error(404, "NotFoundException");
    assert_eq!(events(&app).await, ["cursor.created", "cursor.deleted"], "no event for a position");
}

#[tokio::test]
async fn only_one_of_two_processes_advances_a_cursor() {
    let app = TestApp::new().await;
    let (first, second) = (fresh_id(), fresh_id());
    let begin = present(&app).await;
    store(&app, "c", (None, &begin), first).await.expect(204);
    let next = advance(&app, "a").await;
    store(&app, "c", (Some(&begin), &next), first).await.expect(204);
    // The response was lost, so the process repeats the request.
    store(&app, "c", (Some(&begin), &next), first).await.expect(204);
    for position in [&next, &advance(&app, "b").await] {
        let rejected = store(&app, "c", (Some(&begin), position), second).await;
        rejected.expect_error(409, "CommitFailedException");
    }
    let created = store(&app, "c", (None, &begin), second).await;
    created.expect_error(409, "CommitFailedException");
    assert_eq!(load(&app, "c").await["position"], next);
    assert_eq!(load(&app, "c").await["consumer"], json!(first));
    // A process that is started later continues at the position of the earlier one.
    let last = present(&app).await;
    store(&app, "c", (Some(&next), &last), second).await.expect(204);
    store(&app, "c", (Some(&next), &last), first).await.expect_error(409, "CommitFailedException");
}

#[tokio::test]
async fn invalid_cursor_is_rejected_and_leaves_no_trace() {
    let app = TestApp::new().await;
    let (consumer, position) = (fresh_id(), present(&app).await);
    for invalid in ["", "oldest", "a", &position[1..]] {
        let rejected = store(&app, "c", (None, invalid), consumer).await;
        rejected.expect_error(400, "IllegalArgumentException");
    }
    let long = "n".repeat(1000);
    for name in ["a%20b", "%C3%A4", "..%2F", &long, &fresh_id().to_string()] {
        let rejected = store(&app, name, (None, &position), consumer).await;
        rejected.expect_error(400, "IllegalArgumentException");
    }
    let missing = store(&app, "c", (Some(&position), &position), consumer).await;
    missing.expect_error(404, "NotFoundException");
    for body in [json!({ "position": position }), json!({ "position": position, "consumer": 1 })] {
        app.request(Method::PUT, &format!("{CURSORS}/c"), &[], &body).await.expect(400);
    }
    assert_eq!(app.get(CURSORS).await.expect(200).body, json!({ "cursors": [] }));
    assert!(events(&app).await.is_empty());
}

#[tokio::test]
async fn number_of_cursors_is_limited() {
    let app = TestApp::new().await;
    let (consumer, position) = (fresh_id(), present(&app).await);
    for number in 0..1000 {
        store(&app, &format!("c{number}"), (None, &position), consumer).await.expect(204);
    }
    let rejected = store(&app, "one-more", (None, &position), consumer).await;
    rejected.expect_error(422, "UnprocessableEntityException");
    store(&app, "c7", (Some(&position), &position), consumer).await.expect(204);
    app.delete(&format!("{CURSORS}/c7")).await.expect(204);
    store(&app, "one-more", (None, &position), consumer).await.expect(204);
}

#[tokio::test]
async fn cursors_require_their_own_permission() {
    let policies = r#"
        @id("consumers")
        permit(principal in Role::"consumer", action in [Action::"Watch", Action::"ManageCursors"], resource);
    "#;
    let app = TestApp::with_policies(policies, |_| {}).await;
    let consumer = app.key_with_role("consumer").await;
    let reader = app.key_with_role("reader").await;
    let position = present(&app).await;
    let body = &json!({ "position": position, "consumer": fresh_id() });
    let path = &format!("{CURSORS}/c");
    app.request_as(&reader, Method::PUT, path, body).await.expect_error(403, "ForbiddenException");
    app.request_as(&consumer, Method::PUT, path, body).await.expect(204);
    app.get_as(&consumer, path).await.expect(200);
    for method in [Method::GET, Method::DELETE] {
        app.request_as(&reader, method, path, &Value::Null)
            .await
            .expect_error(403, "ForbiddenException");
    }
    let webhooks = app.get_as(&consumer, "/management/v1/webhooks").await;
    webhooks.expect_error(403, "ForbiddenException");
}

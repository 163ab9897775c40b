//! `Idempotency-Key`: a repeated mutation runs once, and gets the response of the first.

use axum::http::Method;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::function::{FUNCTIONS, function};
use crate::support::table::{append, create_table, main_is, set_property};
use crate::support::view::{create_view, replace_query};

/// The `n`-th key of a test.
fn key(n: usize) -> String {
    format!("0195f1e0-0000-7000-8000-{n:012}")
}

async fn send(app: &TestApp, key: &str, method: &Method, path: &str, body: &Value) -> TestResponse {
    app.request(method.clone(), path, &[("Idempotency-Key", key)], body).await
}

async fn post(app: &TestApp, key: &str, path: &str, body: &Value) -> TestResponse {
    send(app, key, &Method::POST, path, body).await
}

const DROPPED_FUNCTION: &str = "/management/v1/functions?resource=function%3Adefault%2Fb%2Ff";

/// A mutation, and the status of its response.
type Mutation = (Method, &'static str, Value, u16);

/// Returns all kinds of mutations in an order in which each succeeds exactly once.
async fn mutations(app: &TestApp) -> Vec<Mutation> {
    app.create_namespace(&["b"]).await;
    let registered = app.create_table("b", "registered").await.body["metadata-location"].clone();
    let view = app.create_view("b", "view").await.body["metadata-location"].clone();
    app.create_table("b", "dropped").await;
    app.create_table("b", "unregistered").await;
    let rename = |from: &str, to: &str| {
        json!({ "source": { "namespace": ["a"], "name": from },
                "destination": { "namespace": ["b"], "name": to } })
    };
    let change = |name: &str| {
        json!({ "identifier": { "namespace": ["b"], "name": name }, "requirements": [main_is(None)],
                "updates": append(1, None, 1) })
    };
    let commit = json!({ "requirements": [main_is(None)], "updates": append(1, None, 1) });
    let replace = json!({ "requirements": [], "updates": replace_query("SELECT 2") });
    let changes = json!({ "table-changes": [change("registered"), change("r")] });
    let register = json!({ "name": "r", "metadata-location": registered });
    let register_view = json!({ "name": "rv", "metadata-location": view });
    let properties = json!({ "updates": { "k": "v" }, "removals": ["missing"] });
    let null = Value::Null;
    vec![
        (Method::POST, "/v1/namespaces", json!({ "namespace": ["a"] }), 200),
        (Method::POST, "/v1/namespaces/a/properties", properties, 200),
        (Method::POST, "/v1/namespaces/a/tables", create_table("t"), 200),
        (Method::POST, "/v1/namespaces/a/tables/t", commit, 200),
        (Method::POST, "/v1/namespaces/a/views", create_view("v"), 200),
        (Method::POST, "/v1/namespaces/a/views/v", replace, 200),
        (Method::POST, "/v1/namespaces/b/register", register, 200),
        (Method::POST, "/v1/namespaces/b/register-view", register_view, 200),
        (Method::POST, "/v1/transactions/commit", changes, 204),
        (Method::POST, "/v1/tables/rename", rename("t", "t"), 204),
        (Method::POST, "/v1/views/rename", rename("v", "v"), 204),
        (Method::POST, "/v1/namespaces/b/tables/unregistered/unregister", null.clone(), 200),
        (Method::DELETE, "/v1/namespaces/b/tables/dropped", null.clone(), 204),
        (Method::DELETE, "/v1/namespaces/b/views/v", null.clone(), 204),
        (Method::POST, FUNCTIONS, function("function:default/b/f", "x"), 201),
        (Method::PUT, FUNCTIONS, function("function:default/b/f", "x + 1"), 200),
        (Method::DELETE, DROPPED_FUNCTION, null.clone(), 204),
        (Method::DELETE, "/v1/namespaces/a", null, 204),
    ]
}

/// A catalog in which a table can be registered twice.
async fn registering() -> TestApp {
    TestApp::with_settings(|settings| settings.catalog.overlapping_locations = true).await
}

#[tokio::test]
async fn repeated_mutation_is_applied_once_and_gets_the_same_response() {
    let app = registering().await;
    for (n, (method, path, body, status)) in mutations(&app).await.into_iter().enumerate() {
        let first = send(&app, &key(n), &method, path, &body).await.expect(status);
        let before = app.dump().await;
        for _ in 0..2 {
            let again = send(&app, &key(n), &method, path, &body).await.expect(status);
            assert_eq!(again.body, first.body, "{method} {path}");
        }
        assert_eq!(app.dump().await, before, "{method} {path} was applied again");
        // Requests that get the status 204, and `unregister`, fail if they are repeated without the
        // key. The transaction is an exception, because the catalog recognizes its repeated
        // appends.
        let fails_without_key = status == 204 || path.ends_with("/unregister");
        if fails_without_key && path != "/v1/transactions/commit" {
            let plain = app.request(method.clone(), path, &[], &body).await;
            assert!(plain.status.is_client_error(), "{method} {path}: {}", plain.status);
        }
    }
}

#[tokio::test]
async fn idempotency_records_survive_a_restart() {
    let mut app = registering().await;
    for (n, (method, path, body, status)) in mutations(&app).await.into_iter().enumerate() {
        let first = send(&app, &key(n), &method, path, &body).await.expect(status);
        app = app.restart().await;
        let again = send(&app, &key(n), &method, path, &body).await.expect(status);
        assert_eq!(again.body, first.body, "{method} {path}");
    }
}

#[tokio::test]
async fn idempotency_key_of_another_request_is_rejected() {
    let app = TestApp::new().await;
    let create = |name: &str| json!({ "namespace": [name] });
    post(&app, &key(1), "/v1/namespaces", &create("a")).await.expect(200);
    let message = format!("Idempotency-Key {} was used for another request", key(1));
    let others = [
        (Method::POST, "/v1/namespaces", create("b")),
        (Method::POST, "/v1/namespaces?x=1", create("a")),
        (Method::POST, "/v1/default/namespaces", create("a")),
        (Method::DELETE, "/v1/namespaces/a", Value::Null),
    ];
    for (method, path, body) in others {
        let headers = [("Idempotency-Key", key(1))];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        let rejection = app.request_without_effect(method, path, &headers, &body).await;
        assert_eq!(rejection.error(), (422, "UnprocessableEntityException", message.as_str()));
    }
    post(&app, &key(1), "/v1/namespaces", &create("a")).await.expect(200);
    post(&app, &key(2), "/v1/namespaces", &create("b")).await.expect(200);
}

#[tokio::test]
async fn invalid_idempotency_key_is_rejected() {
    let app = TestApp::with_table().await;
    let body = json!({ "requirements": [], "updates": [set_property("a", "1")] });
    let broken = [
        "",
        "x",
        "0195f1e000007000800000000000000001",
        "{0195f1e0-0000-7000-8000-000000000001}",
        "0195f1e0-0000-7000-8000-00000000000g",
        "0195f1e0-0000-7000-8000-000000000001 ",
        "0195f1e0-0000-7000-8000-0000000000012",
        "urn:uuid:0195f1e0-0000-7000-8000-0000",
    ];
    for key in broken {
        let headers = [("Idempotency-Key", key)];
        let path = "/v1/namespaces/ns/tables/t";
        let rejection = app.request_without_effect(Method::POST, path, &headers, &body).await;
        assert_eq!(
            rejection.error(),
            (
                400,
                "BadRequestException",
                "Invalid Idempotency-Key: expected a UUID of 36 characters"
            ),
            "{key}"
        );
    }
}

#[tokio::test]
async fn rejection_is_replayed_for_its_idempotency_key() {
    let app = TestApp::with_table().await;
    let commit = json!({ "requirements": [main_is(Some(1))], "updates": append(2, Some(1), 2) });
    let path = "/v1/namespaces/ns/tables/t";
    let rejection = post(&app, &key(1), path, &commit).await;
    let text = "Requirement failed: branch or tag main is missing, expected 1";
    assert_eq!(rejection.error(), (409, "CommitFailedException", text));
    let missing = post(&app, &key(2), "/v1/namespaces/ns/tables/u", &commit).await;
    assert_eq!(missing.error(), (404, "NoSuchTableException", "Table does not exist: ns.u"));
    // After these changes, both requests would succeed if they were not replayed.
    app.commit("ns", "t", vec![], append(1, None, 1)).await.expect(200);
    app.create_table("ns", "u").await;
    app.commit("ns", "u", vec![], append(1, None, 1)).await.expect(200);
    let app = app.restart().await;
    assert_eq!(post(&app, &key(1), path, &commit).await.error(), rejection.error());
    let again = post(&app, &key(2), "/v1/namespaces/ns/tables/u", &commit).await;
    assert_eq!(again.error(), missing.error());
    post(&app, &key(3), path, &commit).await.expect(200);
}

#[tokio::test]
async fn concurrent_requests_with_one_idempotency_key_are_applied_once() {
    let app = TestApp::with_table().await;
    let path = "/v1/namespaces/ns/tables/t";
    let body = json!({ "requirements": [main_is(None)], "updates": append(1, None, 1) });
    let key = key(1);
    let responses = join_all((0..16).map(|_| post(&app, &key, path, &body))).await;
    for answer in &responses {
        assert_eq!((answer.status.as_u16(), &answer.body), (200, &responses[0].body));
    }
    let loaded = app.get(path).await.expect(200);
    assert_eq!(loaded.body["metadata"]["metadata-log"].as_array().map(Vec::len), Some(1));
}

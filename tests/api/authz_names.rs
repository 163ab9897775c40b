//! Invalid names from callers without permissions. They are rejected before any policy is
//! evaluated, because an evaluation would process all levels of a name.

use std::time::{Duration, Instant};

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::metrics_report::scan_report;
use crate::support::path;
use crate::support::table::{create_table, set_property};
use crate::support::view::create_view;

/// Role `guest` sees that the warehouse exists, but not its contents. A policy depends on
/// attributes of namespaces, so an evaluation reads the attributes of each level.
const POLICIES: &str = r#"
@id("way-in") permit (
  principal in Role::"guest",
  action == Action::"ReadConfig",
  resource == Warehouse::"default"
);
@id("secret") forbid (principal in Role::"guest", action == Action::"Load", resource is Table)
when { resource.namespace.hasTag("secret") };
"#;

async fn app() -> TestApp {
    let app = TestApp::with_policies(POLICIES, |_| {}).await;
    app.post("/v1/default/namespaces", json!({ "namespace": ["ns"] })).await.expect(200);
    app.post("/v1/default/namespaces/ns/tables", create_table("t")).await.expect(200);
    app
}

/// Requests with a namespace of this many levels in the body.
fn in_bodies(levels: usize) -> Vec<(Method, String, Value)> {
    let deep = vec!["a"; levels];
    let word = |kind: &str| format!("{kind}:default/{}", deep.join("/"));
    let there = json!({ "namespace": ["ns"], "name": "t" });
    let nowhere = json!({ "namespace": deep, "name": "t" });
    let rename = |from: &Value, to: &Value| json!({ "source": from, "destination": to });
    let commit = |requirements: Value| {
        let change = json!({ "identifier": nowhere, "requirements": requirements,
                             "updates": [set_property("a", "b")] });
        json!({ "table-changes": [change] })
    };
    let authorize = |kind: &str, action: &str| json!({ "action": action, "resource": word(kind) });
    let grant =
        |kind: &str| json!({ "template": "read", "grantee": "role:r", "resource": word(kind) });
    let job = json!({ "kind": "orphan-removal", "resource": word("table"), "dry-run": true });
    let cases = [
        ("/v1/default/namespaces", json!({ "namespace": deep })),
        ("/v1/default/tables/rename", rename(&there, &nowhere)),
        ("/v1/default/tables/rename", rename(&nowhere, &there)),
        ("/v1/default/views/rename", rename(&there, &nowhere)),
        ("/v1/default/views/rename", rename(&nowhere, &there)),
        ("/v1/default/transactions/commit", commit(json!([]))),
        ("/v1/default/transactions/commit", commit(json!([{ "type": "assert-create" }]))),
        ("/management/v1/authorize", authorize("namespace", "DescribeNamespace")),
        ("/management/v1/authorize", authorize("table", "Load")),
        ("/management/v1/authorize", authorize("view", "Load")),
        ("/management/v1/grants", grant("namespace")),
        ("/management/v1/grants", grant("table")),
        ("/management/v1/jobs", job),
    ];
    cases.map(|(path, body)| (Method::POST, path.to_owned(), body)).into()
}

/// Requests with a namespace of this many levels in the path.
fn in_paths(levels: usize) -> Vec<(Method, String, Value)> {
    let deep = vec!["a"; levels];
    let (joined, word) = (path::namespace(&deep), deep.join("/"));
    let inside = format!("/v1/default/namespaces/{joined}");
    let (table, view) = (format!("{inside}/tables/t"), format!("{inside}/views/v"));
    let file = json!({ "name": "x", "metadata-location": "memory:///warehouse/x.json" });
    let updates = json!({ "requirements": [], "updates": [set_property("a", "b")] });
    let create = json!({ "requirements": [{ "type": "assert-create" }], "updates": [] });
    let properties = json!({ "updates": { "a": "b" } });
    let report = scan_report();
    let read = |path: String| (Method::GET, path, Value::Null);
    let delete = |path: &str| (Method::DELETE, path.to_owned(), Value::Null);
    let post = |path: String, body: Value| (Method::POST, path, body);
    vec![
        read(format!("/v1/default/namespaces?parent={joined}")),
        read(inside.clone()),
        (Method::HEAD, inside.clone(), Value::Null),
        delete(&inside),
        post(format!("{inside}/properties"), properties),
        read(format!("{inside}/tables")),
        read(format!("{inside}/views")),
        post(format!("{inside}/tables"), create_table("x")),
        post(format!("{inside}/views"), create_view("x")),
        post(format!("{inside}/register"), file.clone()),
        post(format!("{inside}/register-view"), file),
        read(table.clone()),
        (Method::HEAD, table.clone(), Value::Null),
        read(format!("{table}/credentials")),
        delete(&table),
        delete(&format!("{table}?purgeRequested=true")),
        post(table.clone(), updates.clone()),
        post(table.clone(), create),
        post(format!("{table}/unregister"), Value::Null),
        post(format!("{table}/metrics"), report),
        read(view.clone()),
        (Method::HEAD, view.clone(), Value::Null),
        delete(&view),
        post(view, updates),
        read(format!("/management/v1/permissions?resource=namespace:default/{word}")),
        read(format!("/management/v1/permissions?resource=table:default/{word}")),
    ]
}

/// Sends a request that must be rejected quickly.
async fn rejection(
    app: &TestApp,
    key: &str,
    (method, path, body): &(Method, String, Value),
) -> TestResponse {
    let begun = Instant::now();
    let answer = app.request_as(key, method.clone(), path, body).await;
    let took = begun.elapsed();
    let path: String = path.chars().take(100).collect();
    assert!(
        matches!(answer.status.as_u16(), 400 | 403 | 404),
        "{method} {path}: {}",
        answer.status
    );
    assert!(method == Method::HEAD || answer.is_error_model(), "{method} {path}: {}", answer.body);
    assert!(took < Duration::from_secs(10), "{method} {path} took {took:?}");
    answer
}

#[tokio::test]
async fn name_with_a_hundred_thousand_levels_is_rejected_before_policies() {
    let app = app().await;
    let (nobody, guest) = (app.key_with_role("nobody").await, app.key_with_role("guest").await);
    // Paths are limited by the maximum length of a URI.
    let requests = [in_bodies(100_000), in_paths(10_000)].concat();
    for request in &requests {
        for key in [&nobody, &guest] {
            rejection(&app, key, request).await;
        }
    }
    app.get("/v1/default/namespaces/ns/tables/t").await.expect(200);
}

#[tokio::test]
async fn invalid_name_gets_the_same_response_with_and_without_permissions() {
    let app = app().await;
    let guest = app.key_with_role("guest").await;
    // In the notation of a table, the last of the 34 names is that of the table. So its namespace
    // has 33 levels, one more than allowed.
    for request in [in_bodies(34), in_paths(34)].concat() {
        let (with, without) = (
            rejection(&app, app.credential(), &request).await,
            rejection(&app, &guest, &request).await,
        );
        let (method, path, _) = &request;
        assert_eq!((with.status, with.body), (without.status, without.body), "{method} {path}");
    }
}

#[tokio::test]
async fn invalid_creation_is_rejected_before_policies_are_evaluated() {
    let app = app().await;
    let guest = app.key_with_role("guest").await;
    let long = "x".repeat(513);
    let large = "x".repeat((1 << 20) + 1);
    let spaces = "/v1/default/namespaces";
    let inside = "/v1/default/namespaces/ns";
    let cases = [
        (spaces.to_owned(), json!({ "namespace": [long] })),
        (spaces.to_owned(), json!({ "namespace": ["x"], "properties": { "a": large } })),
        (format!("{inside}/tables"), create_table(&long)),
        (format!("{inside}/views"), create_view(&long)),
    ];
    for (path, body) in cases {
        let answer = app.request_as(&guest, Method::POST, &path, &body).await;
        answer.expect_error(400, "IllegalArgumentException");
    }
    // The same request with valid names is rejected by the policies.
    let fits = json!({ "namespace": ["x"], "properties": { "a": "b" } });
    let answer = app.request_as(&guest, Method::POST, spaces, &fits).await;
    answer.expect_error(403, "ForbiddenException");
}

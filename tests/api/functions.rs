//! Functions: clients list and load them, and the management API changes them.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::fsck::assert_sound;
use crate::support::function::{FUNCTIONS, function};
use crate::support::path;

const LIST: &str = "/v1/namespaces/ns/functions";
const LOAD: &str = "/v1/namespaces/ns/functions/f";
const NAME: &str = "function:default/ns/f";

async fn app_with_namespace() -> TestApp {
    let app = TestApp::new().await;
    app.create_namespace(&["ns"]).await;
    app
}

async fn put(app: &TestApp, body: &Value) -> TestResponse {
    app.request(Method::PUT, FUNCTIONS, &[], body).await
}

async fn drop_function(app: &TestApp, name: &str) -> TestResponse {
    app.delete(&format!("{FUNCTIONS}?resource={}", path::segment(name))).await
}

async fn names(app: &TestApp) -> Value {
    app.get(LIST).await.expect(200).body["identifiers"].clone()
}

#[tokio::test]
async fn created_function_is_listed_and_loaded_beside_a_table_of_the_same_name() {
    let app = app_with_namespace().await;
    app.create_table("ns", "f").await;
    let created = app.post(FUNCTIONS, function(NAME, "x + 1")).await.expect(201).body;
    assert_eq!((&created["resource"], &created["version"]), (&json!(NAME), &json!(1)));
    app.post(FUNCTIONS, function("function:default/ns/a", "x")).await.expect(201);
    assert_eq!(names(&app).await, json!([["ns", "a"], ["ns", "f"]]));
    let loaded = app.get(LOAD).await.expect(200).body;
    let metadata = &loaded["metadata"];
    assert_eq!(metadata["function-uuid"], created["function-uuid"]);
    let definition = &metadata["definitions"][0];
    assert_eq!(definition["definition-id"], "int");
    assert_eq!(definition["versions"][0]["representations"][0]["sql"], "x + 1");
    let app = app.restart().await;
    assert_eq!(app.get(LOAD).await.expect(200).body, loaded);
    app.get("/v1/namespaces/ns/tables/f").await.expect(200);
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn missing_function_or_namespace_returns_404() {
    let app = app_with_namespace().await;
    app.get(LOAD).await.expect_error(404, "NoSuchFunctionException");
    app.get("/v1/namespaces/no/functions").await.expect_error(404, "NoSuchNamespaceException");
    app.get("/v1/namespaces/no/functions/f").await.expect_error(404, "NoSuchFunctionException");
    put(&app, &function(NAME, "x")).await.expect_error(404, "NoSuchFunctionException");
    drop_function(&app, NAME).await.expect_error(404, "NoSuchFunctionException");
    let elsewhere = function("function:default/no/f", "x");
    app.post(FUNCTIONS, elsewhere).await.expect_error(404, "NoSuchNamespaceException");
    let elsewhere = function("function:no/ns/f", "x");
    app.post(FUNCTIONS, elsewhere).await.expect_error(404, "NoSuchWarehouseException");
}

#[tokio::test]
async fn replaced_function_keeps_its_earlier_version() {
    let app = app_with_namespace().await;
    app.post(FUNCTIONS, function(NAME, "x + 1")).await.expect(201);
    app.post(FUNCTIONS, function(NAME, "x")).await.expect_error(409, "AlreadyExistsException");
    let same = put(&app, &function(NAME, "x + 1")).await.expect(200).body;
    assert_eq!(same["version"], 1, "nothing changed");
    let mut next = function(NAME, "1 + x");
    next["properties"] = json!({ "team": "a" });
    next["expected-version"] = json!(2);
    put(&app, &next).await.expect_error(409, "CommitFailedException");
    next["expected-version"] = json!(1);
    assert_eq!(put(&app, &next).await.expect(200).body["version"], 2);
    let metadata = app.get(LOAD).await.expect(200).body["metadata"].clone();
    let definition = &metadata["definitions"][0];
    assert_eq!(definition["current-version-id"], 2);
    assert_eq!(definition["versions"].as_array().map(Vec::len), Some(2));
    assert_eq!(metadata["definition-log"].as_array().map(Vec::len), Some(2));
    assert_eq!(metadata["properties"], json!({ "team": "a" }));
}

#[tokio::test]
async fn namespace_with_a_function_is_not_empty() {
    let app = app_with_namespace().await;
    app.post(FUNCTIONS, function(NAME, "x")).await.expect(201);
    let refused = app.delete("/v1/namespaces/ns").await;
    assert!(refused.message().contains("it contains functions"), "{}", refused.body);
    refused.expect_error(409, "NamespaceNotEmptyException");
    drop_function(&app, NAME).await.expect(204);
    assert_eq!(names(&app).await, json!([]));
    app.delete("/v1/namespaces/ns").await.expect(204);
}

#[tokio::test]
async fn protected_function_cannot_be_dropped() {
    let app = app_with_namespace().await;
    app.post(FUNCTIONS, function(NAME, "x")).await.expect(201);
    let protections = "/management/v1/protections";
    let protected = app.post(protections, json!({ "resource": NAME })).await.expect(200);
    drop_function(&app, NAME).await.expect_error(409, "ConflictException");
    put(&app, &function(NAME, "x + 1")).await.expect(200);
    let app = app.restart().await;
    let id = protected.body["id"].as_str().expect("an id");
    app.delete(&format!("{protections}/{id}")).await.expect(204);
    drop_function(&app, NAME).await.expect(204);
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn changes_of_a_function_are_in_the_history_and_in_the_change_feed() {
    let app = app_with_namespace().await;
    app.post(FUNCTIONS, function(NAME, "x")).await.expect(201);
    put(&app, &function(NAME, "x")).await.expect(200);
    put(&app, &function(NAME, "x + 1")).await.expect(200);
    let history = app.get(&format!("/management/v1/history?resource={NAME}")).await.expect(200);
    let actions: Vec<_> = history.body["entries"].as_array().expect("a list").iter().collect();
    let actions: Vec<_> = actions.iter().map(|it| it["action"].clone()).collect();
    assert_eq!(actions, ["replace_function", "create_function"]);
    drop_function(&app, NAME).await.expect(204);
    let query = format!("wait=0&after=oldest&resource={NAME}&type=function");
    let watched = app.get(&format!("/management/v1/watch?{query}")).await.expect(200).body;
    let events = watched["events"].as_array().expect("a list").iter();
    let events: Vec<_> = events.filter(|it| it["type"] != "progress").cloned().collect();
    let types: Vec<_> = events.iter().map(|it| it["type"].clone()).collect();
    assert_eq!(types, ["function.created", "function.updated", "function.dropped"]);
    assert_eq!(events[0]["resource"]["kind"], "function");
    assert_eq!(events[0]["resource"]["name"], "f");
}

#[tokio::test]
async fn policies_decide_on_functions_by_name_and_property() {
    let hide = r#"
@id("hidden")
forbid (principal in Role::"reader", action == Action::"Load", resource is Function)
when { resource.hasTag("secret") };
"#;
    let app = TestApp::with_policies(hide, |_| {}).await;
    app.create_namespace(&["ns"]).await;
    app.post(FUNCTIONS, function(NAME, "x")).await.expect(201);
    let mut secret = function("function:default/ns/secret", "x");
    secret["properties"] = json!({ "secret": "yes" });
    app.post(FUNCTIONS, secret.clone()).await.expect(201);
    let (reader, writer) = (app.key_with_role("reader").await, app.key_with_role("writer").await);
    let listed = app.get_as(&reader, LIST).await.expect(200).body;
    assert_eq!(listed["identifiers"], json!([["ns", "f"]]));
    assert_eq!(
        app.get_as(&writer, LIST).await.body["identifiers"].as_array().map(Vec::len),
        Some(2)
    );
    app.get_as(&reader, LOAD).await.expect(200);
    let hidden = format!("{LIST}/secret");
    app.get_as(&reader, &hidden).await.expect_error(404, "NoSuchFunctionException");
    app.get_as(&writer, &hidden).await.expect(200);
    let change = |key: String, method, body: Value| {
        let app = &app;
        async move { app.request_as(&key, method, FUNCTIONS, &body).await }
    };
    let new = function("function:default/ns/new", "x");
    let refused = change(reader.clone(), Method::POST, new.clone()).await;
    refused.expect_error(403, "ForbiddenException");
    let refused = change(reader.clone(), Method::PUT, function(NAME, "1")).await;
    refused.expect_error(403, "ForbiddenException");
    let refused = change(reader, Method::PUT, secret).await;
    refused.expect_error(404, "NoSuchFunctionException");
    change(writer.clone(), Method::POST, new).await.expect(201);
    change(writer, Method::PUT, function(NAME, "1")).await.expect(200);
}

#[tokio::test]
async fn invalid_functions_are_rejected_and_leave_no_trace() {
    let app = app_with_namespace().await;
    let with = |pointer: &str, value: Value| {
        let mut body = function(NAME, "x");
        *body.pointer_mut(pointer).expect("it is there") = value;
        body
    };
    for body in [
        with("/resource", json!("table:default/ns/f")),
        with("/resource", json!("function:default/f")),
        with("/definitions", json!([])),
        with("/definitions/0/return-type", json!("bigint")),
        with("/definitions/0/return-type", json!({ "type": "list" })),
        with("/definitions/0/parameters/0/name", json!("")),
        with("/definitions/0/representations", json!([])),
        with("/definitions/0/representations/0/sql", json!("")),
        with("/definitions/0/representations/0/sql", json!("x".repeat(300_000))),
    ] {
        app.post(FUNCTIONS, body).await.expect_error(400, "IllegalArgumentException");
    }
    let unknown = with("/definitions/0/representations/0", json!({ "dialect": "a", "body": "x" }));
    app.post(FUNCTIONS, unknown).await.expect_error(400, "BadRequestException");
    app.delete(FUNCTIONS).await.expect(400);
    assert_eq!(names(&app).await, json!([]));
}

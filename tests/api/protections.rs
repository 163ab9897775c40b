//! Protections: a removal or rename of a protected resource is rejected until its protection is
//! lifted.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::fsck::assert_sound;
use crate::support::table::{create_table, set_property};
use crate::support::view::create_view;

const PROTECTIONS: &str = "/management/v1/protections";
const TABLE: &str = "/v1/namespaces/ns/tables/t";

async fn protect(app: &TestApp, resource: &str) -> TestResponse {
    app.post(PROTECTIONS, json!({ "resource": resource })).await
}

async fn unprotect(app: &TestApp, protected: &TestResponse) {
    let id = protected.body["id"].as_str().expect("an id");
    app.delete(&format!("{PROTECTIONS}/{id}")).await.expect(204);
}

fn rename(kind: &str, from: &str, to: &str) -> (String, Value) {
    let name = |name: &str| json!({ "namespace": ["ns"], "name": name });
    (format!("/v1/{kind}/rename"), json!({ "source": name(from), "destination": name(to) }))
}

#[tokio::test]
async fn protected_table_can_be_changed_but_not_removed_renamed_or_replaced() {
    let app = TestApp::with_table().await;
    let file = app.get(TABLE).await.body["metadata-location"].clone();
    let protected = protect(&app, "table:default/ns/t").await.expect(200);
    let (path, body) = rename("tables", "t", "u");
    let register = json!({ "name": "t", "metadata-location": file, "overwrite": true });
    let refused = [
        app.delete(TABLE).await,
        app.delete(&format!("{TABLE}?purgeRequested=true")).await,
        app.post(&format!("{TABLE}/unregister"), Value::Null).await,
        app.post(&path, body.clone()).await,
        app.post("/v1/namespaces/ns/register", register.clone()).await,
    ];
    for answer in refused {
        assert!(answer.message().contains("table:default/ns/t is protected"), "{}", answer.body);
        answer.expect_error(409, "ConflictException");
    }
    app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    app.get(TABLE).await.expect(200);
    let app = app.restart().await;
    app.delete(TABLE).await.expect_error(409, "ConflictException");
    unprotect(&app, &protected).await;
    app.post("/v1/namespaces/ns/register", register).await.expect(200);
    app.post(&path, body).await.expect(204);
    app.delete("/v1/namespaces/ns/tables/u").await.expect(204);
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn protected_view_namespace_and_warehouse_cannot_be_removed() {
    let app = TestApp::with_table().await;
    app.post("/v1/namespaces/ns/views", create_view("v")).await.expect(200);
    app.create_namespace(&["empty"]).await;
    let lake = json!({ "name": "lake", "storage": { "location": "memory:///lake" } });
    app.post("/management/v1/warehouses", lake).await.expect(201);
    for (resource, path) in [
        ("view:default/ns/v", "/v1/namespaces/ns/views/v"),
        ("namespace:default/empty", "/v1/namespaces/empty"),
        ("warehouse:lake", "/management/v1/warehouses/lake"),
    ] {
        let protected = protect(&app, resource).await.expect(200);
        let refused = app.delete(path).await.expect_error(409, "ConflictException");
        assert!(refused.message().contains(resource), "{}", refused.message());
        unprotect(&app, &protected).await;
        app.delete(path).await.expect(204);
    }
    let protected = protect(&app, "namespace:default/ns").await.expect(200);
    // The protection applies only to the namespace itself, and not to its tables.
    app.delete(TABLE).await.expect(204);
    app.delete("/v1/namespaces/ns").await.expect_error(409, "ConflictException");
    unprotect(&app, &protected).await;
    app.delete("/v1/namespaces/ns").await.expect(204);
}

#[tokio::test]
async fn protecting_twice_returns_the_first_protection() {
    let app = TestApp::with_table().await;
    let request = json!({ "resource": "table:default/ns/t", "comment": "audit" });
    let first = app.post(PROTECTIONS, request).await.expect(200).body;
    assert_eq!(first["comment"], "audit");
    assert_eq!(protect(&app, "table:default/ns/t").await.expect(200).body, first);
    let listed = app.get(PROTECTIONS).await.expect(200).body;
    assert_eq!(listed["protections"], json!([first]));
}

#[tokio::test]
async fn protection_of_a_missing_or_wrong_resource_is_rejected() {
    let app = TestApp::with_table().await;
    for (resource, status) in [
        ("table:default/ns/x", 404),
        ("namespace:default/x", 404),
        ("warehouse:x", 404),
        ("catalog", 400),
        ("ns.t", 400),
    ] {
        protect(&app, resource).await.expect(status);
    }
    let long = json!({ "resource": "table:default/ns/t", "comment": "c".repeat(1025) });
    app.post(PROTECTIONS, long).await.expect(400);
    for id in ["0197a000-0000-7000-8000-000000000001", "x"] {
        let path = format!("{PROTECTIONS}/{id}");
        app.delete(&path).await.expect_error(404, "NotFoundException");
    }
    assert_eq!(app.get(PROTECTIONS).await.body["protections"], json!([]));
}

#[tokio::test]
async fn protection_requires_its_own_action_and_shows_only_visible_resources() {
    let app = TestApp::with_policies(
        r#"@id("hr") forbid (principal in Role::"writer", action, resource in Namespace::"default/hr");
           @id("keeper") permit (principal in Role::"keeper",
               action in [Action::"Read", Action::"Protect"], resource);"#,
        |_| {},
    )
    .await;
    for namespace in ["sales", "hr"] {
        app.create_namespace(&[namespace]).await;
        app.create_table(namespace, "t").await;
    }
    let (writer, keeper) = (app.key_with_role("writer").await, app.key_with_role("keeper").await);
    let request = json!({ "resource": "table:default/sales/t" });
    let denied = app.request_as(&writer, Method::POST, PROTECTIONS, &request).await;
    denied.expect_error(403, "ForbiddenException");
    let hidden = json!({ "resource": "table:default/hr/t" });
    let denied = app.request_as(&writer, Method::POST, PROTECTIONS, &hidden).await;
    denied.expect_error(404, "NoSuchTableException");
    for request in [&request, &hidden] {
        app.request_as(&keeper, Method::POST, PROTECTIONS, request).await.expect(200);
    }
    let seen = app.get_as(&writer, PROTECTIONS).await.expect(200).body;
    let seen = seen["protections"].as_array().expect("a list");
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0]["resource"], "table:default/sales/t");
    for protection in app.get(PROTECTIONS).await.body["protections"].as_array().expect("a list") {
        let id = protection["id"].as_str().expect("an id");
        let path = format!("{PROTECTIONS}/{id}");
        let status = if protection["resource"] == "table:default/hr/t" { 404 } else { 403 };
        app.request_as(&writer, Method::DELETE, &path, &Value::Null).await.expect(status);
        app.request_as(&keeper, Method::DELETE, &path, &Value::Null).await.expect(204);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn table_is_either_dropped_or_protected() {
    let app = Arc::new(TestApp::with_table().await);
    for round in 0..40 {
        let name = format!("t{round}");
        let path = format!("/v1/namespaces/ns/tables/{name}");
        app.post("/v1/namespaces/ns/tables", create_table(&name)).await.expect(200);
        let dropping = {
            let (app, path) = (Arc::clone(&app), path.clone());
            tokio::spawn(async move { app.delete(&path).await.status.as_u16() })
        };
        let protected = protect(&app, &format!("table:default/ns/{name}")).await.status.as_u16();
        let dropped = dropping.await.expect("no panic");
        let outcome = (dropped, protected, app.get(&path).await.status.as_u16());
        assert!(matches!(outcome, (204, 404, 404) | (409, 200, 200)), "round {round}: {outcome:?}");
    }
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    assert_sound(Arc::clone(&app.bucket)).await;
}

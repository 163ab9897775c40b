//! Grants: created, seen and revoked by principals that may manage them on the resource.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::table::create_table;

const GRANTS: &str = "/management/v1/grants";

fn grant(template: &str, grantee: &str, resource: &str) -> Value {
    json!({ "template": template, "grantee": grantee, "resource": resource })
}

/// A catalog with tables, and a key that owns the namespace `sales`.
async fn scene() -> (TestApp, String) {
    let app = TestApp::secured().await;
    for namespace in ["sales", "hr"] {
        app.post("/v1/namespaces", json!({ "namespace": [namespace] })).await.expect(200);
        let tables = format!("/v1/namespaces/{namespace}/tables");
        app.post(&tables, create_table("t")).await.expect(200);
    }
    let (id, owner) = app.make_key(json!({ "name": "owner" })).await;
    let own = grant("own", &format!("service-account:{id}"), "namespace:default/sales");
    app.post(GRANTS, own).await.expect(201);
    (app, owner)
}

impl TestApp {
    async fn grant_as(&self, key: &str, grant: Value) -> TestResponse {
        self.request_as(key, Method::POST, GRANTS, &grant).await
    }
}

#[tokio::test]
async fn repeated_grant_is_created_once_and_has_the_id_of_its_policy() {
    let (app, _) = scene().await;
    let requested = grant("read", "role:analysts", "table:default/sales/t");
    let response_body = app.post(GRANTS, requested.clone()).await.expect(201).body;
    let found = &response_body["grant"];
    assert_eq!(found["template"], "grant-read");
    assert_eq!(found["grantee"], "role:analysts");
    assert_eq!(found["resource"], "table:default/sales/t");
    // The same request again returns the existing grant, also with the full name of the template.
    let again = app.post(GRANTS, requested).await.expect(200).body;
    assert_eq!((&again["grant"], &again["revision"]), (found, &response_body["revision"]));
    let whole = grant("grant-read", "role:analysts", "table:default/sales/t");
    assert_eq!(app.post(GRANTS, whole).await.expect(200).body["grant"], *found);

    let id = found["id"].as_str().expect("an id");
    let one = app.get(&format!("{GRANTS}/{id}")).await.expect(200).body;
    let policy = "grant-read[Role::\"analysts\", Table::\"default/sales/t\"]";
    assert_eq!(one["policy"], policy);
    let in_force = app.policies_of("grant").await;
    assert!(in_force.contains(&policy.to_owned()), "{in_force:?}");
    // The grantee also sees the enclosing resources, so that clients can navigate.
    let way = "grant-browse[Role::\"analysts\", Namespace::\"default/sales\"]".to_owned();
    assert!(in_force.contains(&way), "{in_force:?}");

    for (query, count) in [
        ("", 2),
        ("?grantee=role:analysts", 1),
        ("?resource=table:default/sales/t", 1),
        ("?resource=table:default/sales/t&grantee=role:other", 0),
    ] {
        let listed = app.get(&format!("{GRANTS}{query}")).await.expect(200).body;
        assert_eq!(listed["grants"].as_array().map(Vec::len), Some(count), "{query}");
    }
    app.get(&format!("{GRANTS}?grantee=x")).await.expect(400);
    app.delete(&format!("{GRANTS}/{id}")).await.expect(200);
    app.delete(&format!("{GRANTS}/{id}")).await.expect_error(404, "NotFoundException");
    app.get(&format!("{GRANTS}/{id}")).await.expect_error(404, "NotFoundException");
}

#[tokio::test]
async fn invalid_grant_is_rejected() {
    let (app, _) = scene().await;
    for (wanted, status) in [
        (grant("fly", "role:r", "warehouse:default"), 400),
        (grant("role-admin", "role:r", "warehouse:default"), 400),
        (grant("read", "r", "warehouse:default"), 400),
        (grant("read", "role:", "warehouse:default"), 400),
        (grant("read", "role:r", "catalog"), 400),
        (grant("read", "role:r", "table:default/t"), 400),
        (grant("read", "role:r", "default"), 400),
        (grant("read", "role:r", "warehouse:nope"), 404),
        (grant("read", "role:r", "namespace:default/nope"), 404),
        (grant("read", "role:r", "table:default/sales/nope"), 404),
        (grant("read", "role:r", "view:default/sales/t"), 404),
        (json!({ "template": "read", "grantee": "role:r" }), 400),
        (json!({ "template": "read", "grantee": "role:r", "resource": 1 }), 400),
    ] {
        assert_eq!(app.post_rejected(GRANTS, wanted.clone()).await.status, status, "{wanted}");
    }
}

#[tokio::test]
async fn owner_grants_only_on_owned_resources() {
    let (app, owner) = scene().await;
    let response = app.grant_as(&owner, grant("read", "group:team", "table:default/sales/t")).await;
    let id = response.expect(201).body["grant"]["id"].as_str().expect("an id").to_owned();
    // The owner of the namespace may see the warehouse, but does not own the warehouse.
    let above = app.grant_as(&owner, grant("read", "group:team", "warehouse:default")).await;
    above.expect_error(403, "ForbiddenException");
    // An invisible table gets the same response as a missing one.
    let there = app.grant_as(&owner, grant("read", "group:team", "table:default/hr/t")).await;
    let absent = app.grant_as(&owner, grant("read", "group:team", "table:default/hr/u")).await;
    assert_eq!(there.error(), (404, "NoSuchTableException", "Table does not exist: hr.t"));
    assert_eq!(absent.error(), (404, "NoSuchTableException", "Table does not exist: hr.u"));
    let mistyped = app.grant_as(&owner, grant("read", "group:t", "table:default/sales/u")).await;
    mistyped.expect_error(404, "NoSuchTableException");

    let foreign = app.post(GRANTS, grant("read", "role:r", "table:default/hr/t")).await.expect(201);
    let foreign = foreign.body["grant"]["id"].as_str().expect("an id").to_owned();
    let seen = app.get_as(&owner, GRANTS).await.expect(200).body;
    let seen: Vec<_> = seen["grants"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|grant| grant["resource"].clone())
        .collect();
    assert_eq!(seen, ["namespace:default/sales", "table:default/sales/t"]);
    let hidden = app.get_as(&owner, &format!("{GRANTS}/{foreign}")).await;
    hidden.expect_error(404, "NotFoundException");
    let path = format!("{GRANTS}/{foreign}");
    let answer = app.request_as(&owner, Method::DELETE, &path, &Value::Null).await;
    answer.expect_error(404, "NotFoundException");
    let path = format!("{GRANTS}/{id}");
    app.request_as(&owner, Method::DELETE, &path, &Value::Null).await.expect(200);
    // Permissions on resources include no permissions on policies.
    let answer = app.get_as(&owner, "/management/v1/policies").await;
    answer.expect_error(403, "ForbiddenException");
}

#[tokio::test]
async fn auditor_reads_grants_and_creates_none() {
    let (app, _) = scene().await;
    let (_, auditor) = app.make_key(json!({ "name": "a", "roles": ["auditor"] })).await;
    let (_, nobody) = app.make_key(json!({ "name": "n" })).await;
    let listed = app.get_as(&auditor, GRANTS).await.expect(200).body;
    assert_eq!(listed["grants"].as_array().map(Vec::len), Some(1));
    let listed = app.get_as(&nobody, GRANTS).await.expect(200).body;
    assert_eq!(listed["grants"].as_array().map(Vec::len), Some(0));
    let requested = grant("read", "role:r", "table:default/sales/t");
    let response = app.grant_as(&auditor, requested.clone()).await;
    response.expect_error(403, "ForbiddenException");
    let response = app.grant_as(&nobody, requested).await;
    response.expect_error(403, "ForbiddenException");
}

#[tokio::test]
async fn policies_on_granting_can_use_properties() {
    let (app, owner) = scene().await;
    let sealed = "@id(\"sealed\") forbid (principal, action == Action::\"ManageGrants\", resource is \
                  Table) when { resource.hasTag(\"sealed\") };";
    app.put_policy("sealed", sealed).await.expect(200);
    let requested = grant("read", "group:team", "table:default/sales/t");
    app.grant_as(&owner, requested).await.expect(201);
    let set = json!({ "requirements": [], "updates": [
        { "action": "set-properties", "updates": { "sealed": "yes" } }
    ] });
    app.post("/v1/namespaces/sales/tables/t", set).await.expect(200);
    let requested = grant("read", "group:others", "table:default/sales/t");
    app.grant_as(&owner, requested).await.expect_error(403, "ForbiddenException");
}

#[tokio::test]
async fn grant_on_a_dropped_resource_can_be_revoked() {
    let (app, owner) = scene().await;
    let response = app.grant_as(&owner, grant("read", "group:team", "table:default/sales/t")).await;
    let id = response.expect(201).body["grant"]["id"].as_str().expect("an id").to_owned();
    app.delete("/v1/namespaces/sales/tables/t").await.expect(204);
    let path = format!("{GRANTS}/{id}");
    app.request_as(&owner, Method::DELETE, &path, &Value::Null).await.expect(200);
}

#[tokio::test]
async fn grants_are_paginated() {
    let (app, _) = scene().await;
    for role in 0..5 {
        let message = grant("read", &format!("role:r{role}"), "warehouse:default");
        app.post(GRANTS, message).await.expect(201);
    }
    let seen = app.pages(GRANTS, "grants", 2).await;
    assert_eq!(json!(seen), app.get(GRANTS).await.body["grants"]);
    assert_eq!(seen.len(), 6);
}

#[tokio::test]
async fn grant_and_revocation_take_effect_with_the_next_request() {
    let (app, _) = scene().await;
    let (id, key) = app.make_key(json!({ "name": "k" })).await;
    let (table, tables) = ("/v1/namespaces/hr/tables/t", "/v1/namespaces/hr/tables");
    app.get_as(&key, table).await.expect(403);
    let message = grant("read", &format!("service-account:{id}"), "table:default/hr/t");
    let response_body = app.post(GRANTS, message).await.expect(201).body;
    app.get_as(&key, table).await.expect(200);
    // The grantee sees the enclosing namespace, and no other namespace of the warehouse.
    let seen = app.get_as(&key, "/v1/namespaces").await.expect(200).body;
    assert_eq!(seen["namespaces"], json!([["hr"]]));
    let seen = app.get_as(&key, tables).await.expect(200).body;
    assert_eq!(seen["identifiers"].as_array().map(Vec::len), Some(1));
    app.request_as(&key, Method::DELETE, table, &Value::Null).await.expect(403);
    let grant = response_body["grant"]["id"].as_str().expect("an id");
    app.delete(&format!("{GRANTS}/{grant}")).await.expect(200);
    app.get_as(&key, table).await.expect(403);
}

#[tokio::test]
async fn repeated_revocation_with_an_idempotency_key_gets_the_same_response() {
    let (app, _) = scene().await;
    let response = app.post(GRANTS, grant("read", "role:r", "warehouse:default")).await.expect(201);
    let id = response.body["grant"]["id"].as_str().expect("an id").to_owned();
    let headers = [("Idempotency-Key", "0190a6a3-5f6f-7c3e-8a77-2b6f6f0a3c12")];
    let revoke = async || {
        let path = format!("{GRANTS}/{id}");
        app.request(Method::DELETE, &path, &headers, &Value::Null).await
    };
    let first = revoke().await.expect(200).body;
    assert_eq!(revoke().await.expect(200).body, first);
    app.delete(&format!("{GRANTS}/{id}")).await.expect(404);
}

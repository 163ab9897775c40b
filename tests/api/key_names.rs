//! The names of API keys in addition to their ids, in responses and in the audit log.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::create_table;

#[tokio::test]
async fn responses_contain_the_name_of_a_key_after_its_revocation() {
    let app = TestApp::secured().await;
    let (admin_id, admin) = app.make_key(json!({ "name": "ops", "roles": ["admin"] })).await;
    let (etl_id, _) = app.make_key(json!({ "name": "etl", "roles": ["reader"] })).await;
    let post = async |path: &str, body: Value| {
        app.request_as(&admin, Method::POST, path, &body).await.expect(201).body
    };
    let grant = json!({ "template": "read", "grantee": format!("service-account:{etl_id}"),
                        "resource": "warehouse:default" });
    let granted = post("/management/v1/grants", grant).await;
    let lake = json!({ "name": "lake", "storage": { "location": "memory:///lake" } });
    let lake = post("/management/v1/warehouses", lake).await;
    assert_eq!((&lake["created-by"], &lake["created-by-name"]), (&json!(admin_id), &json!("ops")));
    assert_eq!(lake["changed-by-name"], "ops");
    app.post("/v1/namespaces", json!({ "namespace": ["ns"] })).await.expect(200);
    app.post("/v1/namespaces/ns/tables", create_table("t")).await.expect(200);
    let purge = "/v1/namespaces/ns/tables/t?purgeRequested=true";
    app.request_as(&admin, Method::DELETE, purge, &Value::Null).await.expect(204);
    for id in [&admin_id, &etl_id] {
        app.delete(&format!("/management/v1/api-keys/{id}")).await.expect(204);
    }
    let names = ["grantee-name", "created-by", "created-by-name"];
    let expected = [json!("etl"), json!(admin_id), json!("ops")];
    let listed = app.get("/management/v1/grants").await.expect(200).body;
    for grant in [&granted["grant"], &listed["grants"][0]] {
        assert_eq!(names.map(|name| grant[name].clone()), expected, "{grant}");
    }
    let revisions = app.get("/management/v1/policies/revisions").await.expect(200).body;
    let revision = &revisions["revisions"][0];
    assert_eq!((&revision["by"], &revision["by-name"]), (&json!(admin_id), &json!("ops")));
    assert_eq!(revision["changes"]["granted"][0]["grantee-name"], "etl");
    let jobs = app.get("/management/v1/jobs").await.expect(200).body;
    assert_eq!(jobs["jobs"][0]["created-by-name"], "ops");
    assert_eq!(jobs["jobs"][0]["created-by"], json!(admin_id));
}

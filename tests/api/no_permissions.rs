//! A valid credential without permissions gets a 403 that names the credential and explains how to
//! get permissions. The response contains nothing else.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::create_table;

const GRANTS: &str = "/management/v1/grants";

/// Requests for existing resources, each with the same request for a missing resource.
const PAIRS: [(&str, &str); 5] = [
    ("/v1/config", "/v1/config?warehouse=nope"),
    ("/v1/config?warehouse=default", "/v1/config?warehouse=memory:///nope"),
    ("/v1/default/namespaces", "/v1/nope/namespaces"),
    ("/v1/default/namespaces/ns/tables/t", "/v1/default/namespaces/nope/tables/t"),
    ("/management/v1/warehouses/default", "/management/v1/warehouses/nope"),
];

#[tokio::test]
async fn credential_without_permissions_gets_403_whether_or_not_the_resource_exists() {
    let app = TestApp::secured().await;
    app.create_namespace(&["ns"]).await;
    app.post("/v1/namespaces/ns/tables", create_table("t")).await.expect(200);
    for (name, roles, why) in [
        ("bare", json!([]), "it has no role and no grant"),
        (
            "bob",
            json!(["writter"]),
            "no policy permits anything to its roles (writter), and it has no grant",
        ),
    ] {
        let (id, key) = app.make_key(json!({ "name": name, "roles": roles })).await;
        let expected = format!(
            "Not allowed: this credential, {name} ({id}), has no permissions in this catalog: {why}. \
             An administrator can grant some, such as: slateberg grant read --to service-account:{id} \
             --on warehouse:NAME"
        );
        for (there, absent) in PAIRS {
            for path in [there, absent] {
                let answer = app.get_as(&key, path).await;
                assert_eq!(answer.error(), (403, "ForbiddenException", &*expected), "{path}");
            }
        }
        let drop = "/v1/namespaces/ns/tables/t";
        let rejection = app.request_as(&key, Method::DELETE, drop, &Value::Null).await;
        rejection.expect_error(403, "ForbiddenException");
        app.get_as(&key, "/management/v1/whoami").await.expect(200);
    }
    // Without a valid credential, the response discloses nothing.
    app.get_as("sb_wrong", "/v1/config").await.expect_error(401, "NotAuthorizedException");
}

#[tokio::test]
async fn credential_with_any_grant_gets_404_for_hidden_resources() {
    let app = TestApp::secured().await;
    app.create_namespace(&["ns"]).await;
    app.create_namespace(&["hidden"]).await;
    let (id, key) = app.make_key(json!({ "name": "etl" })).await;
    app.get_as(&key, "/v1/config").await.expect_error(403, "ForbiddenException");
    let grant = json!({ "template": "read", "grantee": format!("service-account:{id}"),
                        "resource": "namespace:default/ns" });
    let granted = app.post(GRANTS, grant).await.expect(201).body;
    app.get_as(&key, "/v1/namespaces/ns").await.expect(200);
    let hidden = app.get_as(&key, "/v1/namespaces/hidden").await;
    hidden.expect_error(404, "NoSuchNamespaceException");
    let absent = app.get_as(&key, "/v1/nope/namespaces").await;
    absent.expect_error(404, "NoSuchWarehouseException");
    // The revocation of the grant applies to the next request.
    let grant = granted["grant"]["id"].as_str().expect("an id");
    app.delete(&format!("{GRANTS}/{grant}")).await.expect(200);
    app.get_as(&key, "/v1/namespaces/ns").await.expect_error(403, "ForbiddenException");
}

#[tokio::test]
async fn credential_that_a_general_permit_may_match_gets_404_for_hidden_resources() {
    let policy =
        r#"@id("scratch") permit (principal, action, resource in Namespace::"default/scratch");"#;
    let app = TestApp::with_policies(policy, |_| {}).await;
    let (_, key) = app.make_key(json!({ "name": "bare" })).await;
    app.get_as(&key, "/v1/config").await.expect_error(404, "NoSuchWarehouseException");
}

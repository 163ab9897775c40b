//! Revocation of API keys: which one is rejected, and what remains of a revoked key.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::TestApp;

const KEYS: &str = "/management/v1/api-keys";

async fn own_id(app: &TestApp) -> String {
    let whoami = app.get("/management/v1/whoami").await.expect(200).body;
    whoami["id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn the_last_admin_key_is_not_revoked_without_force() {
    let app = TestApp::secured().await;
    let own = format!("{KEYS}/{}", own_id(&app).await);
    // None of these keeps the catalog manageable.
    app.make_key(json!({ "name": "writer", "roles": ["writer"] })).await;
    app.make_key(json!({ "name": "bound", "roles": ["admin"], "warehouses": ["default"] })).await;
    for path in [own.clone(), format!("{own}?force=false")] {
        let refused = app.delete(&path).await.expect_error(409, "ConflictException");
        assert!(refused.message().contains("--force"), "{}", refused.message());
    }
    app.get(KEYS).await.expect(200);
    app.delete(&format!("{own}?force=true")).await.expect(204);
    app.get(KEYS).await.expect_error(401, "NotAuthorizedException");
}

#[tokio::test]
async fn one_of_two_admin_keys_is_revoked_without_force() {
    let app = TestApp::secured().await;
    let (_, other) = app.make_key(json!({ "name": "other", "roles": ["admin"] })).await;
    let own = own_id(&app).await;
    app.delete(&format!("{KEYS}/{own}")).await.expect(204);
    let listed = app.get_as(&other, KEYS).await.expect(200).body;
    let left = listed["api-keys"].as_array().expect("a list").iter();
    let id = left.map(|key| &key["id"]).find(|id| **id != json!(own)).and_then(Value::as_str);
    let path = format!("{KEYS}/{}", id.expect("the other is left"));
    let refused = app.request_as(&other, Method::DELETE, &path, &Value::Null).await;
    refused.expect_error(409, "ConflictException");
}

#[tokio::test]
async fn two_admin_keys_that_revoke_each_other_at_once_leave_one() {
    let app = TestApp::secured().await;
    let (other_id, other) = app.make_key(json!({ "name": "other", "roles": ["admin"] })).await;
    let (first, own) = (app.credential().to_owned(), own_id(&app).await);
    let (one, two) = (format!("{KEYS}/{other_id}"), format!("{KEYS}/{own}"));
    let answers = tokio::join!(
        app.request_as(&first, Method::DELETE, &one, &Value::Null),
        app.request_as(&other, Method::DELETE, &two, &Value::Null),
    );
    let mut statuses = [answers.0.status.as_u16(), answers.1.status.as_u16()];
    statuses.sort_unstable();
    // The second is the last, or has been revoked before its request was authenticated.
    assert!(matches!(statuses, [204, 401 | 409]), "{statuses:?}");
}

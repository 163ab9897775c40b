//! Revocation of API keys: rejected revocations, and the record of a revoked key.

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
    // Neither of these keys could manage API keys.
    app.make_key(json!({ "name": "writer", "roles": ["writer"] })).await;
    app.make_key(json!({ "name": "bound", "roles": ["admin"], "warehouses": ["default"] })).await;
    for path in [own.clone(), format!("{own}?force=false")] {
        let response = app.delete(&path).await.expect_error(409, "ConflictException");
        assert!(response.message().contains("--force"), "{}", response.message());
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
    let path = format!("{KEYS}/{}", id.expect("the other key is listed"));
    let rejection = app.request_as(&other, Method::DELETE, &path, &Value::Null).await;
    rejection.expect_error(409, "ConflictException");
}

#[tokio::test]
async fn two_admin_keys_that_revoke_each_other_at_once_leave_one() {
    let app = TestApp::secured().await;
    let (other_id, other) = app.make_key(json!({ "name": "other", "roles": ["admin"] })).await;
    let (first, own) = (app.credential().to_owned(), own_id(&app).await);
    let (one, two) = (format!("{KEYS}/{other_id}"), format!("{KEYS}/{own}"));
    let responses = tokio::join!(
        app.request_as(&first, Method::DELETE, &one, &Value::Null),
        app.request_as(&other, Method::DELETE, &two, &Value::Null),
    );
    let mut statuses = [responses.0.status.as_u16(), responses.1.status.as_u16()];
    statuses.sort_unstable();
    // The second revocation fails with 409 if its target is the last admin key, or with 401 if its
    // own key was revoked by the first one.
    assert!(matches!(statuses, [204, 401 | 409]), "{statuses:?}");
}

#[tokio::test]
async fn a_revoked_key_stays_listed_with_who_revoked_it_also_after_a_restart() {
    let app = TestApp::secured().await;
    let own = own_id(&app).await;
    let (id, key) = app.make_key(json!({ "name": "etl", "roles": ["writer"] })).await;
    let path = format!("{KEYS}/{id}");
    let before = app.get(&path).await.expect(200).body;
    let members = ["status", "revoked-at-ms", "revoked-by", "revoked-by-name"];
    let about = |key: &Value| members.map(|member| key[member].clone());
    assert_eq!(about(&before), [json!("active"), Value::Null, Value::Null, Value::Null]);
    assert_eq!(before["created-by-name"], "bootstrap");
    app.delete(&path).await.expect(204);
    let revoked = app.get(&path).await.expect(200).body;
    let [status, at_ms, by, by_name] = about(&revoked);
    assert_eq!((status, by, by_name), (json!("revoked"), json!(own), json!("bootstrap")));
    assert!(at_ms.as_i64() >= before["created-at-ms"].as_i64(), "{revoked}");
    app.delete(&path).await.expect_error(404, "NotFoundException");
    let app = app.restart().await;
    assert_eq!(app.get(&path).await.expect(200).body, revoked);
    let listed = app.get(KEYS).await.expect(200).body;
    assert_eq!(listed["api-keys"].as_array().expect("a list")[1], revoked);
    app.get_as(&key, "/v1/config").await.expect_error(401, "NotAuthorizedException");
    app.app.runtime.catalog.close().await.expect("the catalog closes");
    crate::support::fsck::assert_sound(std::sync::Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn revoked_keys_beyond_the_maximum_are_removed() {
    let app = TestApp::with_settings(|settings| {
        settings.authn.insecure_no_auth = false;
        settings.authn.api_keys_max = 2;
    })
    .await;
    let names = async |app: &TestApp| {
        let listed = app.get(KEYS).await.expect(200).body;
        let keys = listed["api-keys"].as_array().expect("a list").clone();
        keys.iter().map(|key| key["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    for name in ["a", "b", "c"] {
        // Revoked keys do not count as existing keys.
        let (id, _) = app.make_key(json!({ "name": name })).await;
        app.delete(&format!("{KEYS}/{id}")).await.expect(204);
    }
    assert_eq!(names(&app).await, ["bootstrap", "b", "c"], "the key revoked first is removed");
    let app = app.restart().await;
    assert_eq!(names(&app).await, ["bootstrap", "b", "c"]);
}

#[tokio::test]
async fn expired_key_is_listed_as_expired() {
    let clock = std::sync::Arc::new(crate::support::clock::HandClock::default());
    let mut settings = crate::support::app::memory_settings();
    settings.authn.insecure_no_auth = false;
    let bucket = crate::support::bucket::bucket();
    let app = TestApp::with_clock(bucket, settings, clock.clone()).await;
    let soon = json!({ "name": "short", "expires-at-ms": 1_800_000_060_000_i64 });
    let (id, _) = app.make_key(soon).await;
    clock.advance_seconds(60);
    let listed = app.get(&format!("{KEYS}/{id}")).await.expect(200).body;
    assert_eq!(listed["status"], "expired");
}

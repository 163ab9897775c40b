//! Commits to views: their versions, and the version log.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::{schema, set_property};
use crate::support::view::{replace_query, view_version, view_version_of};

const VIEW: &str = "/v1/namespaces/ns/views/v";

async fn replaced(app: &TestApp, updates: Vec<Value>) -> Value {
    let response = app.commit_view("ns", "v", vec![], updates).await.expect(200);
    assert_eq!(app.get(VIEW).await.expect(200).body, response.body);
    response.body["metadata"].clone()
}

fn versions(metadata: &Value) -> Vec<i64> {
    let versions = metadata["versions"].as_array().expect("a list").iter();
    versions.map(|version| version["version-id"].as_i64().expect("an id")).collect()
}

fn log(metadata: &Value) -> Vec<i64> {
    let log = metadata["version-log"].as_array().expect("a list").iter();
    log.map(|entry| entry["version-id"].as_i64().expect("an id")).collect()
}

#[tokio::test]
async fn each_replacement_adds_a_version() {
    let app = TestApp::with_table_and_view().await;
    let second = replaced(&app, replace_query("SELECT 2")).await;
    assert_eq!((versions(&second), log(&second)), (vec![1, 2], vec![1, 2]));
    let third = replaced(&app, replace_query("SELECT 3")).await;
    assert_eq!((versions(&third), log(&third)), (vec![1, 2, 3], vec![1, 2, 3]));
    assert_eq!(third["current-version-id"], 3);
    assert_eq!(third["versions"][2]["representations"][0]["sql"], "SELECT 3");
    assert_eq!(third["schemas"].as_array().map(Vec::len), Some(1), "the schema is the same");
    let file = app.get(VIEW).await.expect(200).body["metadata-location"].clone();
    assert!(file.as_str().is_some_and(|file| file.contains("/metadata/00002-")), "{file}");
}

#[tokio::test]
async fn an_old_query_becomes_current_again_without_a_new_version() {
    let app = TestApp::with_table_and_view().await;
    replaced(&app, replace_query("SELECT 2")).await;
    let back = replaced(&app, replace_query("SELECT 1")).await;
    assert_eq!((versions(&back), log(&back)), (vec![1, 2], vec![1, 2, 1]));
    let forth = json!({ "action": "set-current-view-version", "view-version-id": 2 });
    let forth = replaced(&app, vec![forth]).await;
    assert_eq!(log(&forth), [1, 2, 1, 2]);
}

#[tokio::test]
async fn view_history_is_trimmed_to_the_configured_length() {
    let app = TestApp::with_table_and_view().await;
    replaced(&app, vec![set_property("version.history.num-entries", "2")]).await;
    for n in 2..=5 {
        replaced(&app, replace_query(&format!("SELECT {n}"))).await;
    }
    let metadata = app.get(VIEW).await.expect(200).body["metadata"].clone();
    assert_eq!((versions(&metadata), log(&metadata)), (vec![4, 5], vec![4, 5]));
    let none = set_property("version.history.num-entries", "0");
    let body = json!({ "requirements": [], "updates": [none] });
    let response = app.post_rejected(VIEW, body).await;
    assert_eq!(response.message(), "version.history.num-entries must be positive but was 0");
}

#[tokio::test]
async fn properties_and_location_change_without_a_new_version() {
    let app = TestApp::with_table_and_view().await;
    let updates = vec![
        set_property("a", "1"),
        json!({ "action": "remove-properties", "removals": ["comment", "not-there"] }),
        json!({ "action": "set-location", "location": "memory:///warehouse/moved-view" }),
    ];
    let metadata = replaced(&app, updates).await;
    assert_eq!(metadata["properties"], json!({ "a": "1" }));
    assert_eq!(metadata["location"], "memory:///warehouse/moved-view");
    assert_eq!((versions(&metadata), log(&metadata)), (vec![1], vec![1]));
}

#[tokio::test]
async fn a_commit_without_effect_writes_nothing() {
    let app = TestApp::with_table_and_view().await;
    let before = app.dump().await;
    let uuid = app.get(VIEW).await.expect(200).body["metadata"]["view-uuid"].clone();
    let same = vec![
        json!({ "action": "assign-uuid", "uuid": uuid }),
        json!({ "action": "upgrade-format-version", "format-version": 1 }),
        set_property("comment", "a view"),
    ];
    replaced(&app, same).await;
    replaced(&app, vec![]).await;
    assert_eq!(app.dump().await, before);
}

#[tokio::test]
async fn commit_with_another_view_uuid_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    let uuid = app.get(VIEW).await.expect(200).body["metadata"]["view-uuid"].clone();
    let uuid = uuid.as_str().expect("a UUID");
    let require = |uuid: &str| json!({ "type": "assert-view-uuid", "uuid": uuid });
    let passing = vec![require(uuid)];
    app.commit_view("ns", "v", passing, replace_query("SELECT 2")).await.expect(200);
    let other = "00000000-0000-4000-8000-000000000001";
    let body = json!({ "requirements": [require(other)], "updates": replace_query("SELECT 3") });
    let response = app.post_rejected(VIEW, body).await;
    let message =
        format!("Requirement failed: view UUID does not match: expected {uuid} != {other}");
    assert_eq!(response.error(), (409, "CommitFailedException", message.as_str()));
}

#[tokio::test]
async fn a_dialect_is_not_lost_unless_the_view_allows_it() {
    let app = TestApp::with_table_and_view().await;
    let mut trino =
        view_version_of(json!([{ "type": "sql", "sql": "SELECT 2", "dialect": "trino" }]));
    trino["schema-id"] = json!(0);
    let updates = vec![
        json!({ "action": "add-view-version", "view-version": trino }),
        json!({ "action": "set-current-view-version", "view-version-id": -1 }),
    ];
    let body = json!({ "requirements": [], "updates": updates });
    let response = app.post_rejected(VIEW, body).await;
    assert_eq!(response.error().0, 400);
    assert!(response.message().starts_with("Cannot replace view due to loss of view dialects"));
    replaced(&app, vec![set_property("replace.drop-dialect.allowed", "true")]).await;
    let metadata = replaced(&app, updates).await;
    assert_eq!(metadata["current-version-id"], 2);
}

#[tokio::test]
async fn unknown_or_invalid_view_updates_are_rejected() {
    let app = TestApp::with_table_and_view().await;
    let mut stray = view_version("SELECT 2");
    stray["schema-id"] = json!(7);
    let cases = [
        (
            json!({ "action": "explode" }),
            "Cannot parse metadata update. Unrecognized action: explode",
        ),
        (json!({ "action": "add-snapshot" }), "Cannot apply update add-snapshot to a view"),
        (
            json!({ "action": "upgrade-format-version", "format-version": 2 }),
            "Unsupported format version: 2",
        ),
        (
            json!({ "action": "assign-uuid", "uuid": "00000000-0000-4000-8000-000000000001" }),
            "Cannot reassign uuid",
        ),
        (
            json!({ "action": "set-current-view-version", "view-version-id": 9 }),
            "Cannot set current version to unknown version: 9",
        ),
        (
            json!({ "action": "set-current-view-version", "view-version-id": -1 }),
            "Cannot set last version id: no current version id has been set",
        ),
        (
            json!({ "action": "add-view-version", "view-version": stray }),
            "Cannot add version with unknown schema: 7",
        ),
    ];
    for (update, message) in cases {
        let body = json!({ "requirements": [], "updates": [update] });
        let response = app.post_rejected(VIEW, body).await;
        assert_eq!(response.error(), (400, "IllegalArgumentException", message));
    }
    let requirement = json!({ "type": "assert-create" });
    let updates = [json!({ "action": "add-schema", "schema": schema() })];
    let body = json!({ "requirements": [requirement], "updates": updates });
    let response = app.post_rejected(VIEW, body).await;
    assert_eq!(response.message(), "Cannot validate assert-create against a view");
}

#[tokio::test]
async fn commit_with_another_view_in_the_body_is_rejected() {
    let app = TestApp::with_table_and_view().await;
    let body = |name: &str| {
        json!({ "identifier": { "namespace": ["ns"], "name": name },
                "requirements": [], "updates": [set_property("a", name)] })
    };
    app.post(VIEW, body("v")).await.expect(200);
    let response = app.post_rejected(VIEW, body("t")).await;
    assert_eq!(response.message(), "The body's identifier is ns.t, the path's is ns.v");
}

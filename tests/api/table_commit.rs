//! Commits to tables: requirements and responses.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::{append, main_is, set_property};

const TABLE: &str = "/v1/namespaces/ns/tables/t";

async fn uuid(app: &TestApp) -> String {
    let loaded = app.get(TABLE).await.expect(200);
    loaded.body["metadata"]["table-uuid"].as_str().expect("a UUID").to_owned()
}

#[tokio::test]
async fn commit_returns_the_state_that_a_load_returns() {
    let app = TestApp::with_table().await;
    let response = app.get(TABLE).await.expect(200);
    let committed = app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    let loaded = app.get(TABLE).await.expect(200);
    assert_eq!(committed.body["metadata"], loaded.body["metadata"]);
    assert_eq!(committed.body["metadata-location"], loaded.body["metadata-location"]);
    assert_eq!(committed.body.as_object().map(serde_json::Map::len), Some(2));
    assert_eq!(committed.header("etag"), loaded.header("etag"));
    assert_ne!(committed.body["metadata-location"], response.body["metadata-location"]);
    assert_eq!(loaded.body["metadata"]["properties"]["a"], "1");
    let log = &loaded.body["metadata"]["metadata-log"];
    assert_eq!(log[0]["metadata-file"], response.body["metadata-location"]);
}

#[tokio::test]
async fn a_commit_without_effect_writes_nothing() {
    let app = TestApp::with_table().await;
    let first = app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await.expect(200);
    let before = app.dump().await;
    for updates in [vec![], vec![set_property("a", "1")], vec![set_property("a", "1"); 3]] {
        let again = app.commit("ns", "t", vec![], updates).await.expect(200);
        assert_eq!(again.body, first.body);
        assert_eq!(again.header("etag"), first.header("etag"));
    }
    assert_eq!(app.dump().await, before);
}

#[tokio::test]
async fn commit_with_met_requirements_succeeds() {
    let app = TestApp::with_table().await;
    let requirements = vec![
        json!({ "type": "assert-table-uuid", "uuid": uuid(&app).await }),
        main_is(None),
        json!({ "type": "assert-ref-snapshot-id", "ref": "audit" }),
        json!({ "type": "assert-last-assigned-field-id", "last-assigned-field-id": 2 }),
        json!({ "type": "assert-current-schema-id", "current-schema-id": 0 }),
        json!({ "type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999 }),
        json!({ "type": "assert-default-spec-id", "default-spec-id": 0 }),
        json!({ "type": "assert-default-sort-order-id", "default-sort-order-id": 0 }),
    ];
    app.commit("ns", "t", requirements, append(1, None, 1)).await.expect(200);
    app.commit("ns", "t", vec![main_is(Some(1))], append(2, Some(1), 2)).await.expect(200);
}

#[tokio::test]
async fn repeated_append_is_acknowledged_again_and_writes_nothing() {
    let app = TestApp::with_table().await;
    let requirements =
        vec![json!({ "type": "assert-table-uuid", "uuid": uuid(&app).await }), main_is(None)];
    let append_first = || app.commit("ns", "t", requirements.clone(), append(1, None, 1));
    let first = append_first().await.expect(200);
    let before = app.dump().await;
    let again = append_first().await.expect(200);
    assert_eq!(again.body, first.body);
    assert_eq!(app.dump().await, before);

    let next =
        app.commit("ns", "t", vec![main_is(Some(1))], append(2, Some(1), 2)).await.expect(200);
    let again = append_first().await.expect(200);
    assert_eq!(again.body, next.body);
    let mut other = append(1, None, 1);
    other[0]["snapshot"]["summary"]["operation"] = "overwrite".into();
    app.commit("ns", "t", requirements.clone(), other).await.expect(409);
}

#[tokio::test]
async fn concurrent_copies_of_an_append_are_all_acknowledged_and_applied_once() {
    let app = TestApp::with_table().await;
    let copies =
        join_all((0..8).map(|_| app.commit("ns", "t", vec![main_is(None)], append(1, None, 1))));
    for copy in copies.await {
        assert_eq!(copy.expect(200).body["metadata"]["current-snapshot-id"], 1);
    }
    let loaded = app.get(TABLE).await.expect(200);
    assert_eq!(loaded.body["metadata"]["snapshots"].as_array().map(Vec::len), Some(1));
    assert_eq!(loaded.body["metadata"]["metadata-log"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn failed_requirement_is_in_the_error() {
    let app = TestApp::with_table().await;
    let uuid = uuid(&app).await;
    app.commit("ns", "t", vec![], append(7, None, 1)).await.expect(200);
    let tag = json!({ "action": "set-snapshot-ref", "ref-name": "v1", "type": "tag",
                      "snapshot-id": 7 });
    app.commit("ns", "t", vec![], vec![tag]).await.expect(200);
    let other = "00000000-0000-4000-8000-000000000001";
    let cases = [
        (json!({ "type": "assert-create" }), "table already exists".to_owned()),
        (
            json!({ "type": "assert-table-uuid", "uuid": other }),
            format!("UUID does not match: expected {uuid} != {other}"),
        ),
        (main_is(None), "branch main was created concurrently".to_owned()),
        (main_is(Some(8)), "branch main has changed: expected id 8 != 7".to_owned()),
        (
            json!({ "type": "assert-ref-snapshot-id", "ref": "v1", "snapshot-id": null }),
            "tag v1 was created concurrently".to_owned(),
        ),
        (
            json!({ "type": "assert-ref-snapshot-id", "ref": "b", "snapshot-id": 1 }),
            "branch or tag b is missing, expected 1".to_owned(),
        ),
        (
            json!({ "type": "assert-last-assigned-field-id", "last-assigned-field-id": 5 }),
            "last assigned field id changed: expected id 5 != 2".to_owned(),
        ),
        (
            json!({ "type": "assert-current-schema-id", "current-schema-id": 1 }),
            "current schema changed: expected id 1 != 0".to_owned(),
        ),
        (
            json!({ "type": "assert-last-assigned-partition-id",
                    "last-assigned-partition-id": 1000 }),
            "last assigned partition id changed: expected id 1000 != 999".to_owned(),
        ),
        (
            json!({ "type": "assert-default-spec-id", "default-spec-id": 3 }),
            "default partition spec changed: expected id 3 != 0".to_owned(),
        ),
        (
            json!({ "type": "assert-default-sort-order-id", "default-sort-order-id": 4 }),
            "default sort order changed: expected id 4 != 0".to_owned(),
        ),
    ];
    for (requirement, text) in cases {
        let body = json!({ "requirements": [requirement], "updates": [set_property("a", "1")] });
        let response = app.post_rejected(TABLE, body).await;
        let message = format!("Requirement failed: {text}");
        assert_eq!(response.error(), (409, "CommitFailedException", message.as_str()));
    }
}

#[tokio::test]
async fn one_failed_requirement_rejects_the_whole_commit() {
    let app = TestApp::with_table().await;
    let body = json!({
        "requirements": [main_is(None), main_is(Some(1))],
        "updates": [set_property("a", "1"), set_property("b", "2")],
    });
    let response = app.post_rejected(TABLE, body).await;
    assert_eq!(response.message(), "Requirement failed: branch or tag main is missing, expected 1");
}

#[tokio::test]
async fn failed_update_discards_the_updates_before_it() {
    let app = TestApp::with_table().await;
    let unknown = json!({ "action": "set-current-schema", "schema-id": 9 });
    let body = json!({ "requirements": [], "updates": [set_property("a", "1"), unknown] });
    let response = app.post_rejected(TABLE, body).await;
    assert_eq!(
        response.error(),
        (400, "IllegalArgumentException", "Cannot set current schema to unknown schema: 9")
    );
}

#[tokio::test]
async fn commit_with_another_table_in_the_body_is_rejected() {
    let app = TestApp::with_table().await;
    let body = |name: &str| {
        json!({ "identifier": { "namespace": ["ns"], "name": name },
                "requirements": [], "updates": [set_property("a", name)] })
    };
    app.post(TABLE, body("t")).await.expect(200);
    let response = app.post_rejected(TABLE, body("u")).await;
    assert_eq!(
        response.error(),
        (400, "BadRequestException", "The body's identifier is ns.u, the path's is ns.t")
    );
}

#[tokio::test]
async fn one_of_two_commits_on_the_same_snapshot_wins() {
    let app = TestApp::with_table().await;
    let commits =
        (1..=16).map(|id| app.commit("ns", "t", vec![main_is(None)], append(id, None, 1)));
    let answers = join_all(commits).await;
    let won: Vec<_> = answers.iter().filter(|response| response.status == 200).collect();
    assert_eq!(won.len(), 1);
    for lost in answers.iter().filter(|response| response.status != 200) {
        assert_eq!(
            lost.error(),
            (
                409,
                "CommitFailedException",
                "Requirement failed: branch main was created concurrently"
            )
        );
    }
    let loaded = app.get(TABLE).await.expect(200);
    assert_eq!(loaded.body["metadata"], won[0].body["metadata"]);
}

#[tokio::test]
async fn concurrent_commits_without_conflicts_all_succeed() {
    let app = TestApp::with_table().await;
    let commits = (0..32).map(|n| {
        let (app, key) = (&app, format!("k{n}"));
        async move { app.commit("ns", "t", vec![], vec![set_property(&key, "x")]).await }
    });
    for response in join_all(commits).await {
        response.expect(200);
    }
    let loaded = app.get(TABLE).await.expect(200);
    let properties = loaded.body["metadata"]["properties"].as_object().expect("an object");
    assert_eq!(properties.keys().filter(|key| key.starts_with('k')).count(), 32);
    let log = loaded.body["metadata"]["metadata-log"].as_array().expect("a list");
    // Commits that wait at the same time may become one version.
    assert!((1..=32).contains(&log.len()), "{} files", log.len());
    for entry in log {
        let file = entry["metadata-file"].as_str().expect("a location");
        assert!(app.file(file).await.is_some(), "{file}");
    }
}

#[tokio::test]
async fn commits_to_a_dropped_table_fail() {
    let app = TestApp::with_table().await;
    app.delete(TABLE).await.expect(204);
    let response = app.commit("ns", "t", vec![], vec![set_property("a", "1")]).await;
    assert_eq!(response.error(), (404, "NoSuchTableException", "Table does not exist: ns.t"));
    let response: Value = json!({ "requirements": [{ "type": "assert-table-uuid",
        "uuid": "00000000-0000-4000-8000-000000000001" }], "updates": [] });
    app.post(TABLE, response).await.expect_error(404, "NoSuchTableException");
}

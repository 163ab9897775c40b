//! The updates of snapshots, references, statistics and encryption keys.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::table::append;

const TABLE: &str = "/v1/namespaces/ns/tables/t";

async fn updated(app: &TestApp, updates: Vec<Value>) -> Value {
    app.commit("ns", "t", vec![], updates).await.expect(200);
    app.get(TABLE).await.expect(200).body["metadata"].clone()
}

/// A table with the snapshots 1 and 2 on `main`.
async fn two_snapshots() -> TestApp {
    let app = TestApp::with_table().await;
    updated(&app, append(1, None, 1)).await;
    updated(&app, append(2, Some(1), 2)).await;
    app
}

fn reference(name: &str, kind: &str, snapshot_id: i64) -> Value {
    json!({ "action": "set-snapshot-ref", "ref-name": name, "type": kind,
            "snapshot-id": snapshot_id })
}

fn ids(metadata: &Value) -> Vec<i64> {
    let snapshots = metadata["snapshots"].as_array().expect("a list").iter();
    snapshots.map(|snapshot| snapshot["snapshot-id"].as_i64().expect("an id")).collect()
}

fn logged(metadata: &Value) -> Vec<i64> {
    let log = metadata["snapshot-log"].as_array().expect("a list").iter();
    log.map(|entry| entry["snapshot-id"].as_i64().expect("an id")).collect()
}

#[tokio::test]
async fn append_moves_main_and_the_snapshot_log() {
    let app = two_snapshots().await;
    let metadata = app.get(TABLE).await.expect(200).body["metadata"].clone();
    assert_eq!(ids(&metadata), [1, 2]);
    assert_eq!(logged(&metadata), [1, 2]);
    assert_eq!(metadata["current-snapshot-id"], 2);
    assert_eq!(metadata["last-sequence-number"], 2);
    assert_eq!(metadata["refs"], json!({ "main": { "snapshot-id": 2, "type": "branch" } }));
}

#[tokio::test]
async fn rollback_is_in_the_snapshot_log() {
    let app = two_snapshots().await;
    let metadata = updated(&app, vec![reference("main", "branch", 1)]).await;
    assert_eq!(metadata["current-snapshot-id"], 1);
    assert_eq!(logged(&metadata), [1, 2, 1]);
}

#[tokio::test]
async fn branches_and_tags_are_created_with_retention_and_removed() {
    let app = two_snapshots().await;
    let mut branch = reference("audit", "branch", 1);
    branch["min-snapshots-to-keep"] = json!(3);
    branch["max-snapshot-age-ms"] = json!(1000);
    branch["max-ref-age-ms"] = json!(2000);
    let metadata = updated(&app, vec![branch, reference("v1", "tag", 1)]).await;
    assert_eq!(
        metadata["refs"]["audit"],
        json!({ "snapshot-id": 1, "type": "branch", "min-snapshots-to-keep": 3,
                "max-snapshot-age-ms": 1000, "max-ref-age-ms": 2000 })
    );
    assert_eq!(metadata["refs"]["v1"], json!({ "snapshot-id": 1, "type": "tag" }));
    let removal = |name: &str| json!({ "action": "remove-snapshot-ref", "ref-name": name });
    let metadata = updated(&app, vec![removal("v1"), removal("not-there")]).await;
    assert_eq!(metadata["refs"].get("v1"), None);
    let metadata = updated(&app, vec![removal("main")]).await;
    assert_eq!(metadata["current-snapshot-id"], -1);
}

#[tokio::test]
async fn expiry_removes_snapshots_with_their_references_and_statistics() {
    let app = two_snapshots().await;
    let statistics = json!({ "snapshot-id": 1, "statistics-path": "memory:///warehouse/s.puffin",
        "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": [] });
    let set = json!({ "action": "set-statistics", "snapshot-id": 1, "statistics": statistics });
    updated(&app, vec![set, reference("v1", "tag", 1)]).await;
    let expiry = json!({ "action": "remove-snapshots", "snapshot-ids": [1, 99] });
    let metadata = updated(&app, vec![expiry]).await;
    assert_eq!(ids(&metadata), [2]);
    assert_eq!(metadata["refs"].get("v1"), None);
    assert_eq!(metadata["statistics"], json!([]));
    assert_eq!(logged(&metadata), [2]);
}

#[tokio::test]
async fn statistics_are_set_replaced_and_removed() {
    let app = two_snapshots().await;
    let file = |size: i64| {
        json!({ "snapshot-id": 1, "statistics-path": format!("memory:///warehouse/{size}.puffin"),
            "file-size-in-bytes": size, "file-footer-size-in-bytes": 1, "blob-metadata": [
                { "type": "ndv", "snapshot-id": 1, "sequence-number": 1, "fields": [1],
                  "properties": { "ndv": "7" } } ]})
    };
    let partitions = json!({ "snapshot-id": 2, "statistics-path": "memory:///warehouse/p.parquet",
        "file-size-in-bytes": 9 });
    let metadata = updated(
        &app,
        vec![
            json!({ "action": "set-statistics", "snapshot-id": 1, "statistics": file(10) }),
            json!({ "action": "set-statistics", "statistics": file(20) }),
            json!({ "action": "set-partition-statistics", "partition-statistics": partitions }),
        ],
    )
    .await;
    assert_eq!(metadata["statistics"], json!([file(20)]));
    assert_eq!(metadata["partition-statistics"], json!([partitions]));
    let metadata = updated(
        &app,
        vec![
            json!({ "action": "remove-statistics", "snapshot-id": 1 }),
            json!({ "action": "remove-partition-statistics", "snapshot-id": 2 }),
        ],
    )
    .await;
    assert_eq!(metadata["statistics"], json!([]));
    assert_eq!(metadata["partition-statistics"], json!([]));
}

#[tokio::test]
async fn unknown_snapshot_members_are_stored() {
    let app = TestApp::with_table().await;
    let mut updates = append(1, None, 1);
    let mut snapshot = updates[0]["snapshot"].clone();
    snapshot["key-id"] = json!("key-1");
    snapshot["of-a-later-version"] = json!({ "a": [1, 2.5, null], "b": "ü" });
    snapshot["summary"]["engine-version"] = json!("9");
    updates[0]["snapshot"] = snapshot.clone();
    let metadata = updated(&app, updates).await;
    assert_eq!(metadata["snapshots"], json!([snapshot]));
    let app = app.restart().await;
    let metadata = updated(&app, append(2, Some(1), 2)).await;
    assert_eq!(metadata["snapshots"][0], snapshot);
}

#[tokio::test]
async fn snapshot_with_an_outdated_sequence_number_is_a_conflict() {
    let app = two_snapshots().await;
    let body = json!({ "requirements": [], "updates": append(3, Some(1), 2) });
    let response = app.post_rejected(TABLE, body).await;
    assert_eq!(
        response.error(),
        (
            409,
            "CommitFailedException",
            "Validation failed, please retry: Cannot add snapshot with sequence number 2 older \
             than last sequence number 2"
        )
    );
}

#[tokio::test]
async fn invalid_snapshots_and_references_are_rejected() {
    let app = two_snapshots().await;
    let snapshot = |change: &dyn Fn(&mut Value)| {
        let mut updates = append(3, Some(2), 3);
        change(&mut updates[0]["snapshot"]);
        updates
    };
    let reference_with = |name: &str, kind: &str, member: &str, value: i64| {
        let mut reference = reference(name, kind, 1);
        reference[member] = json!(value);
        vec![reference]
    };
    let cases = [
        (append(1, Some(2), 3), "Snapshot already exists for id: 1"),
        (snapshot(&|s| s["snapshot-id"] = json!(-1)), "Invalid snapshot id: -1 (reserved)"),
        (
            snapshot(&|s| s["sequence-number"] = json!(-3)),
            "Invalid sequence number (cannot be negative): -3",
        ),
        (
            snapshot(&|s| s["snapshot-id"] = json!("3")),
            "Cannot parse to a long value: snapshot-id: \"3\"",
        ),
        (
            snapshot(&|s| {
                s.as_object_mut().expect("an object").remove("manifest-list");
            }),
            "Cannot parse missing string: manifest-list",
        ),
        (vec![reference("main", "tag", 1)], "Cannot set main to a tag, it must be a branch"),
        (vec![reference("b", "branch", 9)], "Cannot set b to unknown snapshot: 9"),
        (vec![reference("b", "bookmark", 1)], "Invalid snapshot ref type: bookmark"),
        (
            reference_with("v", "tag", "min-snapshots-to-keep", 1),
            "Tags do not support setting minSnapshotsToKeep",
        ),
        (
            reference_with("b", "branch", "max-ref-age-ms", 0),
            "Max reference age must be greater than 0",
        ),
    ];
    for (updates, message) in cases {
        let body = json!({ "requirements": [], "updates": updates });
        let response = app.post_rejected(TABLE, body).await;
        assert_eq!(response.error(), (400, "IllegalArgumentException", message));
    }
}

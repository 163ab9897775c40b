//! The health of tables: what to compact and what to expire.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::scan_table::{Content, ScanFile, ScanTable, TABLE, data_file};
use crate::support::served_app::ServedApp;
use crate::support::table::{create_table, set_property};

const HEALTH: &str = "/management/v1/tables/health";

async fn health_of(app: &TestApp, resource: &str) -> TestResponse {
    app.request(Method::GET, &format!("{HEALTH}?resource={resource}"), &[], &Value::Null).await
}

async fn health(table: &ScanTable) -> Value {
    health_of(&table.app, "table:default/ns/t").await.expect(200).body
}

/// Returns the actions of the advice.
fn actions(health: &Value) -> Vec<&str> {
    let advice = health["advice"].as_array().expect("advice");
    advice.iter().map(|it| it["action"].as_str().expect("an action")).collect()
}

async fn set_properties(table: &ScanTable, properties: &[(&str, &str)]) {
    let updates: Vec<_> =
        properties.iter().map(|(name, value)| set_property(name, value)).collect();
    table.app.post(TABLE, json!({ "requirements": [], "updates": updates })).await.expect(200);
}

/// A table with four files of one region and one of another, in two snapshots.
async fn small_files() -> ScanTable {
    let mut table = ScanTable::new(2).await;
    let name = |number| format!("eu-{number}");
    let eu: Vec<_> = (0..4).map(|number| data_file(&name(number), "eu", (1, 10))).collect();
    table.append(1, &eu).await;
    table.append(2, &[data_file("us", "us", (1, 20))]).await;
    table
}

#[tokio::test]
async fn table_without_snapshots_has_no_files_and_no_advice() {
    let table = ScanTable::new(2).await;
    let health = health(&table).await;
    assert_eq!(health["snapshot-id"], Value::Null);
    assert_eq!(health["data-files"]["files"], 0);
    assert_eq!(health["snapshots"]["oldest-id"], Value::Null);
    assert_eq!(health["growth"], Value::Null);
    assert_eq!(actions(&health), [] as [&str; 0]);
}

#[tokio::test]
async fn files_manifests_and_snapshots_are_counted() {
    let table = small_files().await;
    let health = health(&table).await;
    assert_eq!(health["resource"], "table:default/ns/t");
    assert_eq!(health["snapshot-id"], 2);
    assert_eq!(health["complete"], true);
    let expected = json!({
        "files": 5, "bytes": 5 * 4096, "rows": 50, "partitions": 2, "target-bytes": 512 << 20,
        "small-files": 5, "small-bytes": 5 * 4096, "compactable-files": 0, "compacted-files": 0,
    });
    assert_eq!(health["data-files"], expected);
    let manifests = &health["manifests"];
    assert_eq!((&manifests["data"], &manifests["delete"]), (&json!(2), &json!(0)));
    assert!(manifests["bytes"].as_u64().is_some_and(|bytes| bytes > 500), "{manifests}");
    let metadata = &health["metadata"];
    assert!(metadata["bytes"].as_u64().is_some_and(|bytes| bytes > 1000), "{metadata}");
    assert!(metadata["manifest-list-bytes"].as_u64().is_some_and(|it| it > 500), "{metadata}");
    assert_eq!(metadata["previous-files"], 2);
    let snapshots = &health["snapshots"];
    // The timestamps of both snapshots are in 2023.
    assert_eq!((&snapshots["snapshots"], &snapshots["expired"]), (&json!(2), &json!(1)));
    assert_eq!(snapshots["oldest-at-ms"], 1_700_000_000_001_i64);
    assert_eq!(actions(&health), ["expire-snapshots"]);
    assert_eq!(
        health["advice"][0]["statement"],
        "slateberg job expire-snapshots table:default/ns/t --delete"
    );
}

#[tokio::test]
async fn partition_with_five_small_files_should_be_compacted() {
    let mut table = small_files().await;
    table.append(3, &[data_file("eu-4", "eu", (1, 10))]).await;
    let counted = health(&table).await;
    assert_eq!(counted["data-files"]["compactable-files"], 5);
    assert_eq!(counted["data-files"]["compacted-files"], 1);
    let advice = &counted["advice"][0];
    assert_eq!(advice["run-with"], "spark");
    assert_eq!(advice["statement"], "CALL default.system.rewrite_data_files(table => 'ns.t')");
    assert_eq!(advice["reason"], "5 of 6 data files are small: about 1 file could replace them");
    set_properties(&table, &[("write.target-file-size-bytes", "4096")]).await;
    assert_eq!(actions(&health(&table).await), ["expire-snapshots"]);
}

#[tokio::test]
async fn equality_deletes_should_be_applied_and_position_deletes_compacted() {
    let mut table = small_files().await;
    let positions: Vec<_> = (0..5)
        .map(|number| ScanFile {
            content: Content::Positions(None),
            rows: 0,
            ..data_file(&format!("positions-{number}"), "eu", (1, 1))
        })
        .collect();
    table.commit(3, "overwrite", &[&positions]).await;
    let counted = health(&table).await;
    assert_eq!(counted["delete-files"]["position-files"], 5);
    assert_eq!(counted["manifests"]["delete"], 1);
    assert_eq!(actions(&counted), ["rewrite-position-delete-files", "expire-snapshots"]);

    let by_id = ScanFile { content: Content::Ids, ..data_file("by-id", "eu", (12, 12)) };
    let position =
        ScanFile { content: Content::Positions(None), ..data_file("many-positions", "eu", (1, 1)) };
    table.commit(4, "overwrite", &[&[by_id], &[position]]).await;
    let counted = health(&table).await;
    assert_eq!(counted["delete-files"]["equality-files"], 1);
    assert_eq!(counted["delete-files"]["deleted-rows"], 10);
    assert_eq!(actions(&counted), ["rewrite-data-files", "expire-snapshots"]);
    assert_eq!(
        counted["advice"][0]["statement"],
        "CALL default.system.rewrite_data_files(table => 'ns.t', options => \
         map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true'))"
    );
}

#[tokio::test]
async fn small_manifests_should_be_rewritten_and_old_metadata_files_deleted() {
    let mut table = ScanTable::new(2).await;
    let properties = [("write.metadata.previous-versions-max", "3"), ("gc.enabled", "false")];
    set_properties(&table, &properties).await;
    for id in 1..=20 {
        let region = if id % 2 == 0 { "eu" } else { "us" };
        let file = ScanFile { day: Some(id), ..data_file(&format!("f{id}"), region, (1, 1)) };
        table.append(i64::from(id), &[file]).await;
    }
    let counted = health(&table).await;
    assert_eq!(counted["manifests"]["small"], 20);
    assert_eq!(counted["snapshots"]["expired"], Value::Null, "gc.enabled is false");
    assert_eq!(actions(&counted), ["rewrite-manifests", "delete-old-metadata"]);
    assert_eq!(
        counted["advice"][1]["statement"],
        "ALTER TABLE default.ns.t SET TBLPROPERTIES \
         ('write.metadata.delete-after-commit.enabled' = 'true')"
    );
    let properties = [
        ("write.metadata.delete-after-commit.enabled", "true"),
        ("commit.manifest.target-size-bytes", "1000"),
    ];
    set_properties(&table, &properties).await;
    assert_eq!(actions(&health(&table).await), [] as [&str; 0]);
}

#[tokio::test]
async fn growth_is_the_difference_of_the_totals_in_the_summaries() {
    let mut table = ScanTable::new(2).await;
    for (id, files) in [(1, 10), (2, 4)] {
        let list = table.at("metadata/list.avro");
        let mut snapshot = table.snapshot(id, "append", &list);
        snapshot["summary"]["total-data-files"] = json!(files.to_string());
        snapshot["summary"]["total-records"] = json!((files * 100).to_string());
        table.commit_snapshot(snapshot).await.expect(200);
    }
    // The list of the current snapshot exists; that of the first one is not read.
    table.append(3, &[data_file("eu", "eu", (1, 1))]).await;
    let missing = health(&table).await["growth"].clone();
    assert_eq!(missing["data-files"], Value::Null, "the last summary has no totals");
    let list = table.at("metadata/snap-3.avro");
    let mut snapshot = table.snapshot(4, "append", &list);
    snapshot["summary"]["total-data-files"] = json!("7");
    snapshot["summary"]["total-records"] = json!("1500");
    table.commit_snapshot(snapshot).await.expect(200);
    let growth = json!({
        "from-at-ms": 1_700_000_000_001_i64, "to-at-ms": 1_700_000_000_004_i64, "snapshots": 3,
        "data-files": -3, "delete-files": null, "bytes": null, "rows": 500,
    });
    assert_eq!(health(&table).await["growth"], growth);
}

#[tokio::test]
async fn invalid_requests_and_unreadable_manifests_are_rejected() {
    let mut table = small_files().await;
    let app = &table.app;
    let invalid = "IllegalArgumentException";
    let missing = app.request(Method::GET, HEALTH, &[], &Value::Null).await;
    missing.expect_error(400, "BadRequestException");
    for resource in ["", "t", "view:default/ns/t", "namespace:default/ns", "table:default/t"] {
        health_of(app, resource).await.expect_error(400, invalid);
    }
    health_of(app, "table:default/ns/none").await.expect_error(404, "NoSuchTableException");
    // A commit must not make the server read the files of another table.
    let other = app.post("/v1/default/namespaces/ns/tables", create_table("other")).await;
    let other = other.expect(200).body["metadata"]["location"].as_str().map(ToOwned::to_owned);
    let list = format!("{}/metadata/list.avro", other.expect("a location"));
    let snapshot = table.snapshot(3, "append", &list);
    table.commit_snapshot(snapshot).await.expect(200);
    let outside = health_of(&table.app, "table:default/ns/t").await;
    outside.expect_error(406, "UnsupportedOperationException");
    let list = table.at("metadata/none.avro");
    let snapshot = table.snapshot(4, "append", &list);
    table.commit_snapshot(snapshot).await.expect(200);
    let damaged = health_of(&table.app, "table:default/ns/t").await;
    damaged.expect_error(400, "ValidationException");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_printed_on_the_command_line() {
    let mut table = small_files().await;
    table.append(3, &[data_file("eu-4", "eu", (1, 10))]).await;
    let served = ServedApp::start(table.app).await;
    let text = served.stdout_of(&["table", "health", "default/ns/t"]).await;
    assert!(text.contains("data files        6, 24.0 KiB, 60 rows, 2 partitions\n"), "{text}");
    assert!(text.contains("snapshots         3, 2 expired, 1 branch or tag\n"), "{text}");
    let advice = "\n\n1. 5 of 6 data files are small: about 1 file could replace them. Run in Spark:\n   \
                  CALL default.system.rewrite_data_files(table => 'ns.t')\n\
                  2. 2 of 3 snapshots have expired. Run:\n   \
                  slateberg job expire-snapshots table:default/ns/t --delete\n";
    assert!(text.ends_with(advice), "{text}");
    let json =
        served.stdout_of(&["table", "health", "table:default/ns/t", "--output", "json"]).await;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["data-files"]["small-files"], 6);
    assert_eq!(json["snapshots"]["oldest-at"], "2023-11-14T22:13:20.001Z");
}

//! Jobs and tables of format version 4, whose manifests the server cannot read.

use serde_json::{Value, json};

use crate::jobs::{filled, get_job, only_job, orphans_of, register};
use crate::support::avro::manifest_list;
use crate::support::table::append;
use crate::support::table_with_files::{ALL, TableWithFiles};

const JOBS: &str = "/management/v1/jobs";
const PURGE: &str = "/v1/namespaces/ns/tables/t?purgeRequested=true";

/// Asserts that a job has failed because of the format version of a table.
fn assert_failed(job: &Value) {
    assert_eq!(job["state"], "failed", "{job}");
    let error = job["last-error"].as_str().expect("a text");
    assert!(error.starts_with("cannot determine which files are needed: the table at "), "{error}");
    assert!(error.contains("has format version 4"), "{error}");
}

#[tokio::test]
async fn purge_of_a_version_4_table_reports_that_files_of_parquet_manifests_remain() {
    let table = filled().await;
    table.append_with_parquet_manifest("t").await;
    table.app.delete(PURGE).await.expect(204);
    assert_eq!(table.run().await, 1);
    assert_eq!(table.remaining_files().await, ["data/4.parquet", "stranger"]);
    assert_eq!(table.metadata_files().await, 0);
    let job = only_job(&table.app).await;
    assert_eq!(job["state"], "done", "{job}");
    let warning = job["warning"].as_str().expect("a text");
    assert!(warning.starts_with("files of the table remain: "), "{warning}");
    let cause = format!("{}: is a Parquet file", table.at("metadata/m4.parquet"));
    assert!(warning.contains(&cause), "{warning}");
    // The other remaining file is outside of the warehouse.
    let count = |name: &str| job["files"][name].as_u64().expect("a number");
    assert_eq!(count("kept"), 2);
    assert_eq!(count("done") + count("kept"), count("total"));
}

#[tokio::test]
async fn purge_of_a_version_4_table_with_a_parquet_manifest_list_leaves_its_manifests() {
    let table = filled().await;
    table.append_with_parquet_manifest("t").await;
    table.app.put_file(&table.at("metadata/snap-4.avro"), "PAR1 a list PAR1").await;
    table.app.delete(PURGE).await.expect(204);
    assert_eq!(table.run().await, 1);
    let remaining = ["data/4.parquet", "metadata/m4.parquet", "stranger"];
    assert_eq!(table.remaining_files().await, remaining);
    let job = only_job(&table.app).await;
    assert_eq!(job["state"], "done", "{job}");
    assert!(
        job["warning"].as_str().expect("a text").contains("snap-4.avro: is a Parquet"),
        "{job}"
    );
}

#[tokio::test]
async fn search_for_orphans_of_a_version_4_table_is_rejected() {
    let table = filled().await;
    table.append_with_parquet_manifest("t").await;
    let before = table.remaining_files().await;
    for dry_run in [true, false] {
        let rejected = table.app.post(JOBS, orphans_of("t", dry_run)).await;
        let rejected = rejected.expect_error(400, "IllegalArgumentException");
        let begin =
            "Cannot remove orphans: the server cannot read the manifests of format version 4";
        assert!(rejected.message().starts_with(begin), "{}", rejected.message());
    }
    assert_eq!(table.run().await, 0);
    assert_eq!(table.remaining_files().await, before);
}

#[tokio::test]
async fn search_for_orphans_fails_and_deletes_nothing_if_its_table_is_upgraded_to_version_4() {
    let table = filled().await;
    let started = table.app.post(JOBS, orphans_of("t", false)).await.expect(202).body;
    table.append_with_parquet_manifest("t").await;
    let before = table.remaining_files().await;
    assert_eq!(table.run().await, 1);
    assert_failed(&get_job(&table.app, &started["id"]).await);
    assert_eq!(table.remaining_files().await, before);
}

#[tokio::test]
async fn jobs_delete_no_files_that_another_table_of_version_4_may_need() {
    let table = filled().await;
    register(&table.app, "second").await;
    table.append_with_parquet_manifest("second").await;
    let before = table.remaining_files().await;
    assert_eq!(before.len(), ALL.len() + 3);
    let started = table.app.post(JOBS, orphans_of("t", false)).await.expect(202).body;
    assert_eq!(table.run().await, 1);
    assert_failed(&get_job(&table.app, &started["id"]).await);
    table.app.delete(PURGE).await.expect(204);
    assert_eq!(table.run().await, 1);
    let jobs = table.app.get(JOBS).await.expect(200).body["jobs"].clone();
    let purge = jobs.as_array().expect("a list").iter().find(|job| job["kind"] == "purge");
    assert_failed(purge.expect("it is listed"));
    assert_eq!(table.remaining_files().await, before);
}

/// Adds a snapshot without files to the table, so that its first snapshot expires.
async fn append_nothing(table: &TableWithFiles) {
    let list = table.at("metadata/snap-2.avro");
    table.app.put_file(&list, manifest_list(&[])).await;
    let mut updates = append(2, Some(1), 2);
    updates[0]["snapshot"]["manifest-list"] = json!(list);
    table.app.commit("ns", "t", vec![], updates).await.expect(200);
}

#[tokio::test]
async fn files_of_expired_snapshots_remain_if_their_table_is_upgraded_to_version_4() {
    let table = filled().await;
    append_nothing(&table).await;
    let expiry = json!({ "resource": "table:default/ns/t", "dry-run": false });
    let expired = table.app.post("/management/v1/snapshots/expire", expiry).await.expect(200).body;
    assert_eq!(expired["snapshots"][0]["snapshot-id"], 1, "{expired}");
    table.append_with_parquet_manifest("t").await;
    let before = table.remaining_files().await;
    assert_eq!(table.run().await, 1);
    assert_failed(&get_job(&table.app, &expired["job"]).await);
    assert_eq!(table.remaining_files().await, before);
}

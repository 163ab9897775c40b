//! Rewrite of manifests: the server merges the small manifests of a table. The crate `iceberg` writes
//! the files of the clients, and reads the result.

use std::sync::Arc;

use axum::http::Method;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::appends::{LoadedTable, TABLE};
use crate::support::fsck::assert_sound;
use crate::support::iceberg_writer::{LiveFiles, Manifests};
use crate::support::table::set_property;

const REWRITE: &str = "/management/v1/manifests/rewrite";

/// Returns a catalog that rebases no appends, whose table has this number of appends.
async fn with_appends(format_version: u8, count: i64) -> TestApp {
    let app = TestApp::rebasing("off", None, format_version).await;
    for id in 1..=count {
        commit_now(&app, id, Manifests::Append).await;
    }
    app
}

/// Commits to the current state.
async fn commit_now(app: &TestApp, id: i64, does: Manifests) {
    let table = LoadedTable::load(app).await;
    table.prepare(app, id, does).await.commit(app).await.expect(200);
}

async fn rewrite(app: &TestApp, dry_run: bool) -> TestResponse {
    let body = json!({ "resource": "table:default/ns/t", "dry-run": dry_run });
    app.request(Method::POST, REWRITE, &[], &body).await
}

fn head(table: &LoadedTable) -> &Value {
    let id = table.head().expect("a snapshot");
    let found = table.snapshots().iter().find(|it| it["snapshot-id"] == id);
    found.expect("the snapshot is in the table")
}

async fn live_files(app: &TestApp) -> LiveFiles {
    let table = LoadedTable::load(app).await;
    table.live_files(app, head(&table)).await
}

#[tokio::test]
async fn rewrite_merges_small_manifests_and_keeps_all_files() {
    for format_version in [1, 2, 3] {
        let app = with_appends(format_version, 5).await;
        let before = live_files(&app).await;
        let would = rewrite(&app, true).await.expect(200).body;
        assert_eq!(
            would,
            json!({ "snapshot-id": null, "manifests-created": 1,
            "manifests-kept": 0, "manifests-replaced": 5, "entries-processed": 5 })
        );
        assert_eq!(LoadedTable::load(&app).await.snapshots().len(), 5);
        let rewritten = rewrite(&app, false).await.expect(200).body;
        let table = LoadedTable::load(&app).await;
        assert_eq!(rewritten["snapshot-id"], json!(table.head()));
        let summary = &head(&table)["summary"];
        assert_eq!(summary["operation"], "replace");
        let counts = ["manifests-created", "manifests-kept", "manifests-replaced"];
        assert_eq!(counts.map(|it| summary[it].clone()), ["1", "0", "5"].map(Value::from));
        assert_eq!(summary["entries-processed"], "5");
        let manifests = table.manifests(&app, head(&table)).await;
        let [merged] = &manifests[..] else { panic!("{manifests:?}") };
        assert_eq!((merged.existing_files_count, merged.existing_rows_count), (Some(5), Some(50)));
        assert_eq!(live_files(&app).await, before, "in format version {format_version}");
        let again = rewrite(&app, false).await.expect(200).body;
        assert_eq!((&again["snapshot-id"], &again["manifests-kept"]), (&Value::Null, &json!(1)));
        // The table remains writable, and a second rewrite merges the merged manifest again.
        for id in [6, 7] {
            commit_now(&app, id, Manifests::Append).await;
        }
        rewrite(&app, false).await.expect(200);
        assert_eq!(live_files(&app).await.len(), 7);
        assert_sound(Arc::clone(&app.bucket)).await;
    }
}

#[tokio::test]
async fn rows_keep_their_ids_over_a_rewrite() {
    let app = with_appends(3, 4).await;
    let table = LoadedTable::load(&app).await;
    let before = table.row_ids(&app, head(&table)).await;
    rewrite(&app, false).await.expect(200);
    let table = LoadedTable::load(&app).await;
    assert_eq!(table.row_ids(&app, head(&table)).await, before);
    commit_now(&app, 5, Manifests::Append).await;
    rewrite(&app, false).await.expect(200);
    let table = LoadedTable::load(&app).await;
    let after = table.row_ids(&app, head(&table)).await;
    assert!(before.iter().all(|(file, id)| after.get(file) == Some(id)), "{before:?} {after:?}");
    let mut ids: Vec<_> = after.values().collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[1] - pair[0] >= 10), "{after:?}");
}

#[tokio::test]
async fn rewrite_keeps_deleted_files_deleted() {
    let app = with_appends(2, 4).await;
    commit_now(&app, 5, Manifests::Delete(2)).await;
    commit_now(&app, 6, Manifests::Append).await;
    let before = live_files(&app).await;
    assert_eq!(before.len(), 3);
    rewrite(&app, false).await.expect(200);
    assert_eq!(live_files(&app).await, before);
}

#[tokio::test]
async fn target_size_of_the_table_bounds_the_new_manifests() {
    let app = with_appends(2, 6).await;
    let table = LoadedTable::load(&app).await;
    let length = table.manifests(&app, head(&table)).await[0].manifest_length;
    let target = set_property("commit.manifest.target-size-bytes", &(length * 3).to_string());
    app.commit("ns", "t", vec![], vec![target]).await.expect(200);
    rewrite(&app, false).await.expect(200);
    let table = LoadedTable::load(&app).await;
    let merged = table.manifests(&app, head(&table)).await;
    assert!(merged.iter().all(|it| it.manifest_length < length * 6), "{merged:?}");
    let small = set_property("commit.manifest.target-size-bytes", "1");
    app.commit("ns", "t", vec![], vec![small]).await.expect(200);
    let again = rewrite(&app, false).await.expect(200).body;
    assert_eq!(again["snapshot-id"], Value::Null, "no manifest is smaller than the target");
}

#[tokio::test]
async fn rewrites_and_appends_at_the_same_time_all_succeed() {
    for (max, format_version) in [("all", 2), ("all", 3)] {
        let app = TestApp::rebasing(max, Some(max), format_version).await;
        for id in 1..=6 {
            commit_now(&app, id, Manifests::Append).await;
        }
        let base = LoadedTable::load(&app).await;
        let appends = join_all((7..15).map(|id| base.prepare(&app, id, Manifests::Append))).await;
        let commits = join_all(appends.iter().map(|append| append.commit(&app)));
        let (rewritten, responses) = tokio::join!(rewrite(&app, false), commits);
        rewritten.expect(200);
        responses.into_iter().for_each(|response| drop(response.expect(200)));
        assert_eq!(live_files(&app).await.len(), 14);
        rewrite(&app, false).await.expect(200);
        let table = LoadedTable::load(&app).await;
        assert_eq!(table.manifests(&app, head(&table)).await.len(), 1);
        assert_eq!(live_files(&app).await.len(), 14);
        assert_sound(Arc::clone(&app.bucket)).await;
    }
}

#[tokio::test]
async fn damaged_or_foreign_manifests_are_refused_without_a_trace() {
    let app = with_appends(2, 3).await;
    let table = LoadedTable::load(&app).await;
    let manifests = table.manifests(&app, head(&table)).await;
    let path = manifests[1].manifest_path.clone();
    let content = app.file(&path).await.expect("it exists").to_vec();
    let mut broken = content.clone();
    let end = broken.len() - 20;
    broken[end] ^= 0xff;
    let longer = [&content[..], b"x"].concat();
    for damaged in [broken, longer] {
        app.put_file(&path, damaged).await;
        let before = app.dump().await;
        let refused = rewrite(&app, false).await.expect_error(400, "IllegalArgumentException");
        assert!(
            refused.message().starts_with("Cannot rewrite manifests: "),
            "{}",
            refused.message()
        );
        assert_eq!(app.dump().await, before, "nothing was written");
    }
    app.delete_file(&path).await;
    rewrite(&app, false).await.expect_error(400, "IllegalArgumentException");
    // A commit may name the files of another table.
    app.post("/v1/namespaces/ns/tables", crate::support::table::create_table("other"))
        .await
        .expect(200);
    let other = LoadedTable::load_named(&app, "other").await;
    let list = table.snapshots()[0]["manifest-list"].as_str().expect("a list");
    let stolen = other.commit_of(other.snapshot(9, list), String::new());
    let body = json!({ "requirements": [], "updates": stolen.updates });
    app.post("/v1/namespaces/ns/tables/other", body).await.expect(200);
    let body = json!({ "resource": "table:default/ns/other", "dry-run": false });
    let refused = app.request(Method::POST, REWRITE, &[], &body).await;
    let refused = refused.expect_error(400, "IllegalArgumentException");
    assert!(refused.message().contains("outside of the table"), "{}", refused.message());
}

#[tokio::test]
async fn rewrite_with_an_idempotency_key_happens_once() {
    let app = with_appends(2, 3).await;
    let body = json!({ "resource": "table:default/ns/t", "dry-run": false });
    let key = [("Idempotency-Key", "0197a000-0000-7000-8000-00000000abcd")];
    let first = app.request(Method::POST, REWRITE, &key, &body).await.expect(200).body;
    let second = app.request(Method::POST, REWRITE, &key, &body).await.expect(200).body;
    assert_eq!(first, second);
    assert_eq!(LoadedTable::load(&app).await.snapshots().len(), 4);
    let history = app.get("/management/v1/history?resource=table:default/ns/t").await;
    assert_eq!(history.expect(200).body["entries"][0]["action"], "rewrite_manifests");
}

#[tokio::test]
async fn table_without_snapshots_has_nothing_to_rewrite() {
    let app = with_appends(2, 0).await;
    for dry_run in [true, false] {
        let rewritten = rewrite(&app, dry_run).await.expect(200).body;
        assert_eq!(
            (&rewritten["snapshot-id"], &rewritten["manifests-kept"]),
            (&Value::Null, &json!(0))
        );
    }
    assert_eq!(app.get(TABLE).await.expect(200).body["metadata"]["snapshots"], json!([]));
}

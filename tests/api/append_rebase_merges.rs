//! Rebases of commits that replace manifests: appends that merge manifests, and compactions. The
//! crate `iceberg` writes the files of the clients, and reads the result.

use std::collections::BTreeSet;

use futures::future::join_all;
use iceberg::spec::ManifestContentType;
use serde_json::Value;

use crate::support::app::TestApp;
use crate::support::appends::LoadedTable;
use crate::support::iceberg_writer::Manifests;

const CONFLICT: &str = "CommitFailedException";

/// Returns a catalog whose table has this number of appends, with the snapshots 1, 2 and so on.
async fn with_appends(max: &str, format_version: u8, count: i64) -> TestApp {
    let app = TestApp::rebasing(max, Some(max), format_version).await;
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

fn refused_with(response: &str, reason: &str) {
    let end = format!("(not rebased: {reason})");
    assert!(response.ends_with(&end), "{response}");
}

/// Returns the snapshot with this id.
fn snapshot(table: &LoadedTable, id: i64) -> &Value {
    let found = table.snapshots().iter().find(|it| it["snapshot-id"] == id);
    found.expect("the snapshot is in the table")
}

/// Asserts that the current snapshot has exactly these files, each with the sequence number of the
/// snapshot that added it. The file of an append has the id of its snapshot.
async fn assert_files(app: &TestApp, ids: impl IntoIterator<Item = i64>) {
    let table = LoadedTable::load(app).await;
    let head = snapshot(&table, table.head().expect("a snapshot"));
    let found = table.live_files(app, head).await;
    let expected = ids.into_iter().map(|id| {
        let number = snapshot(&table, id)["sequence-number"].as_i64().expect("a number");
        (table.at(&format!("data/{id}.parquet")), (number, id))
    });
    assert_eq!(found, expected.collect());
    let numbers = table.snapshots().iter().map(|it| it["sequence-number"].as_i64());
    assert!(numbers.eq((1..=table.snapshots().len()).map(|it| i64::try_from(it).ok())));
    if table.number("format-version") >= 3 {
        assert_row_ids(app, &table, head).await;
    }
}

/// Asserts that the data manifests of a snapshot have disjoint ranges of row ids.
async fn assert_row_ids(app: &TestApp, table: &LoadedTable, head: &Value) {
    let mut ranges: Vec<_> = table
        .manifests(app, head)
        .await
        .iter()
        .filter(|it| it.content == ManifestContentType::Data)
        .map(|it| {
            let first = it.first_row_id.expect("a row id");
            (first, first + it.added_rows_count.unwrap_or(0) + it.existing_rows_count.unwrap_or(0))
        })
        .collect();
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ranges:?}");
    let last = ranges.last().map_or(0, |it| it.1);
    assert!(i64::try_from(last).is_ok_and(|last| last <= table.number("next-row-id")));
}

async fn manifest_paths(app: &TestApp) -> BTreeSet<String> {
    let table = LoadedTable::load(app).await;
    let head = snapshot(&table, table.head().expect("a snapshot"));
    table.manifests(app, head).await.into_iter().map(|it| it.manifest_path).collect()
}

#[tokio::test]
async fn append_that_merged_manifests_is_rebased_with_its_merge() {
    for format_version in [2, 3] {
        let app = with_appends("all", format_version, 4).await;
        let merge = LoadedTable::load(&app).await.prepare(&app, 6, Manifests::Merge(3)).await;
        commit_now(&app, 5, Manifests::Append).await;
        merge.commit(&app).await.expect(200);
        assert_files(&app, 1..=6).await;
        let table = LoadedTable::load(&app).await;
        let expected = [6, 5, 4].map(|id| table.at(&format!("metadata/m-{id}.avro")));
        assert_eq!(manifest_paths(&app).await, expected.into());
        // The merge is in the list that the next rebase continues, also after a restart.
        let append = table.prepare(&app, 8, Manifests::Append).await;
        commit_now(&app, 7, Manifests::Append).await;
        let app = app.restart().await;
        append.commit(&app).await.expect(200);
        assert_files(&app, 1..=8).await;
    }
}

#[tokio::test]
async fn added_files_of_concurrent_merges_are_written_to_new_manifests() {
    for format_version in [2, 3] {
        let app = with_appends("all", format_version, 4).await;
        let base = LoadedTable::load(&app).await;
        let merges = join_all((5..13).map(|id| base.prepare(&app, id, Manifests::Merge(4)))).await;
        let responses = join_all(merges.iter().map(|merge| merge.commit(&app))).await;
        responses.into_iter().for_each(|response| drop(response.expect(200)));
        assert_files(&app, 1..=12).await;
        let paths = manifest_paths(&app).await;
        assert_eq!(paths.len(), 8, "one merged manifest, and seven new ones");
        let is_new = |path: &&String| path.ends_with("-m0.avro");
        assert_eq!(paths.iter().filter(is_new).count(), 7);
        assert!(paths.iter().all(|path| path.starts_with(&base.at("metadata/"))));
        // The response to a repeated commit is the same, and writes nothing.
        let before = app.dump().await;
        for merge in &merges {
            merge.commit(&app).await.expect(200);
        }
        assert_eq!(app.dump().await, before);
    }
}

#[tokio::test]
async fn merged_manifest_that_cannot_be_rewritten_is_refused_without_a_trace() {
    let app = with_appends("all", 2, 3).await;
    let base = LoadedTable::load(&app).await;
    let merge = |id| base.prepare(&app, id, Manifests::Merge(3));
    merge(4).await.commit(&app).await.expect(200);
    let (broken, other, missing) = (merge(5).await, merge(6).await, merge(7).await);
    app.put_file(&broken.manifest, "not an Avro file").await;
    let foreign = app.file(&merge(8).await.manifest).await.expect("it was written");
    app.put_file(&other.manifest, foreign).await;
    app.delete_file(&missing.manifest).await;
    let before = app.dump().await;
    for append in [broken, other, missing] {
        let refused = append.commit(&app).await.expect_error(409, CONFLICT);
        refused_with(refused.message(), "a merged manifest cannot be rewritten");
    }
    assert_eq!(app.dump().await, before, "nothing was written");
}

#[tokio::test]
async fn merge_over_an_expired_base_is_rebased() {
    let app = with_appends("all", 2, 3).await;
    let merge = LoadedTable::load(&app).await.prepare(&app, 5, Manifests::Merge(3)).await;
    commit_now(&app, 4, Manifests::Append).await;
    let expired = serde_json::json!({ "action": "remove-snapshots", "snapshot-ids": [3] });
    app.commit("ns", "t", vec![], vec![expired]).await.expect(200);
    merge.commit(&app).await.expect(200);
    let table = LoadedTable::load(&app).await;
    let head = snapshot(&table, 5);
    assert_eq!(table.live_files(&app, head).await.len(), 5);
}

#[tokio::test]
async fn compactions_are_rebased_over_appends_without_a_declaration() {
    for (format_version, which) in [(2, 0), (2, 1), (3, 0), (3, 1)] {
        let app = with_appends("declared", format_version, 4).await;
        let base = LoadedTable::load(&app).await;
        let does = [Manifests::Compact(3), Manifests::Rewrite(3)][which];
        let replacement = base.prepare(&app, 9, does).await;
        for id in [5, 6] {
            commit_now(&app, id, Manifests::Append).await;
        }
        replacement.commit(&app).await.expect(200);
        match does {
            Manifests::Compact(_) => assert_files(&app, [4, 5, 6, 9]).await,
            _ => assert_files(&app, 1..=6).await,
        }
        let table = LoadedTable::load(&app).await;
        let paths = manifest_paths(&app).await;
        let old = |id: i64| table.at(&format!("metadata/m-{id}.avro"));
        assert!([1, 2, 3].into_iter().all(|id| !paths.contains(&old(id))));
        assert!([4, 5, 6, 9].into_iter().all(|id| paths.contains(&old(id))));
        let app = app.restart().await;
        commit_now(&app, 10, Manifests::Append).await;
    }
}

#[tokio::test]
async fn compactions_that_remove_delete_files_are_rebased_over_appends() {
    for format_version in [2, 3] {
        let app = with_appends("declared", format_version, 2).await;
        commit_now(&app, 3, Manifests::DeleteRow(1)).await;
        commit_now(&app, 4, Manifests::DeleteRow(2)).await;
        let base = LoadedTable::load(&app).await;
        let compaction = base.prepare(&app, 9, Manifests::Compact(4)).await;
        for id in [5, 6] {
            commit_now(&app, id, Manifests::Append).await;
        }
        compaction.commit(&app).await.expect(200);
        assert_files(&app, [5, 6, 9]).await;
    }
}

#[tokio::test]
async fn compaction_is_refused_over_other_changes() {
    for (other, reason) in [
        (Manifests::Merge(2), "the branch no longer has the manifests that the commit replaces"),
        (Manifests::Compact(2), "the branch has changes other than appends"),
        (Manifests::Delete(1), "the branch has changes other than appends"),
        (Manifests::DeleteRow(1), "the branch has changes other than appends"),
    ] {
        let app = with_appends("all", 2, 4).await;
        let base = LoadedTable::load(&app).await;
        let compaction = base.prepare(&app, 9, Manifests::Compact(3)).await;
        commit_now(&app, 5, other).await;
        let before = app.dump().await;
        let refused = compaction.commit(&app).await.expect_error(409, CONFLICT);
        refused_with(refused.message(), reason);
        assert_eq!(app.dump().await, before, "{other:?}");
    }
}

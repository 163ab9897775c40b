//! Rebases of transactions: several snapshots in one commit, and commits to several tables.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::app::{TestApp, TestResponse};
use crate::support::appends::{LoadedTable, PreparedAppend};
use crate::support::iceberg_writer::Manifests;
use crate::support::table::{create_table, set_property};

const CONFLICT: &str = "CommitFailedException";
const TRANSACTION: &str = "/v1/transactions/commit";
/// Time after which a commit that does not wait has ended.
const SHORT: Duration = Duration::from_millis(100);

fn change(table: &str, commit: &PreparedAppend) -> Value {
    json!({ "identifier": { "namespace": ["ns"], "name": table },
        "requirements": commit.requirements, "updates": commit.updates })
}

async fn commit_all(app: &TestApp, changes: Vec<Value>) -> TestResponse {
    app.post(TRANSACTION, json!({ "table-changes": changes })).await
}

async fn commit_now(app: &TestApp, id: i64, does: Manifests) {
    let table = LoadedTable::load(app).await;
    table.prepare(app, id, does).await.commit(app).await.expect(200);
}

/// Asserts that `main` consists of these snapshots, each of which has the files of all snapshots up
/// to it.
async fn assert_appends(app: &TestApp, table: &LoadedTable, ids: &[i64]) {
    let found: Vec<_> =
        table.snapshots().iter().filter_map(|it| it["snapshot-id"].as_i64()).collect();
    assert_eq!(found, ids);
    let mut parent = None;
    for (number, snapshot) in (1..).zip(table.snapshots()) {
        assert_eq!(snapshot["parent-snapshot-id"].as_i64(), parent, "{snapshot}");
        assert_eq!(snapshot["sequence-number"], number, "{snapshot}");
        let files = table.live_files(app, snapshot).await;
        let mut added: Vec<_> = files.into_values().collect();
        added.sort_unstable();
        let expected = (1..).zip(&ids[..number]).map(|(number, id)| (number, *id));
        assert_eq!(added, expected.collect::<Vec<_>>());
        parent = snapshot["snapshot-id"].as_i64();
    }
    assert_eq!(table.head(), parent);
}

/// Prepares a commit that appends the snapshots 8 and 9. Some clients move the branch only once, at
/// the end.
async fn two_appends(app: &TestApp, base: &LoadedTable, moves_twice: bool) -> PreparedAppend {
    let first = base.prepare(app, 8, Manifests::Append).await;
    let second = base.after(&first).prepare(app, 9, Manifests::Append).await;
    let mut updates = first.updates.clone();
    if !moves_twice {
        updates.truncate(1);
    }
    updates.extend(second.updates);
    PreparedAppend { updates, ..first }
}

#[tokio::test]
async fn several_appends_in_one_commit_are_rebased_together() {
    for (format_version, moves_twice) in [(2, false), (2, true), (3, false), (3, true)] {
        let app = TestApp::rebasing("all", Some("all"), format_version).await;
        commit_now(&app, 1, Manifests::Append).await;
        let base = LoadedTable::load(&app).await;
        let both = two_appends(&app, &base, moves_twice).await;
        commit_now(&app, 2, Manifests::Append).await;
        commit_all(&app, vec![change("t", &both)]).await.expect(204);
        commit_now(&app, 3, Manifests::Append).await;
        let table = LoadedTable::load(&app).await;
        assert_appends(&app, &table, &[1, 2, 8, 9, 3]).await;
        if format_version >= 3 {
            let first_row_ids = table.snapshots().iter().map(|it| it["first-row-id"].clone());
            assert_eq!(first_row_ids.collect::<Vec<_>>(), [0, 10, 20, 30, 40]);
        }
        let before = app.dump().await;
        commit_all(&app, vec![change("t", &both)]).await.expect(204);
        both.commit(&app).await.expect(200);
        assert_eq!(app.dump().await, before, "a repeated commit writes nothing");
    }
}

#[tokio::test]
async fn snapshots_of_one_commit_that_do_not_all_append_are_refused_with_the_reason() {
    let app = TestApp::rebasing("all", Some("all"), 2).await;
    commit_now(&app, 1, Manifests::Append).await;
    let base = LoadedTable::load(&app).await;
    let mut overwriting = two_appends(&app, &base, false).await;
    overwriting.updates[1]["snapshot"]["summary"]["operation"] = "overwrite".into();
    let first = base.prepare(&app, 8, Manifests::Append).await;
    let merging = base.after(&first).prepare(&app, 9, Manifests::Merge(1)).await;
    let merging =
        PreparedAppend { updates: [first.updates.clone(), merging.updates].concat(), ..first };
    commit_now(&app, 2, Manifests::Append).await;
    let before = app.dump().await;
    for commit in [overwriting, merging] {
        let refused = commit_all(&app, vec![change("t", &commit)]).await;
        let refused = refused.expect_error(409, CONFLICT);
        let end = "(not rebased: several snapshots are only rebased if each of them is an append \
                   without merged manifests)";
        assert!(refused.message().ends_with(end), "{}", refused.message());
    }
    assert_eq!(app.dump().await, before);
}

/// Returns a catalog with the tables `t` and `u`, which rebase appends.
async fn with_two_tables() -> Arc<TestApp> {
    let app = TestApp::with_settings(|settings| {
        settings.catalog.append_rebase = serde_json::from_value(json!("all")).expect("valid");
        settings.catalog.append_rebase_turn_ms = 10_000;
    })
    .await;
    app.create_namespace(&["ns"]).await;
    for name in ["t", "u"] {
        let mut table = create_table(name);
        table["properties"] = json!({ "slateberg.append-rebase": "all" });
        app.post("/v1/namespaces/ns/tables", table).await.expect(200);
    }
    Arc::new(app)
}

#[tokio::test]
async fn appends_to_several_tables_are_rebased_in_one_transaction() {
    let app = with_two_tables().await;
    let names = ["t", "u"];
    let mut bases = Vec::new();
    for name in names {
        bases.push(LoadedTable::load_named(&app, name).await);
    }
    for id in 1..=3 {
        let mut changes = Vec::new();
        for (base, name) in bases.iter().zip(names) {
            changes.push(change(name, &base.prepare(&app, id, Manifests::Append).await));
        }
        commit_all(&app, changes).await.expect(204);
    }
    for name in names {
        let table = LoadedTable::load_named(&app, name).await;
        assert_appends(&app, &table, &[1, 2, 3]).await;
    }
    // If one table refuses its change, no table changes.
    let append = bases[0].prepare(&app, 4, Manifests::Append).await;
    let mut overwrite = bases[1].prepare(&app, 4, Manifests::Append).await;
    overwrite.updates[0]["snapshot"]["summary"]["operation"] = "overwrite".into();
    let before = app.dump().await;
    let changes = vec![change("t", &append), change("u", &overwrite)];
    commit_all(&app, changes).await.expect_error(409, CONFLICT);
    assert_eq!(app.dump().await, before);
}

/// Adds two appends to a table, of which the second is rebased.
async fn append_twice(app: &TestApp, name: &str, ids: [i64; 2]) {
    let base = LoadedTable::load_named(app, name).await;
    for id in ids {
        let append = base.prepare(app, id, Manifests::Append).await;
        commit_all(app, vec![change(name, &append)]).await.expect(204);
    }
}

#[tokio::test]
async fn transaction_over_several_tables_gets_a_turn_on_each_of_them() {
    let app = with_two_tables().await;
    let names = ["t", "u"];
    let mut stale = Vec::new();
    for name in names {
        append_twice(&app, name, [1, 2]).await;
        let base = LoadedTable::load_named(&app, name).await;
        stale.push(change(name, &base.prepare(&app, 9, Manifests::Delete(1)).await));
        append_twice(&app, name, [3, 4]).await;
    }
    commit_all(&app, stale).await.expect_error(409, CONFLICT);
    let (mut again, mut waiting) = (Vec::new(), Vec::new());
    for name in names {
        let loaded = LoadedTable::load_named(&app, name).await;
        again.push(change(name, &loaded.prepare(&app, 9, Manifests::Delete(1)).await));
        let append = change(name, &loaded.prepare(&app, 5, Manifests::Append).await);
        let property = json!({ "identifier": { "namespace": ["ns"], "name": name },
            "requirements": [], "updates": [set_property("a", "1")] });
        // Appends wait in transactions over one table and in those over several tables.
        let changes =
            if name == "t" { vec![append] } else { vec![append, other(&app, property).await] };
        let app = Arc::clone(&app);
        waiting.push(tokio::spawn(async move { commit_all(&app, changes).await }));
    }
    tokio::time::sleep(SHORT).await;
    assert!(waiting.iter().all(|append| !append.is_finished()), "the appends wait");
    commit_all(&app, again).await.expect(204);
    for append in waiting {
        append.await.expect("no panic").expect_error(409, CONFLICT);
    }
}

/// Returns a change of another table instead of this one.
async fn other(app: &TestApp, mut change: Value) -> Value {
    app.create_table("ns", "v").await;
    change["identifier"]["name"] = "v".into();
    change
}

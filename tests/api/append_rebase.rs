//! Appends that the server rebases.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::appends::{LoadedTable, ROWS, TABLE};
use crate::support::table::{append, main_is, set_property};

const CONFLICT: &str = "CommitFailedException";

/// Asserts that each snapshot is the parent of the next one and lists exactly the manifests of all
/// snapshots so far, and that row ids are unique. Returns the snapshot ids.
async fn check_line(app: &TestApp) -> Vec<i64> {
    let table = LoadedTable::load(app).await;
    let (mut parent, mut expected, mut next_row_id) = (None, BTreeSet::new(), 0);
    let mut ids = Vec::new();
    for (number, snapshot) in (1..).zip(table.snapshots()) {
        let id = snapshot["snapshot-id"].as_i64().expect("an id");
        assert_eq!(snapshot["parent-snapshot-id"].as_i64(), parent, "{snapshot}");
        assert_eq!(snapshot["sequence-number"], number, "{snapshot}");
        let manifests = table.manifests(app, snapshot).await;
        let own: Vec<_> = manifests.iter().filter(|it| it.added_snapshot_id == id).collect();
        assert_eq!(own.len(), 1);
        assert_eq!((own[0].sequence_number, own[0].min_sequence_number), (number, number));
        assert!(expected.insert(own[0].manifest_path.clone()));
        let paths: BTreeSet<_> = manifests.iter().map(|it| it.manifest_path.clone()).collect();
        assert_eq!((paths.len(), &paths), (manifests.len(), &expected));
        if table.number("format-version") >= 3 {
            assert_eq!(snapshot["first-row-id"], next_row_id);
            assert_eq!(own[0].first_row_id, u64::try_from(next_row_id).ok());
            next_row_id += ROWS;
        }
        parent = Some(id);
        ids.push(id);
    }
    assert_eq!(table.head(), parent);
    assert_eq!(table.number("next-row-id"), next_row_id);
    ids
}

#[tokio::test]
async fn concurrent_appends_of_writers_with_the_same_base_are_all_accepted() {
    for format_version in [2, 3] {
        let app = TestApp::rebasing("all", Some("all"), format_version).await;
        let base = LoadedTable::load(&app).await;
        let appends = join_all((1..=16).map(|id| base.append(&app, id))).await;
        let responses = join_all(appends.iter().map(|append| append.commit(&app))).await;
        for (id, response) in (1..).zip(responses) {
            let committed = response.expect(200);
            let snapshots = committed.body["metadata"]["snapshots"].as_array().expect("a list");
            assert!(snapshots.iter().any(|snapshot| snapshot["snapshot-id"] == id));
        }
        let ids: BTreeSet<_> = check_line(&app).await.into_iter().collect();
        assert_eq!(ids, (1..=16).collect());
    }
}

#[tokio::test]
async fn rebased_append_follows_the_head_and_names_the_snapshot_it_was_made_for() {
    let app = TestApp::rebasing("all", Some("all"), 2).await;
    let empty = LoadedTable::load(&app).await;
    for id in [1, 2] {
        LoadedTable::load(&app).await.append(&app, id).await.commit(&app).await.expect(200);
    }
    let loaded = LoadedTable::load(&app).await;
    LoadedTable::load(&app).await.append(&app, 3).await.commit(&app).await.expect(200);
    loaded.append(&app, 4).await.commit(&app).await.expect(200);
    empty.append(&app, 5).await.commit(&app).await.expect(200);
    assert_eq!(check_line(&app).await, [1, 2, 3, 4, 5]);
    let after = LoadedTable::load(&app).await;
    let from = |at: usize| after.snapshots()[at]["summary"]["slateberg.rebased-from"].clone();
    assert_eq!([from(2), from(3), from(4)], [Value::Null, json!("2"), json!("none")]);
}

#[tokio::test]
async fn appends_are_rebased_only_up_to_the_maximum_of_the_server() {
    // Each case consists of the setting for the maximum, the property of the table, whether the
    // append is declared as blind, and the expected status.
    for (max, property, declared, status) in [
        ("off", Some("all"), true, 409),
        ("declared", None, true, 409),
        ("declared", Some("off"), true, 409),
        ("declared", Some("All of them"), true, 409),
        ("declared", Some("declared"), false, 409),
        ("declared", Some("declared"), true, 200),
        ("declared", Some("all"), false, 409),
        ("declared", Some("all"), true, 200),
        ("all", Some("declared"), false, 409),
        ("all", Some("all"), false, 200),
    ] {
        let app = TestApp::rebasing(max, property, 2).await;
        let base = LoadedTable::load(&app).await;
        base.append(&app, 1).await.commit(&app).await.expect(200);
        let mut append = base.append(&app, 2).await;
        if declared {
            append = append.blind();
        }
        let response = append.commit(&app).await;
        assert_eq!(response.status, status, "{max} {property:?} {declared}: {}", response.body);
        if status == 409 {
            let message = response.message();
            let refusal = "Requirement failed: branch main was created concurrently";
            assert!(message.starts_with(refusal), "{message}");
            let reason = " (not rebased: the writer did not declare a blind append)";
            let explained = max != "off" && matches!(property, Some("declared" | "all"));
            assert_eq!(message.strip_prefix(refusal), Some(if explained { reason } else { "" }));
        }
    }
}

#[tokio::test]
async fn header_declares_all_appends_of_a_client_as_blind() {
    let app = TestApp::rebasing("declared", Some("declared"), 2).await;
    let base = LoadedTable::load(&app).await;
    base.append(&app, 1).await.commit(&app).await.expect(200);
    for (value, status) in [("false", 409), ("yes", 400), ("True", 200)] {
        let mut append = base.append(&app, 2).await;
        append.headers = vec![("Slateberg-Blind-Append", value)];
        append.commit(&app).await.expect(status);
    }
}

#[tokio::test]
async fn tables_inherit_the_property_of_their_namespace() {
    let app = TestApp::rebasing("all", None, 2).await;
    let property = json!({ "updates": { "slateberg.append-rebase": "all" }, "removals": [] });
    app.post("/v1/namespaces/ns/properties", property).await.expect(200);
    let base = LoadedTable::load(&app).await;
    base.append(&app, 1).await.commit(&app).await.expect(200);
    base.append(&app, 2).await.commit(&app).await.expect(200);
    app.commit("ns", "t", vec![], vec![set_property("slateberg.append-rebase", "off")])
        .await
        .expect(200);
    base.append(&app, 3).await.commit(&app).await.expect_error(409, CONFLICT);
}

#[tokio::test]
async fn transactions_over_one_table_are_rebased() {
    let app = TestApp::rebasing("all", Some("all"), 2).await;
    let base = LoadedTable::load(&app).await;
    for id in [1, 2, 3] {
        let append = base.append(&app, id).await;
        let change = json!({ "identifier": { "namespace": ["ns"], "name": "t" },
            "requirements": append.requirements, "updates": append.updates });
        let body = json!({ "table-changes": [change] });
        app.post("/v1/transactions/commit", body).await.expect(204);
    }
    assert_eq!(check_line(&app).await, [1, 2, 3]);
}

#[tokio::test]
async fn commits_that_are_no_blind_appends_are_refused_with_the_reason() {
    let app = TestApp::rebasing("all", Some("all"), 2).await;
    let base = LoadedTable::load(&app).await;
    base.append(&app, 1).await.commit(&app).await.expect(200);
    let mut overwrite = base.append(&app, 2).await;
    overwrite.updates[0]["snapshot"]["summary"]["operation"] = "overwrite".into();
    let mut other_schema = base.append(&app, 2).await;
    other_schema.updates[0]["snapshot"]["schema-id"] = 5.into();
    let mut cherry_pick = base.append(&app, 2).await;
    cherry_pick.updates[0]["snapshot"]["summary"]["source-snapshot-id"] = "1".into();
    let mut moving = base.append(&app, 2).await;
    moving.updates.push(json!({ "action": "set-location", "location": base.at("other") }));
    let before = app.dump().await;
    for (commit, reason) in [
        (overwrite, "the snapshot depends on the state of the table"),
        (other_schema, "the schema has changed"),
        (cherry_pick, "the snapshot depends on the state of the table"),
        (moving, "it does more than append to a branch"),
    ] {
        let refused = commit.commit(&app).await.expect_error(409, CONFLICT);
        let end = format!(" (not rebased: {reason})");
        assert!(refused.message().ends_with(&end), "{}", refused.message());
    }
    assert_eq!(app.dump().await, before);
}

#[tokio::test]
async fn properties_beside_a_rebased_append_are_set() {
    let app = TestApp::rebasing("all", Some("all"), 2).await;
    let base = LoadedTable::load(&app).await;
    base.append(&app, 1).await.commit(&app).await.expect(200);
    let mut append = base.append(&app, 2).await;
    append.updates.insert(0, set_property("a", "1"));
    append.updates.push(json!({ "action": "remove-properties", "removals": ["b"] }));
    append.commit(&app).await.expect(200);
    let loaded = app.get(TABLE).await.expect(200);
    assert_eq!(loaded.body["metadata"]["properties"]["a"], "1");
    assert_eq!(check_line(&app).await, [1, 2]);
}

#[tokio::test]
async fn append_over_a_delete_or_a_rollback_is_refused() {
    let app = TestApp::rebasing("all", Some("all"), 2).await;
    let base = LoadedTable::load(&app).await;
    base.append(&app, 1).await.commit(&app).await.expect(200);
    let stale = LoadedTable::load(&app).await.append(&app, 9).await;
    let mut delete = LoadedTable::load(&app).await.append(&app, 2).await;
    delete.updates[0]["snapshot"]["summary"]["operation"] = "delete".into();
    delete.commit(&app).await.expect(200);
    let refused = stale.commit(&app).await.expect_error(409, CONFLICT);
    let reason = "(not rebased: the branch has changes other than appends)";
    assert!(refused.message().ends_with(reason), "{}", refused.message());

    let stale = LoadedTable::load(&app).await.append(&app, 9).await;
    let rollback = json!({ "action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
        "snapshot-id": 1 });
    app.commit("ns", "t", vec![main_is(Some(2))], vec![rollback]).await.expect(200);
    let refused = stale.commit(&app).await.expect_error(409, CONFLICT);
    assert!(refused.message().ends_with(reason), "{}", refused.message());
}

#[tokio::test]
async fn manifest_lists_that_are_missing_broken_or_foreign_are_refused_without_a_trace() {
    let app = TestApp::rebasing("all", Some("all"), 2).await;
    app.create_table("ns", "other").await;
    let base = LoadedTable::load(&app).await;
    base.append(&app, 1).await.commit(&app).await.expect(200);
    let other = app.get("/v1/namespaces/ns/tables/other").await.expect(200);
    let other = other.body["metadata"]["location"].as_str().expect("a location").to_owned();
    let append = base.append(&app, 2).await;
    let list = append.updates[0]["snapshot"]["manifest-list"].as_str().expect("one").to_owned();
    let content = app.file(&list).await.expect("it was written");
    let foreign = format!("{other}/metadata/snap-2.avro");
    app.put_file(&foreign, content.clone()).await;
    let missing = base.at("metadata/none.avro");
    let cut = base.at("metadata/cut.avro");
    app.put_file(&cut, content[..content.len() - 1].to_vec()).await;
    let text = base.at("metadata/text.avro");
    app.put_file(&text, "not an Avro file").await;
    let before = app.dump().await;
    for (location, reason) in [
        (foreign, "a file is outside of the locations of the table"),
        (
            "memory:///elsewhere/list.avro".to_owned(),
            "a file is outside of the locations of the table",
        ),
        (missing, "the manifest list cannot be read"),
        (cut, "the manifest list cannot be read"),
        (text, "the manifest list cannot be read"),
    ] {
        let mut append = append.clone();
        append.updates[0]["snapshot"]["manifest-list"] = location.as_str().into();
        let refused = append.commit(&app).await.expect_error(409, CONFLICT);
        let end = format!("(not rebased: {reason})");
        assert!(refused.message().ends_with(&end), "{location}: {}", refused.message());
    }
    assert_eq!(app.dump().await, before, "nothing was written");
}

#[tokio::test]
async fn table_with_too_many_manifests_or_snapshots_gets_conflicts_again() {
    for (manifests, snapshots, name) in [(2, 100, "manifests"), (100, 2, "snapshots")] {
        let app = TestApp::with_settings(|settings| {
            settings.catalog.append_rebase = serde_json::from_value(json!("all")).expect("valid");
            settings.catalog.append_rebase_manifests_max = manifests;
            settings.catalog.append_rebase_snapshots_max = snapshots;
        })
        .await;
        app.create_namespace(&["ns"]).await;
        app.create_table("ns", "t").await;
        let all = vec![set_property("slateberg.append-rebase", "all")];
        app.commit("ns", "t", vec![], all).await.expect(200);
        let base = LoadedTable::load(&app).await;
        for id in [1, 2] {
            base.append(&app, id).await.commit(&app).await.expect(200);
        }
        let refused = base.append(&app, 3).await.commit(&app).await.expect_error(409, CONFLICT);
        let end = format!("(not rebased: the table has too many {name})");
        assert!(refused.message().ends_with(&end), "{}", refused.message());
    }
}

#[tokio::test]
async fn rebased_append_that_is_sent_again_is_acknowledged_again_and_writes_nothing() {
    let app = TestApp::rebasing("all", Some("all"), 2).await;
    let base = LoadedTable::load(&app).await;
    base.append(&app, 1).await.commit(&app).await.expect(200);
    let append = base.append(&app, 2).await;
    append.commit(&app).await.expect(200);
    LoadedTable::load(&app).await.append(&app, 3).await.commit(&app).await.expect(200);
    let before = app.dump().await;
    append.commit(&app).await.expect(200);
    assert_eq!(app.dump().await, before);
    assert_eq!(check_line(&app).await, [1, 2, 3]);
}

#[tokio::test]
async fn rebase_after_a_restart_reads_the_manifest_list_of_the_head() {
    let app = TestApp::rebasing("all", Some("all"), 3).await;
    let base = LoadedTable::load(&app).await;
    for id in [1, 2] {
        base.append(&app, id).await.commit(&app).await.expect(200);
    }
    let app = app.restart().await;
    base.append(&app, 3).await.commit(&app).await.expect(200);
    assert_eq!(check_line(&app).await, [1, 2, 3]);
}

#[tokio::test]
async fn append_onto_a_head_whose_list_is_elsewhere_is_refused() {
    let app = TestApp::rebasing("all", Some("all"), 2).await;
    let base = LoadedTable::load(&app).await;
    app.commit("ns", "t", vec![main_is(None)], append(1, None, 1)).await.expect(200);
    let refused = base.append(&app, 2).await.commit(&app).await.expect_error(409, CONFLICT);
    let reason = "(not rebased: a file is outside of the locations of the table)";
    assert!(refused.message().ends_with(reason), "{}", refused.message());
    app.get(TABLE).await.expect(200);
}

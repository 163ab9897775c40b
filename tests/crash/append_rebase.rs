//! Manifest lists of rebased appends: a commit is acknowledged once its list exists. If a crash
//! prevents the write of a list, the next start writes the list.

use std::sync::Arc;

use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde_json::json;
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_config::Settings;

use crate::scene::{Scene, TIMEOUT, within};
use crate::support::app::TestApp;
use crate::support::appends::{LoadedTable, PreparedAppend, TABLE};
use crate::support::clock::HandClock;
use crate::support::faults::{Fault, FaultStore, METADATA_FILES, Verb};
use crate::support::fsck::assert_sound;
use crate::support::iceberg_writer::Manifests;
use crate::support::table::set_property;

/// Part of the name of all lists that the server writes.
const LISTS: &str = "-0-";
/// Part of the name of all lists that the clients write.
const LISTS_OF_CLIENTS: &str = "-client.avro";
/// Part of the name of all manifests that the server writes.
const MANIFESTS: &str = "-m0.avro";

/// Returns a catalog whose table has one snapshot, and the empty state before it.
async fn with_snapshot() -> (Scene, LoadedTable) {
    let scene = Scene::new().await;
    let all = vec![set_property("slateberg.append-rebase", "all")];
    scene.app.commit("ns", "t", vec![], all).await.expect(200);
    let empty = LoadedTable::load(&scene.app).await;
    empty.append(&scene.app, 1).await.commit(&scene.app).await.expect(200);
    (scene, empty)
}

/// Asserts that the table has these snapshots, and that each of them has the manifests of the
/// snapshots up to it.
async fn assert_snapshots(scene: &Scene, ids: &[i64]) {
    let table = LoadedTable::load(&scene.app).await;
    let found: Vec<_> =
        table.snapshots().iter().filter_map(|it| it["snapshot-id"].as_i64()).collect();
    assert_eq!(found, ids);
    for (number, snapshot) in (1..).zip(table.snapshots()) {
        let manifests = table.manifests(&scene.app, snapshot).await;
        let mut added: Vec<_> = manifests.iter().map(|it| it.added_snapshot_id).collect();
        added.sort_by_key(|id| ids.iter().position(|it| it == id));
        assert_eq!(added, ids[..number], "{snapshot}");
    }
    assert_sound(scene.bucket.clone()).await;
}

#[tokio::test]
async fn failed_put_of_a_list_is_retried_until_it_succeeds() {
    for fault in [Fault::Fail, Fault::LoseResponse] {
        let (scene, empty) = with_snapshot().await;
        let append = empty.append(&scene.app, 2).await;
        scene.faults.inject_times(Verb::Put, LISTS, fault, 2);
        append.commit(&scene.app).await.expect(200);
        assert_eq!(scene.faults.remaining(), 0, "both puts were affected");
        assert_snapshots(&scene, &[1, 2]).await;
    }
}

#[tokio::test]
async fn lists_of_appends_that_wait_for_another_one_are_read_at_the_same_time() {
    let (scene, _) = with_snapshot().await;
    let current = LoadedTable::load(&scene.app).await;
    let mut appends = Vec::new();
    for id in [2, 3, 4] {
        appends.push(current.append(&scene.app, id).await);
    }
    scene.faults.inject(Verb::Get, LISTS_OF_CLIENTS, Fault::Hang);
    let before = scene.faults.count(Verb::Get, LISTS_OF_CLIENTS);
    let commits = appends.iter().map(|append| append.commit(&scene.app));
    let both_are_read = async {
        while scene.faults.count(Verb::Get, LISTS_OF_CLIENTS) < before + 2 {
            tokio::task::yield_now().await;
        }
        scene.faults.lift();
    };
    let responses = async { tokio::join!(futures::future::join_all(commits), both_are_read).0 };
    for response in within(TIMEOUT, "reading the lists", responses).await {
        response.expect(200);
    }
    let table = LoadedTable::load(&scene.app).await;
    let ids: Vec<_> =
        table.snapshots().iter().filter_map(|it| it["snapshot-id"].as_i64()).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
    assert_snapshots(&scene, &ids).await;
}

#[tokio::test]
async fn rebased_append_is_invisible_until_its_list_is_written() {
    let (scene, empty) = with_snapshot().await;
    let append = empty.append(&scene.app, 2).await;
    scene.faults.inject(Verb::Put, LISTS, Fault::Hang);
    append.commit(&scene.app).await.expect_error(500, "CommitStateUnknownException");
    scene.app.get(TABLE).await.expect(503);
    scene.faults.lift();
    within(TIMEOUT, "publishing", async { while scene.app.get(TABLE).await.status != 200 {} })
        .await;
    append.commit(&scene.app).await.expect(200);
    assert_snapshots(&scene, &[1, 2]).await;
}

#[tokio::test]
async fn lists_that_a_crash_prevented_are_written_by_the_next_start() {
    for hanging in [LISTS, METADATA_FILES] {
        let (scene, empty) = with_snapshot().await;
        let mut appends = Vec::new();
        for id in [2, 3, 4] {
            appends.push(empty.append(&scene.app, id).await);
        }
        scene.faults.inject(Verb::Put, hanging, Fault::Hang);
        let commits = appends.iter().map(|append| append.commit(&scene.app));
        let responses = futures::future::join_all(commits).await;
        assert!(responses.iter().all(|response| response.status != 200), "{hanging}");
        let scene = scene.crash().await;
        let table = LoadedTable::load(&scene.app).await;
        let ids: Vec<_> =
            table.snapshots().iter().filter_map(|it| it["snapshot-id"].as_i64()).collect();
        assert!(ids.len() >= 2, "at least the first group is durable: {ids:?}");
        assert_snapshots(&scene, &ids).await;
        // The clients send their commits again. A commit that is already in the table is
        // recognized; every other commit is added.
        for append in &appends {
            append.commit(&scene.app).await.expect(200);
        }
        let table = LoadedTable::load(&scene.app).await;
        let mut ids: Vec<_> =
            table.snapshots().iter().filter_map(|it| it["snapshot-id"].as_i64()).collect();
        assert_snapshots(&scene, &ids).await;
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3, 4]);
    }
}

#[tokio::test]
async fn damaged_list_of_an_earlier_run_is_replaced() {
    let (scene, empty) = with_snapshot().await;
    let append = empty.append(&scene.app, 2).await;
    scene.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    append.commit(&scene.app).await.expect_error(500, "CommitStateUnknownException");
    let files = scene.app.files(empty.location()).await;
    let list = files.iter().find(|file| file.contains(LISTS)).expect("the list is written");
    scene.faults.kill();
    let path = Path::from(list.trim_start_matches("memory:///"));
    scene.bucket.put(&path, "Obj".into()).await.expect("it is written");
    let scene = Scene::on(scene.bucket).await;
    assert_snapshots(&scene, &[1, 2]).await;
    let commit = json!({ "requirements": [], "updates": [set_property("a", "1")] });
    scene.app.post(TABLE, commit).await.expect(200);
}

/// Returns a catalog whose table has four appends, and this state of the table. Then adds an append
/// that merges the first three manifests.
async fn with_merge() -> (Scene, LoadedTable) {
    let scene = Scene::new().await;
    let all = vec![set_property("slateberg.append-rebase", "all")];
    scene.app.commit("ns", "t", vec![], all).await.expect(200);
    for id in 1..=4 {
        let table = LoadedTable::load(&scene.app).await;
        table.prepare(&scene.app, id, Manifests::Append).await.commit(&scene.app).await.expect(200);
    }
    let base = LoadedTable::load(&scene.app).await;
    let merge = base.prepare(&scene.app, 5, Manifests::Merge(3)).await;
    merge.commit(&scene.app).await.expect(200);
    (scene, base)
}

/// Asserts that the current snapshot has the files of these snapshots, and that all of its files
/// can be read.
async fn assert_files(scene: &Scene, ids: &[i64]) {
    let table = LoadedTable::load(&scene.app).await;
    let head = table.snapshots().iter().find(|it| it["snapshot-id"].as_i64() == table.head());
    let found = table.live_files(&scene.app, head.expect("a snapshot")).await;
    let expected: Vec<_> = ids.iter().map(|id| table.at(&format!("data/{id}.parquet"))).collect();
    assert_eq!(found.into_keys().collect::<Vec<_>>(), expected);
    assert_sound(scene.bucket.clone()).await;
}

async fn written_manifests(scene: &Scene, table: &LoadedTable) -> usize {
    let files = scene.app.files(table.location()).await;
    files.iter().filter(|file| file.contains(MANIFESTS)).count()
}

#[tokio::test]
async fn crash_before_a_new_manifest_is_written_leaves_the_table_as_it_was() {
    let (scene, base) = with_merge().await;
    let merge = base.prepare(&scene.app, 6, Manifests::Merge(3)).await;
    scene.faults.inject(Verb::Put, MANIFESTS, Fault::Hang);
    // The server does not wait for the new manifest longer than the deadline of a commit.
    merge.commit(&scene.app).await.expect_error(409, "CommitFailedException");
    assert_eq!(written_manifests(&scene, &base).await, 0);
    let scene = scene.crash().await;
    assert_files(&scene, &[1, 2, 3, 4, 5]).await;
    merge.commit(&scene.app).await.expect(200);
    assert_files(&scene, &[1, 2, 3, 4, 5, 6]).await;
    assert_eq!(written_manifests(&scene, &base).await, 1);
}

#[tokio::test]
async fn failed_put_of_a_new_manifest_is_a_conflict_and_changes_nothing() {
    let (scene, base) = with_merge().await;
    let merge = base.prepare(&scene.app, 6, Manifests::Merge(3)).await;
    scene.faults.inject(Verb::Put, MANIFESTS, Fault::Fail);
    let refused = merge.commit(&scene.app).await.expect_error(409, "CommitFailedException");
    assert!(refused.message().ends_with("a merged manifest cannot be rewritten)"));
    assert_files(&scene, &[1, 2, 3, 4, 5]).await;
    scene.faults.lift();
    merge.commit(&scene.app).await.expect(200);
    assert_files(&scene, &[1, 2, 3, 4, 5, 6]).await;
}

#[tokio::test]
async fn new_manifest_and_replaced_manifests_survive_a_crash_before_the_list_is_written() {
    // Snapshot 6 needs a new manifest. Snapshot 7 replaces manifests of the list of snapshot 6.
    for hanging in [LISTS, METADATA_FILES] {
        for (id, does, files) in [
            (6, Manifests::Merge(3), &[1, 2, 3, 4, 5, 6][..]),
            (7, Manifests::Compact(2), &[6, 7]),
            (7, Manifests::Rewrite(2), &[1, 2, 3, 4, 5, 6]),
        ] {
            let (scene, mut base) = with_merge().await;
            if id == 7 {
                base = LoadedTable::load(&scene.app).await;
                let append = base.prepare(&scene.app, 6, Manifests::Append).await;
                append.commit(&scene.app).await.expect(200);
            }
            let commit = base.prepare(&scene.app, id, does).await;
            scene.faults.inject(Verb::Put, hanging, Fault::Hang);
            commit.commit(&scene.app).await.expect_error(500, "CommitStateUnknownException");
            assert_eq!(written_manifests(&scene, &base).await, usize::from(id == 6));
            let scene = scene.crash().await;
            assert_files(&scene, files).await;
            commit.commit(&scene.app).await.expect(200);
            assert_files(&scene, files).await;
        }
    }
}

#[tokio::test]
async fn lists_of_several_appends_in_one_commit_are_written_after_a_crash() {
    for hanging in [LISTS, METADATA_FILES] {
        let (scene, empty) = with_snapshot().await;
        let base = LoadedTable::load(&scene.app).await;
        let first = base.prepare(&scene.app, 2, Manifests::Append).await;
        let second = base.after(&first).prepare(&scene.app, 3, Manifests::Append).await;
        empty.append(&scene.app, 4).await.commit(&scene.app).await.expect(200);
        let updates = [first.updates.clone(), second.updates].concat();
        let both = PreparedAppend { updates, ..first };
        scene.faults.inject(Verb::Put, hanging, Fault::Hang);
        both.commit(&scene.app).await.expect_error(500, "CommitStateUnknownException");
        let scene = scene.crash().await;
        assert_snapshots(&scene, &[1, 4, 2, 3]).await;
        both.commit(&scene.app).await.expect(200);
        assert_snapshots(&scene, &[1, 4, 2, 3]).await;
    }
}

/// Opens the catalog of a scene again after a crash, 20 minutes later.
async fn much_later(scene: Scene) -> (TestApp, Arc<FaultStore>) {
    scene.faults.kill();
    let settings = Settings::clone(&scene.app.app.runtime.settings);
    let clock = HandClock::at_ms(SystemClock.now_ms() + 20 * 60 * 1000);
    let faults = FaultStore::new(scene.bucket);
    let opened = TestApp::with_clock(Arc::clone(&faults) as _, settings, Arc::new(clock));
    (within(TIMEOUT, "opening", opened).await, faults)
}

async fn run_jobs(app: &TestApp) -> usize {
    app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run")
}

fn are_left(files: &[String], parts: &[&str]) -> bool {
    let count = |part: &str| files.iter().filter(|file| file.contains(part)).count();
    parts.iter().all(|part| count(part) == 1)
}

#[tokio::test]
async fn lists_that_rebases_left_behind_before_a_crash_are_deleted_later() {
    let (scene, empty) = with_snapshot().await;
    for id in [2, 3] {
        empty.append(&scene.app, id).await.commit(&scene.app).await.expect(200);
    }
    let lists = ["snap-2-client", "snap-3-client"];
    assert!(are_left(&scene.app.files(empty.location()).await, &lists));
    let bucket = Arc::clone(&scene.bucket);
    let (app, faults) = much_later(scene).await;
    // Another crash interrupts the deletion.
    faults.inject(Verb::Delete, lists[1], Fault::Hang);
    let app = Arc::new(app);
    let running = Arc::clone(&app);
    let job = tokio::spawn(async move { run_jobs(&running).await });
    faults.wait_for_requests(Verb::Delete, "-client", 2).await;
    let again = Scene { bucket, faults, app };
    let (app, _) = much_later(again).await;
    job.abort();
    assert_eq!(run_jobs(&app).await, 1);
    let files = app.files(empty.location()).await;
    assert!(!files.iter().any(|file| lists.iter().any(|list| file.contains(list))), "{files:?}");
    assert!(are_left(&files, &["snap-1-client"]), "the first list is in use: {files:?}");
}

#[tokio::test]
async fn manifest_that_was_written_before_a_crash_is_deleted_unless_a_commit_uses_it() {
    for uses in [false, true] {
        let (scene, base) = with_merge().await;
        let merge = base.prepare(&scene.app, 6, Manifests::Merge(3)).await;
        if uses {
            merge.commit(&scene.app).await.expect(200);
        } else {
            // The manifest exists, and the server does not know this.
            scene.faults.inject(Verb::Put, MANIFESTS, Fault::LoseResponse);
            merge.commit(&scene.app).await.expect_error(409, "CommitFailedException");
        }
        assert_eq!(written_manifests(&scene, &base).await, 1);
        let bucket = Arc::clone(&scene.bucket);
        let (app, faults) = much_later(scene).await;
        run_jobs(&app).await;
        let scene = Scene { bucket, faults, app: Arc::new(app) };
        assert_eq!(written_manifests(&scene, &base).await, usize::from(uses));
        let files: Vec<_> = (1..=if uses { 6 } else { 5 }).collect();
        assert_files(&scene, &files).await;
    }
}

//! Files that rebases leave behind: a job deletes them, so that exactly the referenced files remain.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use serde_json::json;
use slateberg_base::clock::{Clock, SystemClock};

use crate::support::app::{TestApp, memory_settings};
use crate::support::appends::{LoadedTable, TABLE};
use crate::support::bucket::bucket;
use crate::support::clock::HandClock;
use crate::support::fsck::assert_sound;
use crate::support::iceberg_writer::Manifests;
use crate::support::table::{create_table, main_is, set_property};

/// Time after which the files are deleted: their grace period, and an interval of the collection.
const LATER_SECONDS: u64 = 17 * 60;

/// A catalog whose table rebases all appends.
struct Scene {
    app: TestApp,
    clock: Arc<HandClock>,
}

impl Scene {
    async fn new(format_version: u8, snapshots_max: usize) -> Self {
        let clock = Arc::new(HandClock::at_ms(SystemClock.now_ms()));
        let mut settings = memory_settings();
        settings.catalog.append_rebase = serde_json::from_value(json!("all")).expect("valid");
        settings.catalog.append_rebase_snapshots_max = snapshots_max;
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        let app = TestApp::with_clock(bucket(), settings, shared).await;
        app.create_namespace(&["ns"]).await;
        let mut table = create_table("t");
        table["properties"] = json!({ "format-version": format_version.to_string(),
            "slateberg.append-rebase": "all" });
        app.post("/v1/namespaces/ns/tables", table).await.expect(200);
        Self { app, clock }
    }

    async fn commit_now(&self, id: i64, does: Manifests) {
        let table = LoadedTable::load(&self.app).await;
        table.prepare(&self.app, id, does).await.commit(&self.app).await.expect(200);
    }

    /// Returns the files at the location of the table that the table does not reference.
    async fn unreferenced(&self) -> BTreeSet<String> {
        let loaded = self.app.get(TABLE).await.expect(200).body;
        let table = LoadedTable::load(&self.app).await;
        let text = |it: &serde_json::Value| it.as_str().expect("a location").to_owned();
        let mut referenced = BTreeSet::from([text(&loaded["metadata-location"])]);
        let log = loaded["metadata"]["metadata-log"].as_array().cloned().unwrap_or_default();
        referenced.extend(log.iter().map(|entry| text(&entry["metadata-file"])));
        for snapshot in table.snapshots() {
            referenced.insert(text(&snapshot["manifest-list"]));
            let manifests = table.manifests(&self.app, snapshot).await;
            referenced.extend(manifests.into_iter().map(|manifest| manifest.manifest_path));
        }
        let found: BTreeSet<_> = self.app.files(table.location()).await.into_iter().collect();
        assert!(referenced.is_subset(&found), "{referenced:?} {found:?}");
        found.difference(&referenced).cloned().collect()
    }

    async fn run_jobs(&self) -> usize {
        self.app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run")
    }

    /// Restarts the catalog after the grace period, runs all jobs, and returns the files that remain
    /// although the table does not reference them.
    async fn collected(self) -> (Self, BTreeSet<String>) {
        assert_eq!(self.run_jobs().await, 0, "the files remain for some time");
        self.clock.advance_seconds(LATER_SECONDS);
        let app = self.app.restart().await;
        let scene = Self { app, clock: self.clock };
        scene.run_jobs().await;
        let jobs = scene.app.get("/management/v1/jobs").await.expect(200).body;
        assert_eq!(jobs["jobs"], json!([]), "small jobs are not kept");
        assert_sound(Arc::clone(&scene.app.bucket)).await;
        let remaining = scene.unreferenced().await;
        (scene, remaining)
    }
}

#[tokio::test]
async fn only_referenced_files_remain_after_rebased_appends() {
    for format_version in [2, 3] {
        let scene = Scene::new(format_version, 100).await;
        let base = LoadedTable::load(&scene.app).await;
        let appends = (1..=12).map(|id| base.prepare(&scene.app, id, Manifests::Append));
        let appends = join_all(appends).await;
        let responses = join_all(appends.iter().map(|append| append.commit(&scene.app))).await;
        responses.into_iter().for_each(|response| drop(response.expect(200)));
        assert_eq!(scene.unreferenced().await.len(), 11, "one append was not rebased");
        let (_, remaining) = scene.collected().await;
        assert_eq!(remaining, BTreeSet::new());
    }
}

#[tokio::test]
async fn only_referenced_files_remain_after_merges_in_vain() {
    let scene = Scene::new(2, 100).await;
    for id in 1..=4 {
        scene.commit_now(id, Manifests::Append).await;
    }
    let base = LoadedTable::load(&scene.app).await;
    let merges = (5..8).map(|id| base.prepare(&scene.app, id, Manifests::Merge(4)));
    let merges = join_all(merges).await;
    let responses = join_all(merges.iter().map(|merge| merge.commit(&scene.app))).await;
    responses.into_iter().for_each(|response| drop(response.expect(200)));
    assert_eq!(scene.unreferenced().await.len(), 4, "two lists, and two merged manifests");
    let (scene, remaining) = scene.collected().await;
    assert_eq!(remaining, BTreeSet::new());
    let table = LoadedTable::load(&scene.app).await;
    let head = table.snapshots().last().expect("a snapshot");
    assert_eq!(table.live_files(&scene.app, head).await.len(), 7);
}

#[tokio::test]
async fn new_manifests_of_a_rejected_commit_are_deleted() {
    let scene = Scene::new(2, 5).await;
    for id in 1..=4 {
        scene.commit_now(id, Manifests::Append).await;
    }
    let base = LoadedTable::load(&scene.app).await;
    let merge = base.prepare(&scene.app, 6, Manifests::Merge(3)).await;
    scene.commit_now(5, Manifests::Merge(3)).await;
    let refused = merge.commit(&scene.app).await.expect_error(409, "CommitFailedException");
    let reason = "(not rebased: the table has too many snapshots)";
    assert!(refused.message().ends_with(reason), "{}", refused.message());
    let is_new = |file: &&String| file.ends_with("-m0.avro");
    assert_eq!(scene.unreferenced().await.iter().filter(is_new).count(), 1);
    let of_client = ["metadata/m-6.avro", "metadata/snap-6-client.avro"].map(|it| base.at(it));
    let (_, remaining) = scene.collected().await;
    assert_eq!(remaining, of_client.into(), "the client keeps the files of its rejected commit");
}

#[tokio::test]
async fn file_that_a_later_commit_references_is_not_deleted() {
    let scene = Scene::new(2, 100).await;
    let base = LoadedTable::load(&scene.app).await;
    scene.commit_now(1, Manifests::Append).await;
    let rebased = base.prepare(&scene.app, 2, Manifests::Append).await;
    rebased.commit(&scene.app).await.expect(200);
    let list = rebased.updates[0]["snapshot"]["manifest-list"].as_str().expect("a list");
    let table = LoadedTable::load(&scene.app).await;
    let again = table.commit_of(table.snapshot(3, list), rebased.manifest.clone());
    again.commit(&scene.app).await.expect(200);
    let (scene, remaining) = scene.collected().await;
    assert_eq!(remaining, BTreeSet::new());
    assert!(scene.app.file(list).await.is_some());
}

#[tokio::test]
async fn files_of_a_purged_table_are_deleted_too() {
    let scene = Scene::new(2, 100).await;
    let base = LoadedTable::load(&scene.app).await;
    for id in [1, 2] {
        base.prepare(&scene.app, id, Manifests::Append).await.commit(&scene.app).await.expect(200);
    }
    scene.app.delete(&format!("{TABLE}?purgeRequested=true")).await.expect(204);
    scene.run_jobs().await;
    let list = base.at("metadata/snap-2-client.avro");
    assert_eq!(scene.app.files(base.location()).await, [list]);
    scene.clock.advance_seconds(LATER_SECONDS);
    assert_eq!(scene.run_jobs().await, 1);
    assert_eq!(scene.app.files(base.location()).await, [""; 0]);
}

#[tokio::test]
async fn compaction_and_other_updates_leave_no_files_behind_but_the_list() {
    let scene = Scene::new(3, 100).await;
    for id in 1..=4 {
        scene.commit_now(id, Manifests::Append).await;
    }
    let base = LoadedTable::load(&scene.app).await;
    let mut compaction = base.prepare(&scene.app, 6, Manifests::Compact(3)).await;
    compaction.updates.push(set_property("a", "1"));
    scene.commit_now(5, Manifests::Append).await;
    compaction.commit(&scene.app).await.expect(200);
    let list = base.at("metadata/snap-6-client.avro");
    assert_eq!(scene.unreferenced().await, [list].into());
    // A commit without a rebase leaves nothing behind.
    let property = vec![set_property("b", "2")];
    scene.app.commit("ns", "t", vec![main_is(Some(6))], property).await.expect(200);
    let (_, remaining) = scene.collected().await;
    assert_eq!(remaining, BTreeSet::new());
}

//! Crashes in the middle of a rewrite of manifests and of an expiry of snapshots: the table keeps all
//! its files, and the files that the interrupted work has written are deleted later.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_config::Settings;

use crate::scene::{Scene, TIMEOUT, within};
use crate::support::app::TestApp;
use crate::support::appends::LoadedTable;
use crate::support::clock::HandClock;
use crate::support::faults::{Fault, FaultStore, METADATA_FILES, Verb};
use crate::support::fsck::assert_sound;
use crate::support::iceberg_writer::Manifests;

/// Part of the name of all manifests that a rewrite writes.
const MANIFESTS: &str = "-m0.avro";
/// Part of the name of all manifest lists that a rewrite writes.
const LISTS: &str = "-1-";
const FILES: i64 = 6;

/// Returns a catalog whose table has six appends.
async fn with_appends() -> Scene {
    let scene = Scene::new().await;
    for id in 1..=FILES {
        let table = LoadedTable::load(&scene.app).await;
        scene.app.put_file(&table.at(&format!("data/{id}.parquet")), "rows").await;
        let append = table.prepare(&scene.app, id, Manifests::Append).await;
        append.commit(&scene.app).await.expect(200);
    }
    scene
}

/// Sends a request of the management API in the background.
fn sending(scene: &Scene, path: &'static str, options: Value) -> tokio::task::JoinHandle<u16> {
    let app = Arc::clone(&scene.app);
    let mut body = json!({ "resource": "table:default/ns/t", "dry-run": false });
    body.as_object_mut().expect("an object").extend(options.as_object().cloned().expect("one"));
    tokio::spawn(async move { app.request(Method::POST, path, &[], &body).await.status.as_u16() })
}

fn rewriting(scene: &Scene) -> tokio::task::JoinHandle<u16> {
    sending(scene, "/management/v1/manifests/rewrite", json!({}))
}

fn expiring(scene: &Scene) -> tokio::task::JoinHandle<u16> {
    let options = json!({ "retain-last": 1, "older-than-seconds": 0 });
    sending(scene, "/management/v1/snapshots/expire", options)
}

/// Asserts that every snapshot can be read, and that the current one has all files. Returns the
/// number of its manifests.
async fn assert_readable(app: &TestApp) -> usize {
    let table = LoadedTable::load(app).await;
    let mut manifests = 0;
    for snapshot in table.snapshots() {
        let live = table.live_files(app, snapshot).await;
        for file in live.keys() {
            assert!(app.file(file).await.is_some(), "{file}");
        }
        if snapshot["snapshot-id"].as_i64() == table.head() {
            let expected = (1..=FILES).map(|id| table.at(&format!("data/{id}.parquet")));
            assert_eq!(live.into_keys().collect::<BTreeSet<_>>(), expected.collect());
            manifests = table.manifests(app, snapshot).await.len();
        }
    }
    assert_sound(Arc::clone(&app.bucket)).await;
    manifests
}

/// Opens the catalog of a scene again after a crash, 20 minutes later, and runs all jobs.
async fn much_later(scene: Scene) -> TestApp {
    scene.faults.kill();
    let settings = Settings::clone(&scene.app.app.runtime.settings);
    let clock = HandClock::at_ms(SystemClock.now_ms() + 20 * 60 * 1000);
    let faults = FaultStore::new(scene.bucket);
    let opened = TestApp::with_clock(faults, settings, Arc::new(clock));
    let app = within(TIMEOUT, "opening", opened).await;
    while app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run") > 0 {}
    app
}

/// Returns the number of manifests and manifest lists that rewrites have written.
async fn written(app: &TestApp) -> usize {
    let table = LoadedTable::load(app).await;
    let files = app.files(table.location()).await;
    let is_written = |file: &&String| {
        !file.contains("client") && (file.contains(MANIFESTS) || file.contains(LISTS))
    };
    files.iter().filter(is_written).count()
}

#[tokio::test]
async fn crash_in_a_rewrite_leaves_the_table_readable_and_no_files() {
    for (hanging, is_committed) in [(MANIFESTS, false), (LISTS, false), (METADATA_FILES, true)] {
        let scene = with_appends().await;
        let before = scene.faults.count(Verb::Put, hanging);
        scene.faults.inject(Verb::Put, hanging, Fault::Hang);
        let request = rewriting(&scene);
        scene.faults.wait_for_requests(Verb::Put, hanging, before + 1).await;
        if is_committed {
            within(TIMEOUT, "the response", request).await.expect("it responds");
        } else {
            request.abort();
        }
        let scene = scene.crash().await;
        let manifests = assert_readable(&scene.app).await;
        assert_eq!(manifests, if is_committed { 1 } else { 6 }, "{hanging}");
        let app = much_later(scene).await;
        assert_eq!(assert_readable(&app).await, manifests);
        assert_eq!(written(&app).await, if is_committed { 2 } else { 0 }, "{hanging}");
    }
}

#[tokio::test]
async fn file_that_a_rewrite_wrote_before_a_crash_is_deleted() {
    let scene = with_appends().await;
    let before = scene.faults.count(Verb::Put, LISTS);
    scene.faults.inject(Verb::Put, LISTS, Fault::Hang);
    let request = rewriting(&scene);
    scene.faults.wait_for_requests(Verb::Put, LISTS, before + 1).await;
    request.abort();
    assert_eq!(written(&scene.app).await, 1, "the manifest exists");
    let app = much_later(scene).await;
    assert_eq!((assert_readable(&app).await, written(&app).await), (6, 0));
}

#[tokio::test]
async fn crash_in_an_expiry_after_a_rewrite_deletes_only_unneeded_files() {
    for hanging in [METADATA_FILES, "m-2.avro", "snap-1-client"] {
        let scene = with_appends().await;
        rewriting(&scene).await.expect("it responds");
        assert_eq!(assert_readable(&scene.app).await, 1);
        let deletes = hanging != METADATA_FILES;
        let verb = if deletes { Verb::Delete } else { Verb::Put };
        let before = scene.faults.count(verb, hanging);
        scene.faults.inject(verb, hanging, Fault::Hang);
        let request = expiring(&scene);
        within(TIMEOUT, "the response", request).await.expect("it responds");
        let running = Arc::clone(&scene.app);
        let jobs =
            tokio::spawn(
                async move { running.app.runtime.catalog.jobs().run_jobs().await.is_ok() },
            );
        scene.faults.wait_for_requests(verb, hanging, before + 1).await;
        let app = much_later(scene).await;
        jobs.abort();
        assert_eq!(assert_readable(&app).await, 1, "{hanging}");
        let table = LoadedTable::load(&app).await;
        assert_eq!(table.snapshots().len(), 1);
        let files = app.files(table.location()).await;
        assert!(!files.iter().any(|file| file.contains("snap-1-client")), "{files:?}");
    }
}

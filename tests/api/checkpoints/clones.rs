//! Clones: a clone is a second catalog that starts from a state of the first, its parent, and
//! shares the parent's objects.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use futures::StreamExt;
use futures::future::join_all;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use serde_json::{Value, json};
use slateberg::app::App;
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_base::progress::Progress;
use slateberg_config::Settings;
use slateberg_runtime::clone::{Cloned, clone_catalog};
use slateberg_runtime::offline_writer::{OfflineError, OfflineWriter, RestoreTarget};
use slateberg_store::records::{FORMAT_OF_CLONES, FORMAT_VERSION};

use super::{
    PATH, TABLE, app_with_content, book, change, dependencies, grant, keep, restore, update_labels,
    visible_state,
};
use crate::encryption::encrypted;
use crate::jobs::orphans_of;
use crate::support::app::{TestApp, memory_settings};
use crate::support::appends::LoadedTable;
use crate::support::clock::HandClock;
use crate::support::faults::{FaultStore, Verb};
use crate::support::table::{append, set_property};
use crate::support::table_with_files::TableWithFiles;

/// Location of the clones in these tests.
const CLONE: &str = "memory:///clone";

async fn clone_to(
    bucket: &Arc<dyn ObjectStore>,
    settings: &Settings,
    of: Option<&str>,
    to: &str,
) -> Result<Cloned, OfflineError> {
    clone_catalog(
        settings,
        &dependencies(bucket),
        of.map(RestoreTarget::parse).as_ref(),
        to,
        &Progress::default(),
    )
    .await
}

/// Creates a clone of a checkpoint. Returns the id of the checkpoint that the clone needs.
pub(crate) async fn pinned_clone(app: &TestApp, of: &str) -> String {
    let settings = Settings::clone(&app.app.runtime.settings);
    clone_to(&app.bucket, &settings, Some(of), CLONE).await.expect("it is made").of.pin.to_string()
}

/// Returns a running clone of a checkpoint.
async fn cloned(app: &TestApp, of: &str) -> TestApp {
    let settings = Settings::clone(&app.app.runtime.settings);
    let done = clone_to(&app.bucket, &settings, Some(of), CLONE).await.expect("it is made");
    assert_eq!(done.report.broken, Vec::<String>::new());
    assert_eq!((done.url.as_str(), done.of.checkpoint.as_deref()), (CLONE, Some(of)));
    served(app, CLONE).await
}

/// Returns a server on another state in the same bucket, with the same key.
async fn served(app: &TestApp, url: &str) -> TestApp {
    let mut settings = Settings::clone(&app.app.runtime.settings);
    settings.state.url = url.to_owned();
    settings.state.wal_url = String::new();
    let mut clone = TestApp::with(Arc::clone(&app.bucket), settings).await;
    clone.credential.clone_from(&app.credential);
    clone
}

/// Returns all objects of the warehouse.
async fn files(app: &TestApp) -> Vec<String> {
    app.files("memory:///warehouse").await
}

fn rejection(result: Result<Cloned, OfflineError>) -> String {
    result.err().expect("it is refused").to_string()
}

#[tokio::test]
async fn clone_and_parent_change_independently() {
    let app = app_with_content().await;
    keep(&app, "before").await;
    let (before, policies) = (visible_state(&app).await, book(&app).await);
    let clone = cloned(&app, "before").await;
    assert_eq!((visible_state(&clone).await, book(&clone).await), (before.clone(), policies));

    let tag = app.get(TABLE).await.expect(200).header("etag").to_owned();
    let copy = clone.get(TABLE).await.expect(200);
    assert_ne!(copy.header("etag"), tag, "both continue with the same version numbers");

    change(&app).await;
    let after = visible_state(&app).await;
    assert_ne!(after, before);
    assert_eq!(visible_state(&clone).await, before, "a change of the parent affects the clone");

    clone.create_namespace(&["tried"]).await;
    clone.commit("ns", "t", vec![], append(2, Some(1), 2)).await.expect(200);
    clone.delete("/v1/namespaces/ns/tables/renamed").await.expect(204);
    grant(&clone, "role:tried").await;
    update_labels(&clone, json!({ "set": { "domain": "tried" } })).await.expect(200);
    let attempt = visible_state(&clone).await;
    assert_eq!(visible_state(&app).await, after, "a change of the clone affects the parent");
    let (app, clone) = (app.restart().await, clone.restart().await);
    assert_eq!((visible_state(&app).await, visible_state(&clone).await), (after, attempt));
    app.commit("ns", "t", vec![], vec![set_property("both", "yes")]).await.expect(200);
    clone.commit("ns", "t", vec![], vec![set_property("both", "yes")]).await.expect(200);
}

#[tokio::test]
async fn clone_deletes_no_files_and_reports_it() {
    let app = app_with_content().await;
    let kept = json!({
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    });
    let set = json!({ "action": "set-properties", "updates": kept });
    app.commit("ns", "t", vec![], vec![set]).await.expect(200);
    // The parent is about to delete the files of this table.
    app.delete("/v1/namespaces/ns/tables/purged?purgeRequested=true").await.expect(204);
    keep(&app, "before").await;
    let before = files(&app).await;
    let clone = cloned(&app, "before").await;

    let purge = "/v1/namespaces/ns/tables/dropped?purgeRequested=true";
    let error = clone.delete(purge).await.expect_error(400, "IllegalArgumentException");
    assert!(error.message().contains("this catalog is a clone"), "{}", error.message());
    clone.get("/v1/namespaces/ns/tables/dropped").await.expect(200);
    clone.delete("/v1/namespaces/ns/tables/dropped").await.expect(204);
    clone.delete(purge).await.expect(404);
    for number in 0..4 {
        let key = format!("k{number}");
        clone.commit("ns", "t", vec![], vec![set_property(&key, "v")]).await.expect(200);
    }
    let orphans = |dry_run: bool| {
        json!({
            "kind": "orphan-removal", "resource": "table:default/ns/t", "dry-run": dry_run,
        })
    };
    let jobs = "/management/v1/jobs";
    clone.post(jobs, orphans(false)).await.expect_error(400, "IllegalArgumentException");
    clone.post(jobs, orphans(true)).await.expect(202);
    assert_eq!(
        clone.app.runtime.catalog.jobs().run_jobs().await.expect("they run"),
        1,
        "only the search for orphans runs"
    );
    let after = files(&clone).await;
    assert!(before.iter().all(|file| after.contains(file)), "{before:#?} {after:#?}");
    assert_eq!(after.len(), before.len() + 4);

    // In the parent, the same commits delete files.
    for number in 0..4 {
        let key = format!("k{number}");
        app.commit("ns", "t", vec![], vec![set_property(&key, "v")]).await.expect(200);
    }
    app.app.runtime.catalog.jobs().run_jobs().await.expect("they run");
    let now = files(&app).await;
    assert!(before.iter().any(|file| !now.contains(file)));
    // The clone stores the metadata whose file the parent deletes.
    assert_eq!(
        clone.get("/v1/namespaces/ns/tables/t").await.expect(200).body["metadata"]["properties"]["k3"],
        "v"
    );
}

#[tokio::test]
async fn clone_shares_a_table_of_version_4_and_deletes_none_of_its_files() {
    let table = TableWithFiles::new().await;
    table.append_with_parquet_manifest("t").await;
    let app = &table.app;
    keep(app, "before").await;
    let (before, state) = (files(app).await, visible_state(app).await);
    let clone = cloned(app, "before").await;
    assert_eq!(visible_state(&clone).await, state);
    clone.commit("ns", "t", vec![], vec![set_property("k", "v")]).await.expect(200);
    clone.delete(&format!("{TABLE}?purgeRequested=true")).await.expect(400);
    for (dry_run, reason) in [(true, "format version 4"), (false, "this catalog is a clone")] {
        let mut orphans = orphans_of("t", dry_run);
        orphans["older-than-seconds"] = json!(86_400);
        let rejected = clone.post("/management/v1/jobs", orphans).await.expect(400);
        assert!(rejected.message().contains(reason), "{}", rejected.message());
    }
    clone.delete(TABLE).await.expect(204);
    assert_eq!(clone.app.runtime.catalog.jobs().run_jobs().await.expect("they run"), 0);
    let after = files(&clone).await;
    assert!(before.iter().all(|file| after.contains(file)), "{before:#?} {after:#?}");
    assert_eq!(visible_state(app).await, state);
}

#[tokio::test]
async fn files_of_rebases_in_a_clone_are_not_deleted() {
    let app = TestApp::rebasing("all", Some("all"), 2).await;
    let base = LoadedTable::load(&app).await;
    for id in [1, 2] {
        base.append(&app, id).await.commit(&app).await.expect(200);
    }
    keep(&app, "before").await;
    let clone = cloned(&app, "before").await;
    let loaded = LoadedTable::load(&clone).await;
    for id in [3, 4] {
        loaded.append(&clone, id).await.commit(&clone).await.expect(200);
    }
    let before = files(&clone).await;
    // Both catalogs have left a manifest list behind. Only the parent deletes its list.
    for (catalog, jobs) in [(clone, 0), (app, 1)] {
        catalog.app.runtime.catalog.close().await.expect("the catalog closes");
        let settings = Settings::clone(&catalog.app.runtime.settings);
        let clock = HandClock::at_ms(SystemClock.now_ms() + 20 * 60 * 1000);
        let bucket = Arc::clone(&catalog.bucket);
        let later = TestApp::with_clock(bucket, settings, Arc::new(clock)).await;
        assert_eq!(later.app.runtime.catalog.jobs().run_jobs().await.expect("they run"), jobs);
        let now = files(&later).await;
        let deleted: Vec<_> = before.iter().filter(|file| !now.contains(file)).collect();
        let list = base.at("metadata/snap-2-client.avro");
        assert_eq!(deleted, [&list][..jobs]);
    }
}

#[tokio::test]
async fn api_keys_are_valid_in_clone_and_parent_but_tokens_and_idempotency_records_in_one() {
    let app = app_with_content().await;
    let token = |response: Value| response["access_token"].as_str().expect("a token").to_owned();
    let exchange = async |app: &TestApp| {
        let form = format!("grant_type=client_credentials&client_secret={}", app.credential());
        let request = axum::http::Request::builder()
            .method(Method::POST)
            .uri("/v1/oauth/tokens")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("content-length", form.len())
            .body(form.into())
            .expect("it is a request");
        token(app.send(request).await.expect(200).body)
    };
    let parents = exchange(&app).await;
    let key = [("idempotency-key", "0190b6ad-aaaa-7000-8000-000000000001")];
    let body = json!({ "namespace": ["once"] });
    let create = async |app: &TestApp| {
        app.request(Method::POST, "/v1/namespaces", &key, &body).await.status.as_u16()
    };
    assert_eq!((create(&app).await, create(&app).await), (200, 200));
    keep(&app, "before").await;
    let clone = cloned(&app, "before").await;
    let clones = exchange(&clone).await;
    for (app, own, other) in [(&app, &parents, &clones), (&clone, &clones, &parents)] {
        app.get_as(own, "/v1/namespaces").await.expect(200);
        app.get_as(other, "/v1/namespaces").await.expect(401);
    }
    assert_eq!((create(&app).await, create(&clone).await), (200, 409));
    let response_body =
        async |app: &TestApp| app.get("/management/v1/server").await.expect(200).body;
    assert_eq!(response_body(&app).await["clone-of"], Value::Null);
    assert_eq!(response_body(&clone).await["clone-of"]["checkpoint"], "before");
}

#[tokio::test]
async fn encrypted_clone_and_parent_rotate_keys_independently() {
    let (app, _file) = encrypted().await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    let rotate = async |app: &TestApp| {
        let ring = app.post("/management/v1/encryption/rotate", json!({})).await.expect(200).body;
        let keys = ring["key-ring"]["data-keys"].as_array().expect("a list").iter();
        let numbers: Vec<_> = keys.map(|key| key["number"].as_u64().expect("one")).collect();
        (ring["key-ring"]["active-data-key"].as_u64().expect("one"), numbers)
    };
    rotate(&app).await;
    keep(&app, "before").await;
    let before = visible_state(&app).await;
    let clone = cloned(&app, "before").await;
    assert_eq!(visible_state(&clone).await, before);
    // The parent and the clone each create a new key. The two keys have different numbers.
    assert_eq!(rotate(&app).await, (3, vec![1, 2, 3]));
    assert_eq!(rotate(&clone).await, (4, vec![1, 2, 3, 4]));
    for (app, key) in [(&app, "parent"), (&clone, "clone")] {
        app.commit("ns", "t", vec![], vec![set_property(key, "yes")]).await.expect(200);
    }
    clone.post("/management/v1/encryption/rewrap", json!({})).await.expect(200);
    let (app, clone) = (app.restart().await, clone.restart().await);
    for (app, own, other) in [(&app, "parent", "clone"), (&clone, "clone", "parent")] {
        let table = app.get(TABLE).await.expect(200).body;
        let properties = &table["metadata"]["properties"];
        assert_eq!((&properties[own], &properties[other]), (&json!("yes"), &Value::Null));
    }
    keep(&clone, "of-the-clone").await;
    assert_eq!(clone.get(PATH).await.expect(200).body["checkpoints"][0]["name"], "of-the-clone");
    // A clone of an encrypted catalog cannot be opened without encryption.
    clone.app.runtime.catalog.close().await.expect("it closes");
    let mut settings = memory_settings();
    settings.state.url = CLONE.to_owned();
    settings.encryption = slateberg_kms::settings::Settings::default();
    let opened = App::build(settings, dependencies(&clone.bucket)).await;
    let error = opened.err().expect("it is refused").to_string();
    assert!(error.contains("the store is encrypted"), "{error}");
}

#[tokio::test]
async fn parent_with_a_separate_log_is_cloned_without_it() {
    let app = TestApp::with_settings(|settings| {
        settings.state.wal_url = "memory:///log".to_owned();
    })
    .await;
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    keep(&app, "before").await;
    let (before, log) = (visible_state(&app).await, app.files("memory:///log").await);
    let clone = cloned(&app, "before").await;
    assert_eq!(visible_state(&clone).await, before);
    clone.commit("ns", "t", vec![], vec![set_property("k", "v")]).await.expect(200);
    let (clone, app) = (clone.restart().await, app.restart().await);
    assert_eq!(clone.get(TABLE).await.expect(200).body["metadata"]["properties"]["k"], "v");
    assert_eq!(visible_state(&app).await, before);
    assert!(log.iter().all(|file| !file.contains("clone")));
    assert!(!clone.files("memory:///clone/wal").await.is_empty(), "the clone has its own log");
}

#[tokio::test]
async fn clone_has_its_own_checkpoints_and_exports() {
    let app = app_with_content().await;
    keep(&app, "before").await;
    let clone = cloned(&app, "before").await;
    assert_eq!(clone.get(PATH).await.expect(200).body["checkpoints"], json!([]));
    keep(&clone, "of-the-clone").await;
    let before = visible_state(&clone).await;
    change(&app).await;
    clone.create_namespace(&["tried"]).await;
    clone.app.runtime.catalog.close().await.expect("it closes");
    let settings = Settings::clone(&clone.app.runtime.settings);
    let done = restore(&clone.bucket, &settings, "of-the-clone").await.expect("it is restored");
    assert_eq!(done.summary.namespaces.removed, 1);
    let clone = clone.restart_closed().await;
    assert_eq!(visible_state(&clone).await, before);
    clone.delete(&format!("{TABLE}?purgeRequested=true")).await.expect(400);

    // The export of a clone is like that of any catalog. A catalog that imports it is not a clone.
    clone.app.runtime.catalog.close().await.expect("it closes");
    let mut lines = Vec::new();
    let export = slateberg_runtime::offline_writer::export_lines;
    export(&settings, &dependencies(&clone.bucket), None, &mut lines, &Progress::default())
        .await
        .expect("it is exported");
    let settings = Settings { state: memory_settings().state, ..settings };
    let bucket: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let other =
        OfflineWriter::open_or_create(&settings, &dependencies(&bucket)).await.expect("it opens");
    other
        .import(|| Ok(lines.as_slice()), None, &Progress::default())
        .await
        .expect("it is imported");
    other.close().await.expect("it closes");
}

#[tokio::test]
async fn older_binary_rejects_a_clone_and_opens_its_parent() {
    use slateberg_runtime::offline::OfflineCatalog;
    use slateberg_store::keys::StoreKey;
    use slateberg_store::read::StoreRead;

    let app = app_with_content().await;
    keep(&app, "before").await;
    let clone = cloned(&app, "before").await;
    let mut formats = Vec::new();
    for app in [&app, &clone] {
        let dependencies = dependencies(&app.bucket);
        let catalog =
            OfflineCatalog::open(&app.app.runtime.settings, &dependencies).await.expect("it opens");
        let format = catalog.store.get(&StoreKey).await.expect("it is read").expect("it is there");
        formats.push((format.format_version, format.catalog_id));
    }
    let (parent, clone) = (formats[0], formats[1]);
    assert_eq!((parent.0, clone.0), (FORMAT_VERSION, FORMAT_OF_CLONES));
    assert!(clone.0 > parent.0, "older binaries open the parent and reject the clone");
    assert_ne!(parent.1, clone.1);
}

#[tokio::test]
async fn invalid_clone_is_rejected_and_changes_nothing() {
    let app = app_with_content().await;
    keep(&app, "before").await;
    let settings = Settings::clone(&app.app.runtime.settings);
    let before = app.get(PATH).await.expect(200).body;
    let state = app.files("memory:///").await;
    for (of, to, expected) in [
        (Some("before"), "memory:///state", "is inside the state of the parent, or contains"),
        (Some("before"), "memory:///state/below", "outside of the parent's state"),
        (Some("before"), "memory:///", "expected a URL"),
        (Some("before"), "s3://bucket/clone", "Choose a location in the same bucket"),
        (Some("before"), "somewhere", "slateberg export and slateberg import"),
        (Some("before"), "memory:///warehouse", "cannot use location 'memory:///warehouse'"),
        (Some("before"), "memory:///a~b", "contains characters that object stores encode"),
        (Some("unknown"), CLONE, "there is no checkpoint 'unknown'"),
        (Some("2001-01-01T00:00:00Z"), CLONE, "there is no checkpoint at or before 2001-01-01"),
        (None, CLONE, "choose a checkpoint with --checkpoint"),
    ] {
        let found = rejection(clone_to(&app.bucket, &settings, of, to).await);
        assert!(found.contains(expected), "{to}: {found}");
    }
    assert_eq!(app.get(PATH).await.expect(200).body, before);
    assert_eq!(app.files("memory:///").await, state);

    let clone = cloned(&app, "before").await;
    let found = rejection(clone_to(&app.bucket, &settings, Some("before"), CLONE).await);
    assert!(found.contains("the location is not empty"), "{found}");
    clone.get(TABLE).await.expect(200);
    keep(&clone, "again").await;
    let theirs = Settings::clone(&clone.app.runtime.settings);
    let found = rejection(clone_to(&app.bucket, &theirs, Some("again"), "memory:///third").await);
    assert!(found.contains("this catalog is itself a clone of memory:///state"), "{found}");
}

/// Returns a bucket with a catalog that has a checkpoint, and its settings.
async fn stopped() -> (Arc<dyn ObjectStore>, Settings) {
    let app = app_with_content().await;
    keep(&app, "before").await;
    app.app.runtime.catalog.close().await.expect("it closes");
    (Arc::clone(&app.bucket), Settings::clone(&app.app.runtime.settings))
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_clone_completes_when_repeated() {
    let (bucket, settings) = stopped().await;
    let faults = FaultStore::new(bucket);
    let store: Arc<dyn ObjectStore> = Arc::clone(&faults) as _;
    clone_to(&store, &settings, Some("before"), CLONE).await.expect("it is made");
    let writes = faults.count(Verb::Put, "");
    let cut = join_all((0..writes).map(cut_off_after)).await;
    // The number of writes may differ slightly between runs.
    assert!(cut.iter().filter(|cut| **cut).count() + 3 > writes, "{cut:?}");
    assert!(writes > 8, "a clone writes pin, manifests, log and runs: {:?}", faults.requests());
}

/// Interrupts a clone after this many writes and repeats it. Returns whether it was incomplete.
async fn cut_off_after(writes: usize) -> bool {
    let (bucket, settings) = stopped().await;
    let faults = FaultStore::new(Arc::clone(&bucket));
    faults.hang_after(Verb::Put, writes);
    let store: Arc<dyn ObjectStore> = Arc::clone(&faults) as _;
    let cut = clone_to(&store, &settings, Some("before"), CLONE);
    if tokio::time::timeout(Duration::from_secs(3), cut).await.is_ok() {
        return false;
    }
    faults.kill();

    // No server opens an incomplete clone as a catalog.
    let mut theirs = settings.clone();
    theirs.state.url = CLONE.to_owned();
    let manifests = object_store::path::Path::from("clone/manifest");
    let mut manifests = bucket.list(Some(&manifests));
    let is_begun = manifests.next().await.is_some();
    let is_done = is_begun && App::build(theirs.clone(), dependencies(&bucket)).await.is_ok();
    let parent = TestApp::with(Arc::clone(&bucket), settings.clone()).await;
    let again = clone_to(&bucket, &settings, Some("before"), CLONE).await;
    match again {
        Ok(done) => assert!(!is_done && done.report.broken.is_empty(), "after {writes} writes"),
        Err(error) => {
            let message = error.to_string();
            assert!(
                is_done && message.contains("the location is not empty"),
                "{writes}: {message}"
            );
        }
    }
    let clone = App::build(theirs, dependencies(&bucket)).await.expect("it is served");
    assert!(clone.runtime.catalog.clone_of().is_some(), "after {writes} writes");
    parent.app.runtime.catalog.close().await.expect("nothing has disturbed the parent");
    true
}

#[tokio::test]
async fn a_clone_inside_a_warehouse_is_rejected() {
    let app = app_with_content().await;
    keep(&app, "before").await;
    let settings = Settings::clone(&app.app.runtime.settings);
    let to = "memory:///warehouse/clone";
    let message = rejection(clone_to(&app.bucket, &settings, Some("before"), to).await);
    assert!(message.contains("state") && message.contains("is there"), "{message}");
}

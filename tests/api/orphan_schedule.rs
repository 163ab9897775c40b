//! The scheduled removal of orphans, and the maintenance properties of warehouses.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use slateberg_base::clock::{Clock, SystemClock};
use slateberg_config::Settings;

use crate::checkpoints::clones::pinned_clone;
use crate::checkpoints::restored;
use crate::jobs::orphans_of;
use crate::support::app::{TestApp, memory_settings};
use crate::support::avro::{manifest, manifest_list};
use crate::support::bucket::bucket;
use crate::support::clock::HandClock;
use crate::support::fsck::assert_sound;
use crate::support::table::{append, create_table, set_property};
use crate::support::table_with_files::{ALL, TableWithFiles};

const JOBS: &str = "/management/v1/jobs";
const CHECKPOINTS: &str = "/management/v1/checkpoints";
const REMOVE_ORPHANS: &str = "slateberg.maintenance.remove-orphans";
const HOUR: u64 = 3600;
const WEEK: u64 = 7 * 24 * HOUR;

/// A table with an orphan, in a catalog with scheduled maintenance.
struct Scene {
    table: TableWithFiles,
    clock: Arc<HandClock>,
}

impl Scene {
    async fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let clock = Arc::new(HandClock::at_ms(SystemClock.now_ms()));
        let mut settings = memory_settings();
        settings.catalog.maintenance = serde_json::from_value(json!("declared")).expect("valid");
        settings.catalog.orphan_age_seconds = 0;
        settings.catalog.orphan_age_seconds_min = 0;
        settings.catalog.overlapping_locations = true;
        change(&mut settings);
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        let app = TestApp::with_clock(bucket(), settings, shared).await;
        app.create_namespace(&["ns"]).await;
        app.create_table("ns", "t").await;
        let table = TableWithFiles::of(app).await;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        Self { table, clock }
    }

    fn app(&self) -> &TestApp {
        &self.table.app
    }

    /// Advances the clock by `seconds`, and visits all tables.
    async fn visit_after(&self, seconds: u64) {
        self.clock.advance_seconds(seconds);
        for _ in 0..5 {
            let maintenance = self.app().app.runtime.catalog.table_maintenance();
            maintenance.run_due().await.expect("it runs");
            self.clock.advance_seconds(2);
        }
    }

    /// Returns the orphan removals, the newest first, as pairs of the state and `dry-run`.
    async fn searches(&self) -> Vec<(String, bool)> {
        let jobs = self.app().get(JOBS).await.expect(200).body["jobs"].clone();
        let mut jobs: Vec<_> = jobs.as_array().expect("a list").iter().collect();
        jobs.sort_by_key(|job| std::cmp::Reverse(job["created-at-ms"].as_i64()));
        let text = |it: &Value| it.as_str().expect("a text").to_owned();
        jobs.into_iter()
            .filter(|job| job["kind"] == "orphan-removal")
            .map(|job| (text(&job["state"]), job["dry-run"].as_bool().expect("a search")))
            .collect()
    }

    async fn search_and_run_after(&self, seconds: u64) -> usize {
        self.visit_after(seconds).await;
        self.table.run().await
    }

    async fn has_orphan(&self) -> bool {
        self.table.remaining_files().await.contains(&"stranger".to_owned())
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let response = self.app().request(Method::POST, path, &[], &body).await;
        assert!(response.status.is_success(), "{path}: {}", response.body);
        response.body
    }
}

#[tokio::test]
async fn scheduled_search_reports_orphans_and_deletes_them_a_week_later() {
    let scene = Scene::new(|_| {}).await;
    assert_eq!(scene.search_and_run_after(HOUR).await, 0, "no property enables the removal");
    scene.table.set(REMOVE_ORPHANS, "true").await;
    assert_eq!(scene.search_and_run_after(2 * HOUR).await, 1);
    assert_eq!(scene.searches().await, [("done".to_owned(), true)]);
    let listed = scene.app().get(JOBS).await.expect(200).body["jobs"][0].clone();
    assert_eq!(listed["created-by"], "maintenance", "{listed}");
    let path = format!("{JOBS}/{}", listed["id"].as_str().expect("an id"));
    let report = scene.app().get(&path).await.expect(200).body;
    assert_eq!(report["found"], json!([scene.table.at("stranger")]));
    assert!(scene.has_orphan().await);
    assert_eq!(scene.search_and_run_after(WEEK / 2).await, 0, "the period has not ended");
    assert_eq!(scene.search_and_run_after(WEEK / 2).await, 1);
    assert_eq!(scene.searches().await[0], ("done".to_owned(), false));
    let left: Vec<_> = ALL.into_iter().filter(|file| *file != "stranger").collect();
    assert_eq!(scene.table.remaining_files().await, left);
    let history = scene.app().get("/management/v1/history").await.expect(200).body;
    let newest = &history["entries"][0];
    assert_eq!(
        (&newest["action"], &newest["principal"]),
        (&json!("start_job"), &json!("maintenance"))
    );
    assert_sound(Arc::clone(&scene.app().bucket)).await;
}

#[tokio::test]
async fn scheduled_deletion_keeps_files_of_branches_tags_dropped_tables_and_new_uploads() {
    let scene = Scene::new(|settings| settings.catalog.orphan_age_seconds = 0).await;
    let app = scene.app();
    scene.table.set(REMOVE_ORPHANS, "true").await;
    let mut kept = Vec::new();
    // Two snapshots that only a branch and a tag reference.
    for (id, kind) in [(2, "branch"), (3, "tag")] {
        let at = |name: &str| scene.table.at(&format!("{name}-{kind}"));
        let (list, one, data) = (at("metadata/list"), at("metadata/manifest"), at("data/file"));
        app.put_file(&one, manifest(&[&data])).await;
        app.put_file(&list, manifest_list(&[&one])).await;
        app.put_file(&data, "content").await;
        let mut updates = append(id, None, id);
        updates[0]["snapshot"]["manifest-list"] = json!(list);
        updates[1] = json!({ "action": "set-snapshot-ref", "ref-name": format!("a-{kind}"),
            "type": kind, "snapshot-id": id });
        app.commit("ns", "t", vec![], updates).await.expect(200);
        kept.extend([list, one, data]);
    }
    // A second registration of the same metadata adds a file, and is dropped then.
    let loaded = app.get("/v1/namespaces/ns/tables/t").await.expect(200).body;
    let body = json!({ "name": "d", "metadata-location": loaded["metadata-location"] });
    app.post("/v1/namespaces/ns/register", body).await.expect(200);
    let at = |name: &str| scene.table.at(&format!("{name}-dropped"));
    let (list, one, data) = (at("metadata/list"), at("metadata/manifest"), at("data/file"));
    app.put_file(&one, manifest(&[&data])).await;
    app.put_file(&list, manifest_list(&[&one])).await;
    app.put_file(&data, "content").await;
    let mut updates = append(4, Some(1), 4);
    updates[0]["snapshot"]["manifest-list"] = json!(list);
    app.commit("ns", "d", vec![], updates).await.expect(200);
    app.delete("/v1/namespaces/ns/tables/d").await.expect(204);
    kept.extend([list, one, data]);
    assert_eq!(scene.search_and_run_after(2 * HOUR).await, 1);
    // The retention of the dropped table is longer than the period in this test.
    scene.clock.advance_seconds(WEEK - 8 * HOUR);
    assert_eq!(scene.search_and_run_after(8 * HOUR).await, 1);
    assert_eq!(scene.searches().await[0], ("done".to_owned(), false));
    assert!(!scene.has_orphan().await);
    let files = app.files(&scene.table.location).await;
    let missing: Vec<_> = kept.iter().filter(|file| !files.contains(file)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_sound(Arc::clone(&app.bucket)).await;
}

#[tokio::test]
async fn scheduled_deletion_keeps_files_younger_than_the_minimum_age() {
    let scene = Scene::new(|settings| settings.catalog.orphan_age_seconds = 3 * 24 * HOUR).await;
    scene.table.set(REMOVE_ORPHANS, "true").await;
    assert_eq!(scene.search_and_run_after(2 * HOUR).await, 1);
    assert_eq!(scene.search_and_run_after(WEEK).await, 1);
    assert_eq!(scene.searches().await[0], ("done".to_owned(), false));
    // The clock of the object store determines the age: there, the upload is seconds old.
    assert!(scene.has_orphan().await);
}

#[tokio::test]
async fn scheduled_search_with_report_never_deletes() {
    let scene = Scene::new(|_| {}).await;
    scene.table.set(REMOVE_ORPHANS, "report").await;
    for _ in 0..3 {
        assert_eq!(scene.search_and_run_after(WEEK).await, 1);
    }
    assert!(scene.searches().await.iter().all(|(_, dry_run)| *dry_run));
    assert!(scene.has_orphan().await);
}

#[tokio::test]
async fn table_whose_files_must_stay_is_not_searched() {
    let scene = Scene::new(|_| {}).await;
    scene.table.set(REMOVE_ORPHANS, "true").await;
    scene.table.set("gc.enabled", "false").await;
    assert_eq!(scene.search_and_run_after(WEEK).await, 0);
}

#[tokio::test]
async fn scheduled_deletion_keeps_files_that_a_checkpoint_or_a_clone_may_need() {
    let scene = Scene::new(|_| {}).await;
    let app = scene.app();
    scene.table.set(REMOVE_ORPHANS, "true").await;
    assert_eq!(scene.search_and_run_after(2 * HOUR).await, 1);
    scene.post(CHECKPOINTS, json!({ "name": "kept" })).await;
    assert_eq!(scene.search_and_run_after(WEEK).await, 1);
    assert_eq!(scene.searches().await[0], ("done".to_owned(), false));
    assert!(scene.has_orphan().await, "the checkpoint may need the file");
    let pin = pinned_clone(app, "kept").await;
    app.delete(&format!("{CHECKPOINTS}/kept")).await.expect(204);
    assert_eq!(scene.search_and_run_after(WEEK).await, 1);
    assert!(scene.has_orphan().await, "the clone may need the file");
    app.delete(&format!("{CHECKPOINTS}/{pin}")).await.expect(204);
    assert_eq!(scene.search_and_run_after(WEEK).await, 1);
    assert!(!scene.has_orphan().await);
}

#[tokio::test]
async fn deletion_on_request_is_rejected_while_a_clone_may_need_the_files() {
    let scene = Scene::new(|_| {}).await;
    let app = scene.app();
    scene.post(CHECKPOINTS, json!({ "name": "kept" })).await;
    // The job waits while the clone is created.
    scene.post(JOBS, orphans_of("t", false)).await;
    let pin = pinned_clone(app, "kept").await;
    assert_eq!(scene.table.run().await, 1);
    let rejected = app.post(JOBS, orphans_of("t", false)).await.expect(409);
    assert!(rejected.message().contains("slateberg checkpoint delete clone-"), "{}", rejected.body);
    scene.post(JOBS, orphans_of("t", true)).await;
    assert_eq!(scene.table.run().await, 1, "a dry run is possible");
    assert!(scene.has_orphan().await, "the clone may need the file");
    app.delete(&format!("{CHECKPOINTS}/{pin}")).await.expect(204);
    scene.post(JOBS, orphans_of("t", false)).await;
    assert_eq!(scene.table.run().await, 1);
    assert!(!scene.has_orphan().await);
}

#[tokio::test]
async fn scheduled_search_continues_after_a_restart() {
    let scene = Scene::new(|_| {}).await;
    scene.table.set(REMOVE_ORPHANS, "true").await;
    assert_eq!(scene.search_and_run_after(2 * HOUR).await, 1);
    scene.visit_after(WEEK).await;
    assert_eq!(scene.searches().await[0], ("waiting".to_owned(), false));
    let Scene { table: TableWithFiles { app, location }, clock } = scene;
    let scene = Scene { table: TableWithFiles { app: app.restart().await, location }, clock };
    assert_eq!(scene.search_and_run_after(2 * HOUR).await, 1, "there is no second search");
    assert_eq!(scene.searches().await.len(), 2);
    assert!(!scene.has_orphan().await);
}

#[tokio::test]
async fn maintenance_properties_of_a_warehouse_apply_unless_tables_or_namespaces_have_them() {
    let own = [(REMOVE_ORPHANS.to_owned(), "report".to_owned())];
    let scene = Scene::new(|settings| {
        let warehouse = settings.warehouses.get_mut("default").expect("there is one");
        warehouse.maintenance = own.into();
    })
    .await;
    assert_eq!(scene.search_and_run_after(WEEK).await, 1);
    let body = json!({ "updates": { REMOVE_ORPHANS: "false" } });
    scene.app().post("/v1/namespaces/ns/properties", body).await.expect(200);
    assert_eq!(scene.search_and_run_after(WEEK).await, 0);
    let updates = vec![set_property(REMOVE_ORPHANS, "report")];
    scene.app().commit("ns", "t", vec![], updates).await.expect(200);
    assert_eq!(scene.search_and_run_after(WEEK).await, 1);
}

#[tokio::test]
async fn warehouse_at_run_time_has_maintenance_properties_that_expire_snapshots() {
    let scene = Scene::new(|_| {}).await;
    let storage = json!({ "location": "memory:///other-warehouse" });
    let path = "/management/v1/warehouses";
    let maintenance = json!({ "slateberg.maintenance.expire-snapshots": "true",
        "history.expire.max-snapshot-age-ms": "0" });
    let body = json!({ "name": "w", "storage": storage, "maintenance": maintenance });
    let created = scene.post(path, body).await;
    assert_eq!(created["maintenance"], maintenance);
    let app = scene.app();
    let level = json!({ "namespace": ["ns"] });
    app.post("/v1/w/namespaces", level).await.expect(200);
    app.post("/v1/w/namespaces/ns/tables", create_table("t")).await.expect(200);
    let table = "/v1/w/namespaces/ns/tables/t";
    for id in [1, 2] {
        let body = json!({ "requirements": [], "updates": append(id, (id > 1).then_some(1), id) });
        app.post(table, body).await.expect(200);
    }
    scene.visit_after(2 * HOUR).await;
    let loaded = app.get(table).await.expect(200).body;
    assert_eq!(loaded["metadata"]["snapshots"].as_array().map(Vec::len), Some(1), "{loaded}");
    for (key, value) in [("owner", "etl"), (REMOVE_ORPHANS, "yes")] {
        let body = json!({ "storage": storage, "maintenance": { key: value } });
        let response = app.request(Method::PUT, &format!("{path}/w"), &[], &body).await;
        response.expect_error(400, "IllegalArgumentException");
    }
    let body = json!({ "storage": storage });
    let updated = app.request(Method::PUT, &format!("{path}/w"), &[], &body).await.expect(200);
    assert_eq!(updated.body["maintenance"], json!({}));
}

#[tokio::test]
async fn first_scheduled_search_after_a_restore_is_a_dry_run() {
    let scene = Scene::new(|_| {}).await;
    scene.table.set(REMOVE_ORPHANS, "true").await;
    assert_eq!(scene.search_and_run_after(2 * HOUR).await, 1);
    scene.post(CHECKPOINTS, json!({ "name": "kept" })).await;
    let Scene { table: TableWithFiles { app, location }, clock } = scene;
    let (app, _) = restored(app, "kept").await;
    let scene = Scene { table: TableWithFiles { app, location }, clock };
    assert_eq!(scene.search_and_run_after(WEEK).await, 1);
    assert_eq!(scene.searches().await[0], ("done".to_owned(), true));
}

#[tokio::test]
async fn scheduled_search_skips_a_table_of_version_4() {
    let scene = Scene::new(|_| {}).await;
    scene.table.set(REMOVE_ORPHANS, "true").await;
    scene.table.append_with_parquet_manifest("t").await;
    assert_eq!(scene.search_and_run_after(2 * HOUR).await, 0);
    assert_eq!(scene.searches().await, []);
    assert!(scene.has_orphan().await);
}

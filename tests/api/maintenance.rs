//! Scheduled maintenance of tables, and maintenance while many writers append.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use axum::http::Method;
use futures::future::join_all;
use serde_json::{Value, json};
use slateberg_base::clock::{Clock, SystemClock};

use crate::support::app::{TestApp, memory_settings};
use crate::support::appends::{LoadedTable, PreparedAppend, TABLE};
use crate::support::bucket::bucket;
use crate::support::clock::HandClock;
use crate::support::env_numbers::number_from_env;
use crate::support::fsck::assert_sound;
use crate::support::iceberg_writer::Manifests;
use crate::support::table::{create_table, set_property};

/// Number of snapshots that commits of [`Scene::seed`] add at once.
const SEED_SNAPSHOTS: i64 = 250;
/// Maximum number of attempts of a writer. Iceberg's clients try five times by default.
const ATTEMPTS_MAX: usize = 5;

/// A catalog that maintains the table `ns.t`, and a clock that the test sets.
struct Scene {
    app: TestApp,
    clock: Arc<HandClock>,
}

impl Scene {
    async fn new(maintenance: &str, properties: &[(&str, &str)]) -> Self {
        let clock = Arc::new(HandClock::at_ms(SystemClock.now_ms()));
        let mut settings = memory_settings();
        settings.catalog.maintenance = serde_json::from_value(json!(maintenance)).expect("valid");
        settings.catalog.append_rebase = serde_json::from_value(json!("all")).expect("valid");
        settings.catalog.append_rebase_snapshots_max = 1_000_000;
        settings.catalog.file_deletions_per_second_max = 0;
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        let app = TestApp::with_clock(bucket(), settings, shared).await;
        app.create_namespace(&["ns"]).await;
        let mut table = create_table("t");
        table["properties"] = json!({ "format-version": "2", "slateberg.append-rebase": "all" });
        for (key, value) in properties {
            table["properties"][key] = json!(value);
        }
        app.post("/v1/namespaces/ns/tables", table).await.expect(200);
        Self { app, clock }
    }

    async fn commit_now(&self, id: i64, does: Manifests) {
        let table = LoadedTable::load(&self.app).await;
        table.prepare(&self.app, id, does).await.commit(&self.app).await.expect(200);
    }

    async fn maintain(&self) -> usize {
        self.app.app.runtime.catalog.table_maintenance().run_due().await.expect("it runs")
    }

    async fn run_jobs(&self) -> usize {
        self.app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run")
    }

    async fn manifests(&self) -> usize {
        let table = LoadedTable::load(&self.app).await;
        let id = table.head().expect("a snapshot");
        let head = table.snapshots().iter().find(|it| it["snapshot-id"] == id);
        table.manifests(&self.app, head.expect("it exists")).await.len()
    }

    /// Advances the clock behind the time of all snapshots so far.
    fn follow_time(&self) {
        let behind_ms = SystemClock.now_ms() - self.clock.now_ms();
        self.clock.advance_seconds(behind_ms.max(0).unsigned_abs() / 1000 + 1);
    }

    /// Adds snapshots, each of which overwrites the table with one file.
    async fn seed(&self, count: i64) {
        for first in (1..=count).step_by(usize::try_from(SEED_SNAPSHOTS).expect("it fits")) {
            let mut table = LoadedTable::load_refs(&self.app).await;
            let mut updates: Vec<Value> = Vec::new();
            let requirements = vec![crate::support::table::main_is(table.head())];
            for id in first..(first + SEED_SNAPSHOTS).min(count + 1) {
                self.app.put_file(&table.at(&format!("data/{id}.parquet")), "rows").await;
                let mut commit = table.overwrite(&self.app, id).await;
                commit.updates[0]["snapshot"]["summary"] = json!({ "operation": "overwrite" });
                table = table.after(&commit);
                updates.push(commit.updates[0].clone());
                if id == (first + SEED_SNAPSHOTS).min(count + 1) - 1 {
                    updates.push(commit.updates[1].clone());
                }
            }
            let append = PreparedAppend {
                headers: Vec::new(),
                requirements,
                updates,
                manifest: String::new(),
            };
            self.follow_time();
            append.commit(&self.app).await.expect(200);
        }
    }

    /// Returns the files that the table references, and those at its location that it does not.
    async fn files(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let loaded = self.app.get(TABLE).await.expect(200).body;
        let table = LoadedTable::load(&self.app).await;
        let text = |it: &Value| it.as_str().expect("a location").to_owned();
        let mut referenced = BTreeSet::from([text(&loaded["metadata-location"])]);
        let log = loaded["metadata"]["metadata-log"].as_array().cloned().unwrap_or_default();
        referenced.extend(log.iter().map(|entry| text(&entry["metadata-file"])));
        for snapshot in table.snapshots() {
            referenced.insert(text(&snapshot["manifest-list"]));
            let manifests = table.manifests(&self.app, snapshot).await;
            referenced.extend(manifests.into_iter().map(|manifest| manifest.manifest_path));
            referenced.extend(table.live_files(&self.app, snapshot).await.into_keys());
        }
        let found: BTreeSet<_> = self.app.files(table.location()).await.into_iter().collect();
        let missing: Vec<_> = referenced.difference(&found).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let unreferenced = found.difference(&referenced).cloned().collect();
        (referenced, unreferenced)
    }
}

#[tokio::test]
async fn hot_table_that_declares_maintenance_is_maintained() {
    let properties = [
        ("slateberg.maintenance.expire-snapshots", "true"),
        ("slateberg.maintenance.rewrite-manifests", "true"),
        ("history.expire.max-snapshot-age-ms", "0"),
        ("history.expire.min-snapshots-to-keep", "3"),
        ("commit.manifest.min-count-to-merge", "20"),
    ];
    let scene = Scene::new("declared", &properties).await;
    assert_eq!(scene.maintain().await, 0, "the first visit finds nothing to do");
    for id in 1..=99 {
        scene.commit_now(id, Manifests::Append).await;
    }
    assert_eq!(scene.maintain().await, 0);
    scene.commit_now(100, Manifests::Append).await;
    scene.clock.advance_seconds(3600);
    assert_eq!(scene.maintain().await, 1);
    let table = LoadedTable::load(&scene.app).await;
    assert_eq!((table.snapshots().len(), scene.manifests().await), (3, 1));
    assert_eq!(scene.run_jobs().await, 1, "a job deletes the files of the expired snapshots");
    let history = scene.app.get("/management/v1/history?resource=table:default/ns/t").await;
    let entries = history.expect(200).body["entries"].clone();
    let author = |at: usize| (entries[at]["action"].clone(), entries[at]["principal"].clone());
    assert_eq!(author(0), (json!("expire_snapshots"), json!("maintenance")), "{entries}");
    assert_eq!(author(1), (json!("rewrite_manifests"), json!("maintenance")));
    assert_sound(Arc::clone(&scene.app.bucket)).await;
}

#[tokio::test]
async fn table_that_does_not_declare_maintenance_is_not_maintained() {
    for (maintenance, value) in [("off", "true"), ("declared", "no"), ("all", "false")] {
        let properties = [
            ("slateberg.maintenance.expire-snapshots", value),
            ("slateberg.maintenance.rewrite-manifests", value),
            ("history.expire.max-snapshot-age-ms", "0"),
            ("commit.manifest.min-count-to-merge", "2"),
        ];
        let scene = Scene::new(maintenance, &properties).await;
        for id in 1..=4 {
            scene.commit_now(id, Manifests::Append).await;
        }
        scene.clock.advance_seconds(2 * 3600);
        assert_eq!(scene.maintain().await, 0, "{maintenance} {value}");
    }
}

#[tokio::test]
async fn pass_visits_quiet_tables_at_the_configured_rate() {
    let properties = [("history.expire.max-snapshot-age-ms", "0")];
    let scene = Scene::new("all", &properties).await;
    for id in 1..=3 {
        scene.commit_now(id, Manifests::Append).await;
    }
    scene.clock.advance_seconds(10);
    assert_eq!(scene.maintain().await, 1);
    assert_eq!(LoadedTable::load(&scene.app).await.snapshots().len(), 1);
    scene.commit_now(4, Manifests::Append).await;
    scene.clock.advance_seconds(10);
    assert_eq!(scene.maintain().await, 0, "the pass ends");
    scene.clock.advance_seconds(60);
    assert_eq!(scene.maintain().await, 0, "the next pass begins an hour after this one");
    scene.clock.advance_seconds(3600);
    assert_eq!(scene.maintain().await, 1);
}

/// Figures of a run.
#[derive(Default)]
struct Figures {
    conflicts: AtomicUsize,
    rewrites: AtomicUsize,
    expired: AtomicUsize,
}

/// Sixteen writers append to a table with many snapshots, while snapshots expire, manifests are
/// rewritten and jobs delete files. `SLATEBERG_FIRE_SNAPSHOTS` and `SLATEBERG_FIRE_APPENDS` change
/// the numbers of snapshots and of appends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_survive_expiry_and_rewrites_under_fire() {
    let seeds = i64::try_from(number_from_env("SLATEBERG_FIRE_SNAPSHOTS", 600)).expect("it fits");
    let appends = i64::try_from(number_from_env("SLATEBERG_FIRE_APPENDS", 160)).expect("it fits");
    let scene = Scene::new("off", &[("write.metadata.delete-after-commit.enabled", "true")]).await;
    scene.seed(seeds).await;
    assert_eq!(LoadedTable::load(&scene.app).await.snapshots().len() as i64, seeds);
    let (next, figures, done) =
        (AtomicI64::new(seeds + 1), Figures::default(), AtomicBool::new(false));
    let writers = join_all((0..16).map(|_| async {
        loop {
            let id = next.fetch_add(1, Ordering::Relaxed);
            if id > seeds + appends {
                return;
            }
            write(&scene, id, &figures).await;
        }
    }));
    let writing = async {
        writers.await;
        done.store(true, Ordering::Relaxed);
    };
    let began = SystemClock.now_ms();
    let jobs = run_jobs_under_fire(&scene, &done);
    tokio::join!(writing, maintain_under_fire(&scene, &figures, &done), jobs);
    let took_ms = SystemClock.now_ms() - began;
    let table = LoadedTable::load(&scene.app).await;
    let head = table.snapshots().iter().find(|it| it["snapshot-id"].as_i64() == table.head());
    let live = table.live_files(&scene.app, head.expect("a snapshot")).await;
    let expected: BTreeSet<_> =
        (seeds..=seeds + appends).map(|id| table.at(&format!("data/{id}.parquet"))).collect();
    assert_eq!(live.into_keys().collect::<BTreeSet<_>>(), expected, "each file is there once");
    let count = |it: &AtomicUsize| it.load(Ordering::Relaxed);
    #[expect(clippy::print_stdout, reason = "the figures are for developers with --nocapture")]
    let print = |text: String| println!("{text}");
    print(format!(
        "{seeds} snapshots, {appends} appends in {took_ms} ms: {} conflicts, {} rewrites, {} expired",
        count(&figures.conflicts),
        count(&figures.rewrites),
        count(&figures.expired),
    ));
    assert!(count(&figures.rewrites) > 0 && count(&figures.expired) > 0);
    // Everything that remains is referenced, or its record waits for the grace period.
    scene.clock.advance_seconds(20 * 60);
    expire(&scene, &figures).await;
    while scene.run_jobs().await > 0 {}
    let (_, unreferenced) = scene.files().await;
    let is_metadata = |file: &String| file.ends_with(".metadata.json");
    let left: Vec<_> = unreferenced.into_iter().filter(|file| !is_metadata(file)).collect();
    // A client deletes the list of an attempt that the server has rejected. This writer does not.
    let of_client = |file: &&String| file.ends_with("-client.avro");
    assert_eq!(left.iter().filter(|file| !of_client(file)).count(), 0, "{left:?}");
    assert!(left.len() <= count(&figures.conflicts), "{left:?}");
    assert_sound(Arc::clone(&scene.app.bucket)).await;
}

/// Appends a file, and retries like a client of Iceberg.
async fn write(scene: &Scene, id: i64, figures: &Figures) {
    for attempt in 1.. {
        let table = LoadedTable::load_refs(&scene.app).await;
        scene.app.put_file(&table.at(&format!("data/{id}.parquet")), "rows").await;
        // The snapshot may have expired since the table was loaded.
        if let Some(append) = table.try_prepare(&scene.app, id, Manifests::Append).await {
            let response = append.commit(&scene.app).await;
            match response.status.as_u16() {
                200 => return,
                409 => assert!(attempt < ATTEMPTS_MAX, "append {id}: {}", response.body),
                _ => panic!("append {id}: {}", response.body),
            }
        }
        figures.conflicts.fetch_add(1, Ordering::Relaxed);
    }
}

async fn expire(scene: &Scene, figures: &Figures) {
    scene.follow_time();
    let body = json!({ "resource": "table:default/ns/t", "dry-run": false, "retain-last": 10,
        "older-than-seconds": 0 });
    let path = "/management/v1/snapshots/expire";
    let expired = scene.app.request(Method::POST, path, &[], &body).await.expect(200).body;
    let count = expired["snapshots"].as_array().map_or(0, Vec::len);
    figures.expired.fetch_add(count, Ordering::Relaxed);
}

async fn run_jobs_under_fire(scene: &Scene, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        scene.run_jobs().await;
        tokio::task::yield_now().await;
    }
}

async fn maintain_under_fire(scene: &Scene, figures: &Figures, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let body = json!({ "resource": "table:default/ns/t", "dry-run": false });
        let path = "/management/v1/manifests/rewrite";
        let rewritten = scene.app.request(Method::POST, path, &[], &body).await.expect(200).body;
        if !rewritten["snapshot-id"].is_null() {
            figures.rewrites.fetch_add(1, Ordering::Relaxed);
        }
        expire(scene, figures).await;
    }
}

#[tokio::test]
async fn namespace_declares_maintenance_for_its_tables() {
    let scene = Scene::new("declared", &[("history.expire.max-snapshot-age-ms", "0")]).await;
    let body = json!({ "updates": { "slateberg.maintenance.expire-snapshots": "true" } });
    scene.app.post("/v1/namespaces/ns/properties", body).await.expect(200);
    for id in 1..=3 {
        scene.commit_now(id, Manifests::Append).await;
    }
    scene.clock.advance_seconds(10);
    assert_eq!(scene.maintain().await, 1);
    let off = vec![set_property("slateberg.maintenance.expire-snapshots", "false")];
    scene.app.commit("ns", "t", vec![], off).await.expect(200);
    scene.commit_now(4, Manifests::Append).await;
    scene.clock.advance_seconds(2 * 3600);
    assert_eq!(scene.maintain().await + scene.maintain().await, 0);
}

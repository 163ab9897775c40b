//! Background jobs during crashes and faults of the object store. They delete all unneeded files,
//! and no others.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use slateberg_runtime::tasks;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::scene::{Scene, TABLE, TIMEOUT, within};
use crate::server::{Server, assert_sound};
use crate::support::app::TestApp;
use crate::support::avro::{manifest, manifest_list};
use crate::support::bucket::store_url;
use crate::support::faults::{Fault, Verb};
use crate::support::table::append;

const JOBS: &str = "/management/v1/jobs";
const PURGE: &str = "/v1/namespaces/ns/tables/t?purgeRequested=true";

/// Returns the updates that make `list` the manifest list of a first snapshot.
fn snapshot(list: &str) -> Vec<Value> {
    let mut updates = append(1, None, 1);
    updates[0]["snapshot"]["manifest-list"] = json!(list);
    updates
}

/// Fills the table of a scene with two manifests of two data files each. Returns its location.
async fn fill(scene: &Scene) -> String {
    let loaded = scene.app.get(TABLE).await.expect(200);
    let location = loaded.body["metadata"]["location"].as_str().expect("a text").to_owned();
    let at = |name: &str| format!("{location}/{name}");
    let manifests = [at("metadata/m1.avro"), at("metadata/m2.avro")];
    for (number, path) in manifests.iter().enumerate() {
        let data = [at(&format!("data/{number}-1")), at(&format!("data/{number}-2"))];
        scene.app.put_file(path, manifest(&[&data[0], &data[1]])).await;
        for file in data {
            scene.app.put_file(&file, "content").await;
        }
    }
    let list = at("metadata/snap.avro");
    scene.app.put_file(&list, manifest_list(&[&manifests[0], &manifests[1]])).await;
    scene.app.put_file(&at("stranger"), "content").await;
    scene.app.commit("ns", "t", vec![], snapshot(&list)).await.expect(200);
    location
}

/// The background tasks of an in-process catalog, until they are stopped.
struct Tasks {
    stop: watch::Sender<bool>,
    all: Vec<JoinHandle<()>>,
}

impl Tasks {
    fn of(app: &TestApp) -> Self {
        let (stop, stopping) = watch::channel(false);
        Self { all: tasks::spawn(&app.app.runtime, &stopping), stop }
    }

    async fn stop(self) {
        let _ = self.stop.send(true);
        for task in self.all {
            within(TIMEOUT, "a background task", task).await.expect("no panic");
        }
    }
}

/// Waits until the only job satisfies a condition.
async fn job_that(app: &TestApp, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    within(TIMEOUT, what, async {
        loop {
            let job = app.get(JOBS).await.expect(200).body["jobs"][0].clone();
            if is_so(&job) {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

#[tokio::test]
async fn failing_store_delays_only_the_purge() {
    let scene = Scene::new().await;
    let location = fill(&scene).await;
    scene.app.create_table("ns", "other").await;
    scene.faults.inject(Verb::Delete, "warehouse/", Fault::Fail);
    let tasks = Tasks::of(&scene.app);
    scene.app.delete(PURGE).await.expect(204);
    let job = job_that(&scene.app, "failing", |job| job["failures"] == 2).await;
    assert!(job["last-error"].as_str().is_some_and(|it| it.contains("injected failure")), "{job}");
    assert_eq!((&job["kind"], &job["files"]["done"]), (&json!("purge"), &json!(0)));
    // The job has made two attempts, and did not retry single deletions within an attempt.
    let attempt = scene.faults.count(Verb::Delete, "warehouse/");
    assert!(attempt <= 12, "{attempt} deletions were tried");
    let commit = vec![crate::support::table::set_property("a", "b")];
    scene.app.commit("ns", "other", vec![], commit).await.expect(200);
    scene.faults.lift();
    let job = job_that(&scene.app, "the purge", |job| job["state"] == "done").await;
    assert_eq!((&job["failures"], &job["files"]["done"]), (&json!(0), &json!(9)), "{job}");
    assert_eq!(scene.app.files(&location).await, [format!("{location}/stranger")]);
    scene.app.get("/v1/namespaces/ns/tables/other").await.expect(200);
    tasks.stop().await;
    crate::support::fsck::assert_sound(Arc::clone(&scene.bucket)).await;
}

#[tokio::test]
async fn slow_store_that_loses_responses_delays_only_the_purge() {
    let scene = Scene::new().await;
    let location = fill(&scene).await;
    scene.faults.inject_times(Verb::Delete, "warehouse/", Fault::LoseResponse, 2);
    scene.faults.inject(Verb::Delete, "warehouse/", Fault::Delay(50..200));
    let tasks = Tasks::of(&scene.app);
    scene.app.delete(PURGE).await.expect(204);
    scene.faults.wait_for_requests(Verb::Delete, "warehouse/", 1).await;
    scene.app.create_table("ns", "other").await;
    job_that(&scene.app, "the purge", |job| job["state"] == "done").await;
    assert_eq!(scene.app.files(&location).await, [format!("{location}/stranger")]);
    tasks.stop().await;
}

#[tokio::test]
async fn hanging_purge_can_be_cancelled() {
    let scene = Scene::new().await;
    let location = fill(&scene).await;
    scene.faults.inject(Verb::Delete, "data/1-", Fault::Hang);
    let tasks = Tasks::of(&scene.app);
    scene.app.delete(PURGE).await.expect(204);
    scene.faults.wait_for_requests(Verb::Delete, "data/1-", 2).await;
    let job = job_that(&scene.app, "it", |job| job["state"] == "running").await;
    assert_eq!(job["files"]["done"], 2, "{job}");
    let path = format!("{JOBS}/{}/cancel", job["id"].as_str().expect("an id"));
    let cancelled = scene.app.post(&path, Value::Null).await.expect(200).body;
    assert_eq!(
        (&cancelled["state"], &cancelled["files"]["done"]),
        (&json!("cancelled"), &json!(2))
    );
    tasks.stop().await;
    scene.faults.lift();
    assert_eq!(scene.app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run"), 0);
    let left = scene.app.files(&location).await;
    assert!(left.contains(&format!("{location}/data/1-1")), "{left:?}");
    assert!(left.contains(&format!("{location}/metadata/m1.avro")), "{left:?}");
    crate::support::fsck::assert_sound(Arc::clone(&scene.bucket)).await;
}

#[tokio::test]
async fn stopped_purge_resumes_where_it_was() {
    let scene = Scene::new().await;
    let location = fill(&scene).await;
    scene.faults.inject(Verb::Delete, "data/1-", Fault::Hang);
    let tasks = Tasks::of(&scene.app);
    scene.app.delete(PURGE).await.expect(204);
    scene.faults.wait_for_requests(Verb::Delete, "data/1-", 2).await;
    // The stop does not wait for a store that does not respond.
    tasks.stop().await;
    let scene = scene.crash().await;
    let waiting = job_that(&scene.app, "the waiting purge", |job| job["state"] == "waiting").await;
    assert_eq!(waiting["files"]["done"], 2, "{waiting}");
    assert_eq!(scene.app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run"), 1);
    assert_eq!(scene.app.files(&location).await, [format!("{location}/stranger")]);
    assert_eq!(scene.faults.count(Verb::Get, "m1.avro"), 0, "its files are already deleted");
    assert_eq!(scene.faults.count(Verb::Delete, "data/0-"), 0);
    assert_eq!(scene.faults.count(Verb::Get, "m2.avro"), 1);
    let job = job_that(&scene.app, "the purge", |job| job["state"] == "done").await;
    assert_eq!(job["files"]["done"], 9, "{job}");
    crate::support::fsck::assert_sound(Arc::clone(&scene.bucket)).await;
}

#[tokio::test]
async fn file_committed_during_orphan_removal_is_kept() {
    let scene = Scene::new().await;
    let location = fill(&scene).await;
    let at = |name: &str| format!("{location}/{name}");
    let late = at("data/late");
    scene.app.put_file(&late, "content").await;
    tokio::time::sleep(Duration::from_millis(if store_url().is_some() { 1100 } else { 5 })).await;
    // The job hangs when it has read all reachable files except one manifest.
    scene.faults.inject(Verb::Get, "m2.avro", Fault::Hang);
    let tasks = Tasks::of(&scene.app);
    let body = json!({
        "kind": "orphan-removal", "resource": "table:default/ns/t", "dry-run": false,
        "older-than-seconds": 0,
    });
    scene.app.post(JOBS, body).await.expect(202);
    scene.faults.wait_for_requests(Verb::Get, "m2.avro", 1).await;
    let manifests = [at("metadata/m1.avro"), at("metadata/m2.avro"), at("metadata/late.avro")];
    scene.app.put_file(&manifests[2], manifest(&[&late])).await;
    let list = at("metadata/late-snap.avro");
    let manifests: Vec<_> = manifests.iter().map(String::as_str).collect();
    scene.app.put_file(&list, manifest_list(&manifests)).await;
    let mut updates = append(2, Some(1), 2);
    updates[0]["snapshot"]["manifest-list"] = json!(list);
    scene.app.commit("ns", "t", vec![], updates).await.expect(200);
    scene.faults.lift();
    let job = job_that(&scene.app, "the job", |job| job["ended-at-ms"].is_i64()).await;
    assert_eq!((&job["state"], &job["files"]["done"]), (&json!("done"), &json!(1)), "{job}");
    let left = scene.app.files(&location).await;
    assert!(left.contains(&late) && !left.contains(&at("stranger")), "{left:?}");
    tasks.stop().await;
}

/// Number of data files of the large table, and number of the manifests that reference them.
const FILES: usize = 3000;
const MANIFESTS: usize = 6;
/// A rate of deletions at which the purge makes progress, but takes long enough to be interrupted.
const RATE: [(&str, &str); 1] = [("SLATEBERG__CATALOG__FILE_DELETIONS_PER_SECOND_MAX", "1500")];

fn path_of(location: &str) -> PathBuf {
    PathBuf::from(location.strip_prefix("file://").expect("it is in a directory"))
}

/// Fills a table of a server in a directory with files.
async fn fill_directory(client: &Client, table: &str, files: usize) -> PathBuf {
    let loaded = client.load(table).await;
    let location = loaded["metadata"]["location"].as_str().expect("a text").to_owned();
    let directory = path_of(&location);
    std::fs::create_dir_all(directory.join("data")).expect("there is room");
    let mut manifests = Vec::new();
    for number in 0..MANIFESTS {
        let names: Vec<_> = (number..files)
            .step_by(MANIFESTS)
            .map(|file| format!("{location}/data/{file}.parquet"))
            .collect();
        for name in &names {
            std::fs::write(path_of(name), "content").expect("there is room");
        }
        let path = format!("{location}/metadata/m{number}.avro");
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        std::fs::write(path_of(&path), manifest(&names)).expect("there is room");
        manifests.push(path);
    }
    let list = format!("{location}/metadata/snap.avro");
    let manifests: Vec<_> = manifests.iter().map(String::as_str).collect();
    std::fs::write(path_of(&list), manifest_list(&manifests)).expect("there is room");
    std::fs::write(directory.join("stranger"), "content").expect("there is room");
    let body = json!({ "requirements": [], "updates": snapshot(&list) });
    client.post(table, &body).await.expect(200);
    directory
}

/// Returns all files below a directory, as relative paths.
fn files_below(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        // The entry may have been deleted concurrently.
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                _ => {
                    let path = entry.path();
                    let below = path.strip_prefix(directory).expect("it is below");
                    found.push(below.to_string_lossy().into_owned());
                }
            }
        }
    }
    found.sort();
    found
}

async fn jobs(server: &Server) -> Vec<Value> {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let answer = http.get(format!("{}{JOBS}", server.uri)).send().await.expect("it answers");
    let body: Value = answer.json().await.expect("JSON");
    body["jobs"].as_array().expect("a list").clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purge_killed_repeatedly_deletes_exactly_its_files() {
    if store_url().is_some() {
        // The test inspects files in a directory, so it cannot run on a bucket.
        return;
    }
    let data_dir = tempfile::tempdir().expect("there is room");
    let server = Server::start_with(data_dir.path(), &RATE);
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    for table in ["t", "other"] {
        client.create_table("ns", table).await.expect(200);
    }
    let purged = fill_directory(&client, "namespaces/ns/tables/t", FILES).await;
    let other = fill_directory(&client, "namespaces/ns/tables/other", 20).await;
    let others = files_below(&other);
    let purge = "namespaces/ns/tables/t?purgeRequested=true";
    client.send(Method::DELETE, purge, &Value::Null, None).await.expect(204);
    let mut server = Some(server);
    let mut left = files_below(&purged).len();
    for kill in 0..3 {
        // The server is killed when it has deleted a few hundred further files.
        within(TIMEOUT, "the deletion of 300 further files", async {
            while files_below(&purged).len() + 300 > left {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        server.take().expect("it runs").kill();
        left = files_below(&purged).len();
        assert!(left > 300, "kill {kill} came too late: {left} files are left");
        assert_sound(data_dir.path(), "in the middle of a purge");
        server = Some(Server::start_with(data_dir.path(), &RATE));
    }
    let server = server.expect("it runs");
    let done = within(TIMEOUT, "the purge", async {
        loop {
            let jobs = jobs(&server).await;
            if jobs[0]["state"] == "done" {
                return jobs;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(done.len(), 1, "{done:?}");
    assert_eq!(done[0]["files"]["done"], done[0]["files"]["total"], "a file is counted twice");
    assert_eq!(files_below(&purged), ["stranger"]);
    assert_eq!(files_below(&other), others, "a file of another table is gone");
    Client::of(&server.uri).load("namespaces/ns/tables/other").await;
    server.stop();
    assert_sound(data_dir.path(), "after the purge");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphan_removal_keeps_recently_written_files() {
    if store_url().is_some() {
        return;
    }
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let data_dir = tempfile::tempdir().expect("there is room");
    let server = Server::start(data_dir.path());
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    client.create_table("ns", "t").await.expect(200);
    let directory = fill_directory(&client, "namespaces/ns/tables/t", 12).await;
    let new = ["data/new.parquet", "metadata/00009-new.metadata.json"];
    let old = ["data/p=ü %/old.parquet", "metadata/00009-old.metadata.json"];
    for file in new.iter().chain(&old) {
        let path = directory.join(file);
        std::fs::create_dir_all(path.parent().expect("it is below")).expect("there is room");
        std::fs::write(path, "content").expect("there is room");
    }
    // All files except the new ones are older than the limit of three days. The foreign file is
    // just younger than the limit.
    let age = |file: &str, age: Duration| {
        let file = std::fs::File::options().write(true).open(directory.join(file));
        let file = file.expect("it is there");
        let now = file.metadata().expect("it has some").modified().expect("it is dated");
        file.set_modified(now - age).expect("it can be dated");
    };
    let all = files_below(&directory);
    for file in all.iter().filter(|file| !new.contains(&file.as_str())) {
        age(file, if file == "stranger" { DAY * 3 - Duration::from_secs(600) } else { DAY * 4 });
    }
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let body = json!({
        "kind": "orphan-removal", "resource": "table:default/ns/t", "dry-run": false,
    });
    let started = http.post(format!("{}{JOBS}", server.uri)).json(&body).send().await;
    assert_eq!(started.expect("it answers").status(), 202);
    let job = within(TIMEOUT, "the job", async {
        loop {
            let job = jobs(&server).await.remove(0);
            if job["ended-at-ms"].is_i64() {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!((&job["state"], &job["files"]["done"]), (&json!("done"), &json!(2)), "{job}");
    let left: Vec<_> = all.into_iter().filter(|file| !old.contains(&file.as_str())).collect();
    assert_eq!(files_below(&directory), left);
    client.load("namespaces/ns/tables/t").await;
    server.kill();
    assert_sound(data_dir.path(), "after the orphans are gone");
}

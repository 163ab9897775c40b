//! Expiry of snapshots: which snapshots are removed, and which files are deleted.

use axum::http::Method;
use serde_json::{Value, json};

use crate::checkpoints::clones::pinned_clone;
use crate::support::app::{TestApp, TestResponse};
use crate::support::avro::{entries, manifest_list};
use crate::support::fsck::assert_sound;
use crate::support::table::{append, set_property};

const EXPIRE: &str = "/management/v1/snapshots/expire";
const TABLE: &str = "/v1/namespaces/ns/tables/t";
/// The `status` of manifest entries.
const ADDED: i32 = 1;
const DELETED: i32 = 2;

/// A table `ns.t` with files in memory.
struct Scene {
    app: TestApp,
    location: String,
}

impl Scene {
    async fn new() -> Self {
        Self::of(TestApp::with_settings(|it| it.catalog.overlapping_locations = true).await).await
    }

    async fn of(app: TestApp) -> Self {
        app.create_namespace(&["ns"]).await;
        let created = app.create_table("ns", "t").await.body;
        let location = created["metadata"]["location"].as_str().expect("a location").to_owned();
        Self { app, location }
    }

    fn at(&self, file: &str) -> String {
        format!("{}/{file}", self.location)
    }

    /// Writes a manifest with these entries, and their files.
    async fn manifest(&self, name: &str, files: &[(i32, &str)]) {
        let located: Vec<_> = files.iter().map(|(status, file)| (*status, self.at(file))).collect();
        let located: Vec<_> = located.iter().map(|(status, file)| (*status, &**file)).collect();
        self.app.put_file(&self.at(name), entries(&located)).await;
        for (status, file) in &located {
            if *status == ADDED {
                self.app.put_file(file, "content").await;
            }
        }
    }

    /// Commits a snapshot of these manifests to main.
    async fn snapshot(&self, id: i64, manifests: &[&str]) {
        let manifests: Vec<_> = manifests.iter().map(|name| self.at(name)).collect();
        let manifests: Vec<_> = manifests.iter().map(String::as_str).collect();
        let list = self.at(&format!("metadata/snap-{id}.avro"));
        self.app.put_file(&list, manifest_list(&manifests)).await;
        let mut updates = append(id, (id > 1).then(|| id - 1), id);
        updates[0]["snapshot"]["manifest-list"] = json!(list);
        // The timestamp is long ago, so the snapshot expires unless the test retains it.
        updates[0]["snapshot"]["timestamp-ms"] = json!(1_700_000_000_000_i64 + id * 1000);
        self.app.commit("ns", "t", vec![], updates).await.expect(200);
    }

    /// Creates three snapshots. The second adds a file, and the third replaces the file of the first.
    async fn with_snapshots() -> Self {
        Self::new().await.filled().await
    }

    async fn filled(self) -> Self {
        self.manifest("metadata/m1.avro", &[(ADDED, "data/1.parquet")]).await;
        self.snapshot(1, &["metadata/m1.avro"]).await;
        self.manifest("metadata/m2.avro", &[(ADDED, "data/2.parquet")]).await;
        self.snapshot(2, &["metadata/m1.avro", "metadata/m2.avro"]).await;
        let replaced = [(DELETED, "data/1.parquet"), (ADDED, "data/3.parquet")];
        self.manifest("metadata/m3.avro", &replaced).await;
        self.snapshot(3, &["metadata/m3.avro", "metadata/m2.avro"]).await;
        self
    }

    async fn expire(&self, options: Value) -> TestResponse {
        let mut body = json!({ "resource": "table:default/ns/t", "dry-run": false });
        let options = options.as_object().expect("an object").clone();
        body.as_object_mut().expect("an object").extend(options);
        self.app.request(Method::POST, EXPIRE, &[], &body).await
    }

    async fn run_jobs(&self) -> usize {
        self.app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run")
    }

    async fn snapshots(&self) -> Vec<i64> {
        let loaded = self.app.get(TABLE).await.expect(200).body;
        let snapshots = loaded["metadata"]["snapshots"].as_array().cloned().unwrap_or_default();
        snapshots.iter().map(|it| it["snapshot-id"].as_i64().expect("an id")).collect()
    }

    /// Returns the files of the table, except metadata files.
    async fn files(&self) -> Vec<String> {
        let files = self.app.files(&self.location).await.into_iter();
        let below = files.map(|file| file[self.location.len() + 1..].to_owned());
        below.filter(|file| !file.ends_with(".metadata.json")).collect()
    }
}

#[tokio::test]
async fn expired_snapshots_and_the_files_that_only_they_needed_are_removed() {
    let scene = Scene::with_snapshots().await;
    let before = scene.app.get("/management/v1/watch").await.body["next"].clone();
    let expired = scene.expire(json!({})).await.expect(200).body;
    let ids: Vec<_> =
        [0, 1].map(|at: usize| expired["snapshots"][at]["snapshot-id"].clone()).into();
    assert_eq!(ids, [json!(1), json!(2)]);
    assert_eq!((&expired["refs"], &expired["remaining"]), (&json!([]), &json!(1)));
    assert_eq!(scene.snapshots().await, [3]);
    assert_eq!(scene.files().await.len(), 9, "the job deletes the files, not the request");
    let path = format!("/management/v1/jobs/{}", expired["job"].as_str().expect("a job"));
    assert_eq!(scene.app.get(&path).await.expect(200).body["kind"], "snapshot-expiry");
    assert_eq!(scene.run_jobs().await, 1);
    let remaining = [
        "data/2.parquet",
        "data/3.parquet",
        "metadata/m2.avro",
        "metadata/m3.avro",
        "metadata/snap-3.avro",
    ];
    assert_eq!(scene.files().await, remaining);
    let job = scene.app.get(&path).await.expect(200).body;
    assert_eq!((&job["state"], &job["files"]["done"]), (&json!("done"), &json!(4)), "{job}");
    let watched =
        format!("/management/v1/watch?wait=0&type=table&after={}", before.as_str().expect("it"));
    let events = scene.app.get(&watched).await.expect(200).body["events"].clone();
    assert_eq!(events[0]["type"], "table.committed");
    assert_eq!(events[0]["operations"], json!(["remove-snapshots"]));
    assert_sound(scene.app.bucket).await;
}

#[tokio::test]
async fn files_of_expired_snapshots_remain_while_a_clone_may_need_them() {
    let scene = Scene::with_snapshots().await;
    let checkpoint = json!({ "name": "before" });
    scene.app.post("/management/v1/checkpoints", checkpoint).await.expect(201);
    pinned_clone(&scene.app, "before").await;
    let expired = scene.expire(json!({})).await.expect(200).body;
    let files = scene.files().await;
    assert_eq!(scene.run_jobs().await, 1);
    assert_eq!((scene.snapshots().await, scene.files().await), (vec![3], files));
    let path = format!("/management/v1/jobs/{}", expired["job"].as_str().expect("a job"));
    let job = scene.app.get(&path).await.expect(200).body;
    assert_eq!((&job["state"], &job["files"]["done"]), (&json!("done"), &json!(0)), "{job}");
    assert_eq!(job["files"]["kept"], json!(2), "the manifest lists of the two snapshots");
}

#[tokio::test]
async fn dry_run_changes_nothing_and_returns_the_same() {
    let scene = Scene::with_snapshots().await;
    let would = scene.expire(json!({ "dry-run": true })).await.expect(200).body;
    assert_eq!((scene.snapshots().await.len(), scene.run_jobs().await), (3, 0));
    assert_eq!(would["job"], Value::Null);
    let expired = scene.expire(json!({})).await.expect(200).body;
    assert_eq!((&would["snapshots"], &would["refs"]), (&expired["snapshots"], &expired["refs"]));
    let again = scene.expire(json!({})).await.expect(200).body;
    assert_eq!((&again["snapshots"], &again["job"]), (&json!([]), &Value::Null));
}

#[tokio::test]
async fn tagged_snapshot_keeps_its_files() {
    let scene = Scene::with_snapshots().await;
    let tag =
        json!({ "action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": 1 });
    scene.app.commit("ns", "t", vec![], vec![tag]).await.expect(200);
    scene.expire(json!({})).await.expect(200);
    assert_eq!((scene.snapshots().await, scene.run_jobs().await), (vec![1, 3], 1));
    let files = scene.files().await;
    assert!(files.contains(&"data/1.parquet".to_owned()), "{files:?}");
    assert!(!files.contains(&"metadata/snap-2.avro".to_owned()), "{files:?}");
}

#[tokio::test]
async fn request_overrides_the_properties_of_the_table() {
    let scene = Scene::with_snapshots().await;
    let keep = vec![set_property("history.expire.min-snapshots-to-keep", "3")];
    scene.app.commit("ns", "t", vec![], keep).await.expect(200);
    let expired = scene.expire(json!({})).await.expect(200).body;
    assert_eq!((&expired["snapshots"], &expired["remaining"]), (&json!([]), &json!(3)));
    scene.expire(json!({ "retain-last": 2 })).await.expect(200);
    assert_eq!(scene.snapshots().await, [2, 3]);
    let hundred_years = 100_u64 * 365 * 24 * 3600;
    scene
        .expire(json!({ "retain-last": 1, "older-than-seconds": hundred_years }))
        .await
        .expect(200);
    assert_eq!(scene.snapshots().await, [2, 3]);
}

#[tokio::test]
async fn file_that_another_registration_needs_stays() {
    let scene = Scene::with_snapshots().await;
    let loaded = scene.app.get(TABLE).await.expect(200).body;
    let body = json!({ "name": "copy", "metadata-location": loaded["metadata-location"] });
    scene.app.post("/v1/namespaces/ns/register", body).await.expect(200);
    let before = scene.files().await;
    scene.expire(json!({})).await.expect(200);
    assert_eq!((scene.run_jobs().await, scene.files().await), (1, before));
}

#[tokio::test]
async fn files_stay_if_the_job_cannot_read_a_manifest_of_the_table() {
    let scene = Scene::with_snapshots().await;
    scene.app.put_file(&scene.at("metadata/m3.avro"), "broken").await;
    let before = scene.files().await;
    scene.expire(json!({})).await.expect(200);
    assert_eq!((scene.run_jobs().await, scene.files().await), (1, before));
    let jobs = scene.app.get("/management/v1/jobs").await.expect(200).body;
    assert_eq!(jobs["jobs"][0]["state"], "failed", "{jobs}");
}

#[tokio::test]
async fn invalid_requests_are_rejected_and_change_nothing() {
    let scene = Scene::with_snapshots().await;
    scene.app.create_view("ns", "v").await;
    for (options, status) in [
        (json!({ "resource": "view:default/ns/v" }), 400),
        (json!({ "resource": "ns.t" }), 400),
        (json!({ "resource": "table:default/ns/x" }), 404),
        (json!({ "resource": "table:x/ns/t" }), 404),
        (json!({ "retain-last": 0 }), 400),
        (json!({ "retain-last": -1 }), 400),
        (json!({ "older-than-seconds": "x" }), 400),
        (json!({ "older-than": 1 }), 400),
    ] {
        scene.expire(options).await.expect(status);
    }
    let off = vec![set_property("gc.enabled", "false")];
    scene.app.commit("ns", "t", vec![], off).await.expect(200);
    for dry_run in [true, false] {
        let rejected = scene.expire(json!({ "dry-run": dry_run })).await.expect(400).body;
        let message = rejected["error"]["message"].as_str().expect("a message").to_owned();
        assert!(message.contains("gc.enabled"), "{message}");
    }
    assert_eq!((scene.snapshots().await.len(), scene.run_jobs().await), (3, 0));
}

#[tokio::test]
async fn expiry_requires_the_permission_to_purge() {
    let scene = Scene::of(TestApp::secured().await).await.filled().await;
    let (writer, stranger) =
        (scene.app.key_with_role("writer").await, scene.app.key_with_role("x").await);
    let body = json!({ "resource": "table:default/ns/t", "dry-run": false });
    scene.app.request_as(&writer, Method::POST, EXPIRE, &body).await.expect(403);
    scene.app.request_as(&stranger, Method::POST, EXPIRE, &body).await.expect(404);
    assert_eq!(scene.snapshots().await.len(), 3);
    scene.app.request(Method::POST, EXPIRE, &[], &body).await.expect(200);
    assert_eq!(scene.snapshots().await, [3]);
}

#[tokio::test]
async fn repeated_request_with_an_idempotency_key_returns_the_first_response() {
    let scene = Scene::with_snapshots().await;
    let key = [("idempotency-key", "0199c0de-7a3b-7c31-9d3e-0d2c5b7a9f10")];
    let body = json!({ "resource": "table:default/ns/t", "dry-run": false });
    let first = scene.app.request(Method::POST, EXPIRE, &key, &body).await.expect(200).body;
    assert_eq!(first["snapshots"].as_array().map(Vec::len), Some(2));
    assert_eq!(scene.app.request(Method::POST, EXPIRE, &key, &body).await.expect(200).body, first);
    assert_eq!(scene.run_jobs().await, 1, "there is one job");
}

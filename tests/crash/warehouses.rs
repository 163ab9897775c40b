//! Warehouses: acknowledged changes survive, and the served warehouses match the store after every
//! failure.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use object_store::ObjectStore;
use rand::RngExt;
use serde_json::{Value, json};

use crate::scene::{DEADLINE, SHORT_WAIT, TIMEOUT, namespace, within};
use crate::server::{Server, assert_sound};
use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::bucket::bucket;
use crate::support::faults::{Fault, FaultStore, LOG, METADATA_FILES, Verb};
use crate::support::fsck;
use crate::support::table::create_table;

const WAREHOUSES: &str = "/management/v1/warehouses";

fn new_warehouse(name: &str) -> Value {
    json!({ "name": name, "storage": { "location": format!("memory:///{name}") } })
}

/// A catalog, its bucket, and the fault injection between them.
struct Scene {
    bucket: Arc<dyn ObjectStore>,
    faults: Arc<FaultStore>,
    app: Arc<TestApp>,
}

impl Scene {
    async fn new() -> Self {
        Self::on(bucket()).await
    }

    async fn on(bucket: Arc<dyn ObjectStore>) -> Self {
        let faults = FaultStore::new(Arc::clone(&bucket));
        let mut settings = memory_settings();
        settings.catalog.commit_deadline_ms =
            u64::try_from(DEADLINE.as_millis()).expect("deadlines are short");
        let opening = TestApp::with(Arc::clone(&faults) as Arc<dyn ObjectStore>, settings);
        let app = within(TIMEOUT, "opening", opening).await;
        Self { bucket, faults, app: Arc::new(app) }
    }

    /// Stops the process like a crash, and opens the same bucket again.
    async fn crash(self) -> Self {
        self.faults.kill();
        Self::on(self.bucket).await
    }

    async fn create(&self, name: &str) -> TestResponse {
        self.app.post(WAREHOUSES, new_warehouse(name)).await
    }

    async fn delete(&self, name: &str) -> TestResponse {
        self.app.delete(&format!("{WAREHOUSES}/{name}")).await
    }

    /// Returns the warehouses that were created at run time.
    async fn created_names(&self) -> Vec<String> {
        let listed = self.app.get(WAREHOUSES).await.expect(200).body;
        let all = listed["warehouses"].as_array().expect("a list").iter();
        let own = all.filter(|one| one["source"] == "api");
        own.map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// Waits until these warehouses are served.
    async fn until(&self, names: &[&str]) {
        within(TIMEOUT, "the pending change", async {
            while self.created_names().await != names {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }

    /// Asserts that exactly these warehouses are served and usable, and that the store is sound.
    async fn assert_is(&self, names: &[&str]) {
        assert_eq!(self.created_names().await, names);
        for name in names {
            self.app.get(&format!("/v1/{name}/namespaces")).await.expect(200);
        }
        fsck::assert_sound(Arc::clone(&self.bucket)).await;
    }
}

#[tokio::test]
async fn slow_warehouse_change_is_unknown_and_served_once_durable() {
    let scene = Scene::new().await;
    scene.create("a").await.expect(201);
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    scene.create("b").await.expect_error(500, "CommitStateUnknownException");
    // The change is not visible before it is durable, and no other change overtakes it.
    assert_eq!(scene.created_names().await, ["a"]);
    scene.create("c").await.expect_error(503, "SlowDownException");
    scene.delete("a").await.expect_error(503, "SlowDownException");
    scene.faults.lift();
    scene.until(&["a", "b"]).await;
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    scene.delete("a").await.expect_error(500, "CommitStateUnknownException");
    // A warehouse accepts no new contents while its deletion is pending.
    let response = scene.app.post("/v1/a/namespaces", namespace("ns")).await;
    response.expect_error(503, "SlowDownException");
    scene.faults.lift();
    scene.until(&["b"]).await;
    // A warehouse is not deleted while a creation in it is pending.
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    let made = scene.app.post("/v1/b/namespaces", namespace("ns")).await;
    made.expect_error(500, "CommitStateUnknownException");
    scene.delete("b").await.expect_error(503, "SlowDownException");
    scene.faults.lift();
    within(TIMEOUT, "the creation of the namespace", async {
        while scene.app.get("/v1/b/namespaces/ns").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    scene.assert_is(&["b"]).await;
    let scene = scene.crash().await;
    scene.assert_is(&["b"]).await;
}

#[tokio::test]
async fn change_that_was_not_durable_is_lost_after_a_crash() {
    let scene = Scene::new().await;
    scene.create("a").await.expect(201);
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    scene.create("b").await.expect_error(500, "CommitStateUnknownException");
    let scene = scene.crash().await;
    scene.assert_is(&["a"]).await;
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    scene.delete("a").await.expect_error(500, "CommitStateUnknownException");
    let scene = scene.crash().await;
    scene.assert_is(&["a"]).await;
    scene.create("b").await.expect(201);
    scene.assert_is(&["a", "b"]).await;
}

#[tokio::test]
async fn warehouse_change_with_a_lost_response_is_served_before_it_is_acknowledged() {
    for fault in [Fault::LoseResponse, Fault::Fail] {
        let scene = Scene::new().await;
        scene.faults.inject_times(Verb::Put, LOG, fault, 2);
        let answer = scene.create("a").await;
        if answer.status != 201 {
            answer.expect_error(500, "CommitStateUnknownException");
            scene.until(&["a"]).await;
        }
        scene.assert_is(&["a"]).await;
        let scene = scene.crash().await;
        scene.assert_is(&["a"]).await;
    }
}

#[tokio::test]
async fn disconnected_client_cancels_no_change() {
    let scene = Scene::new().await;
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    let app = Arc::clone(&scene.app);
    let making = tokio::spawn(async move { app.post(WAREHOUSES, new_warehouse("a")).await });
    tokio::time::sleep(SHORT_WAIT).await;
    making.abort();
    scene.faults.lift();
    scene.until(&["a"]).await;
    scene.assert_is(&["a"]).await;
}

#[tokio::test]
async fn metadata_file_missing_after_a_crash_is_written_at_the_next_start() {
    let scene = Scene::new().await;
    scene.create("a").await.expect(201);
    scene.app.post("/v1/a/namespaces", namespace("ns")).await.expect(200);
    scene.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    let response = scene.app.post("/v1/a/namespaces/ns/tables", create_table("t")).await;
    response.expect_error(500, "CommitStateUnknownException");
    let scene = scene.crash().await;
    scene.app.get("/v1/a/namespaces/ns/tables/t").await.expect(200);
    scene.assert_is(&["a"]).await;
}

/// The file was written, but its writer does not know this. When the writer checks whether the file
/// exists, the file's location is no longer within the allowed locations of the warehouse.
#[tokio::test]
async fn pending_metadata_file_outside_the_updated_warehouse_counts_as_written() {
    let scene = Scene::new().await;
    let mut with_more = new_warehouse("a");
    with_more["storage"]["allowed-locations"] = json!(["memory:///more"]);
    scene.app.post(WAREHOUSES, with_more).await.expect(201);
    scene.app.post("/v1/a/namespaces", namespace("ns")).await.expect(200);
    scene.faults.inject(Verb::Put, METADATA_FILES, Fault::LoseResponse);
    let mut table = create_table("t");
    table["location"] = json!("memory:///more/t");
    let response = scene.app.post("/v1/a/namespaces/ns/tables", table).await;
    response.expect_error(500, "CommitStateUnknownException");
    let bare = json!({ "storage": { "location": "memory:///a" } });
    scene.app.request(Method::PUT, &format!("{WAREHOUSES}/a"), &[], &bare).await.expect(200);
    scene.faults.lift();
    within(TIMEOUT, "the publication of the file", async {
        while scene.app.get("/v1/a/namespaces/ns/tables/t").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// The real program, killed while warehouses are created continuously.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_changes_survive_a_kill() {
    let data_dir = tempfile::tempdir().expect("there is room");
    let root = data_dir.path().canonicalize().expect("it is there");
    let (mut server, key) = Server::start_secured(&root);
    let key = key.expect("a first start prints a key");
    let mut acknowledged = 0;
    for _ in 0..3 {
        let (uri, bearer, root_of, from) =
            (server.uri.clone(), key.clone(), root.clone(), acknowledged);
        let making = tokio::spawn(async move {
            let mut done = from;
            loop {
                let name = format!("w{}", done + 1);
                let location = format!("file://{}/warehouse/{name}", root_of.display());
                let body = json!({ "name": name, "storage": { "location": location } });
                if send(&uri, &bearer, Method::POST, &body).await.is_none_or(|it| it.0 != 201) {
                    return done;
                }
                done += 1;
            }
        });
        let after = Duration::from_millis(rand::rng().random_range(200..600));
        tokio::time::sleep(after).await;
        server.kill();
        acknowledged = making.await.expect("no panic");
        assert_sound(&root, "after a kill");
        (server, _) = Server::start_secured(&root);
        let listed = send(&server.uri, &key, Method::GET, &Value::Null).await;
        let all = listed.expect("the server lives").1["warehouses"].clone();
        let all = all.as_array().expect("a list");
        let created = all.iter().filter(|one| one["source"] == "api").count();
        assert!(
            (acknowledged..=acknowledged + 1).contains(&created),
            "{acknowledged} warehouses were acknowledged, {created} exist"
        );
        assert!(all.iter().all(|one| one["status"] == "open"), "{all:?}");
        acknowledged = created;
    }
    assert!(acknowledged > 3, "only {acknowledged} warehouses were acknowledged before the kills");
}

/// Sends a request to the collection of warehouses (`/management/v1/warehouses`). Returns the
/// status and the body. `None` if the server is gone.
async fn send(uri: &str, key: &str, method: Method, body: &Value) -> Option<(u16, Value)> {
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build();
    let http = http.expect("a client can be made");
    let mut request = http.request(method, format!("{uri}{WAREHOUSES}")).bearer_auth(key);
    if !body.is_null() {
        request = request.json(body);
    }
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    let bytes = response.bytes().await.ok()?;
    Some((status, serde_json::from_slice(&bytes).expect("JSON")))
}

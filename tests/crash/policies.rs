//! Policies: acknowledged changes survive, and the policies in force match the log after every
//! failure.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use object_store::ObjectStore;
use rand::RngExt;
use serde_json::{Value, json};

use crate::scene::{DEADLINE, SHORT_WAIT, TIMEOUT, within};
use crate::server::{Server, assert_sound};
use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::bucket::bucket;
use crate::support::faults::{Fault, FaultStore, LOG, Verb};
use crate::support::fsck;

const POLICIES: &str = "/management/v1/policies";

/// Returns a policy that affects no caller.
fn policy(id: &str) -> Value {
    let text = format!("@id(\"{id}\") permit (principal == User::\"{id}\", action, resource);");
    json!({ "text": text })
}

/// A catalog that requires credentials, its bucket, and the fault injection between them.
struct Secured {
    bucket: Arc<dyn ObjectStore>,
    faults: Arc<FaultStore>,
    app: Arc<TestApp>,
}

impl Secured {
    async fn new() -> Self {
        Self::on(bucket(), None).await
    }

    async fn on(bucket: Arc<dyn ObjectStore>, credential: Option<String>) -> Self {
        let faults = FaultStore::new(Arc::clone(&bucket));
        let mut settings = memory_settings();
        settings.authn.insecure_no_auth = false;
        settings.catalog.commit_deadline_ms =
            u64::try_from(DEADLINE.as_millis()).expect("deadlines are short");
        let opening = TestApp::with(Arc::clone(&faults) as Arc<dyn ObjectStore>, settings);
        let mut app = within(TIMEOUT, "opening", opening).await;
        app.credential = app.credential.or(credential);
        Self { bucket, faults, app: Arc::new(app) }
    }

    /// Stops the process like a crash, and opens the same bucket again.
    async fn crash(self) -> Self {
        self.faults.kill();
        Self::on(self.bucket, self.app.credential.clone()).await
    }

    async fn put(&self, id: &str) -> TestResponse {
        self.app.request(Method::PUT, &format!("{POLICIES}/{id}"), &[], &policy(id)).await
    }

    /// Returns the API policies in force, with their revision.
    async fn in_force(&self) -> (u64, Vec<String>) {
        let listed = self.app.get(POLICIES).await.expect(200).body;
        let all = listed["policies"].as_array().expect("a list").iter();
        let own = all.filter(|policy| policy["origin"] == "api");
        let ids = own.map(|policy| policy["id"].as_str().expect("an id").to_owned()).collect();
        (listed["revision"].as_u64().expect("a number"), ids)
    }

    /// Asserts that exactly these policies are in force and in the latest revision of the policy
    /// log, and that the store is sound.
    async fn assert_is(&self, ids: &[&str]) {
        let (revision, in_force) = self.in_force().await;
        assert_eq!(in_force, ids);
        let path = format!("{POLICIES}/revisions/{revision}");
        let response_body = self.app.get(&path).await.expect(200).body;
        let logged = response_body["policies"].as_object().cloned().unwrap_or_default();
        assert_eq!(logged.keys().collect::<Vec<_>>(), ids);
        fsck::assert_sound(Arc::clone(&self.bucket)).await;
    }

    /// Waits until this revision is in force.
    async fn until(&self, revision: u64) {
        within(TIMEOUT, "the pending change", async {
            while self.in_force().await.0 < revision {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn slow_policy_change_is_unknown_and_in_force_once_durable() {
    let scene = Secured::new().await;
    scene.put("a").await.expect(200);
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    scene.put("b").await.expect_error(500, "CommitStateUnknownException");
    // The change is not in force before it is durable, and no other change overtakes it.
    assert_eq!(scene.in_force().await, (1, vec!["a".to_owned()]));
    scene.put("c").await.expect_error(503, "SlowDownException");
    scene.faults.lift();
    scene.until(2).await;
    scene.assert_is(&["a", "b"]).await;
    scene.put("c").await.expect(200);
    scene.assert_is(&["a", "b", "c"]).await;
    let scene = scene.crash().await;
    scene.assert_is(&["a", "b", "c"]).await;
}

#[tokio::test]
async fn change_that_was_not_durable_is_lost_after_a_crash() {
    let scene = Secured::new().await;
    scene.put("a").await.expect(200);
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    scene.put("b").await.expect_error(500, "CommitStateUnknownException");
    let scene = scene.crash().await;
    scene.assert_is(&["a"]).await;
    scene.put("c").await.expect(200);
    scene.assert_is(&["a", "c"]).await;
}

#[tokio::test]
async fn policy_change_with_a_lost_response_is_in_force_before_it_is_acknowledged() {
    for fault in [Fault::LoseResponse, Fault::Fail] {
        let scene = Secured::new().await;
        scene.faults.inject_times(Verb::Put, LOG, fault, 2);
        let answer = scene.put("a").await;
        if answer.status != 200 {
            answer.expect_error(500, "CommitStateUnknownException");
            scene.until(1).await;
        }
        scene.assert_is(&["a"]).await;
        let scene = scene.crash().await;
        scene.assert_is(&["a"]).await;
    }
}

#[tokio::test]
async fn policy_change_is_rejected_if_its_permission_is_lost_while_waiting() {
    let scene = Secured::new().await;
    let new = json!({ "name": "other", "roles": ["admin"] });
    let (id, other) = scene.app.make_key(new).await;
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    let send = |key: String, id: &str, text: String| {
        let (app, path) = (Arc::clone(&scene.app), format!("{POLICIES}/{id}"));
        let body = json!({ "text": text });
        tokio::spawn(async move { app.request_as(&key, Method::PUT, &path, &body).await })
    };
    let shut =
        format!("@id(\"shut\") forbid (principal == ServiceAccount::\"{id}\", action, resource);");
    let first = send(scene.app.credential().to_owned(), "shut", shut);
    tokio::time::sleep(SHORT_WAIT).await;
    let text = policy("late")["text"].as_str().expect("a text").to_owned();
    let second = send(other, "late", text);
    tokio::time::sleep(SHORT_WAIT).await;
    scene.faults.lift();
    first.await.expect("no panic").expect(200);
    second.await.expect("no panic").expect_error(403, "ForbiddenException");
    scene.assert_is(&["shut"]).await;
}

#[tokio::test]
async fn disconnected_client_cancels_no_change() {
    let scene = Secured::new().await;
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    let app = Arc::clone(&scene.app);
    let putting = tokio::spawn(async move {
        app.request(Method::PUT, &format!("{POLICIES}/a"), &[], &policy("a")).await
    });
    tokio::time::sleep(SHORT_WAIT).await;
    putting.abort();
    scene.faults.lift();
    scene.until(1).await;
    scene.assert_is(&["a"]).await;
}

/// The real program, killed while policies are changed continuously.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_changes_survive_a_kill() {
    let data_dir = tempfile::tempdir().expect("there is room");
    let (mut server, key) = Server::start_secured(data_dir.path());
    let key = key.expect("a first start prints a key");
    let mut acknowledged = 0_u64;
    for _ in 0..4 {
        let uri = server.uri.clone();
        let (bearer, from) = (key.clone(), acknowledged);
        let writing = tokio::spawn(async move {
            let mut done = from;
            while put(&uri, &bearer, done + 1).await {
                done += 1;
            }
            done
        });
        let after = Duration::from_millis(rand::rng().random_range(150..500));
        tokio::time::sleep(after).await;
        server.kill();
        acknowledged = writing.await.expect("no panic");
        assert_sound(data_dir.path(), "after a kill");
        (server, _) = Server::start_secured(data_dir.path());
        let listed = get(&server.uri, &key, POLICIES).await;
        let revision = listed["revision"].as_u64().expect("a number");
        assert!(
            (acknowledged..=acknowledged + 1).contains(&revision),
            "{acknowledged} changes were acknowledged, and the revision is {revision}"
        );
        let path = format!("{POLICIES}/revisions/{revision}");
        let found = get(&server.uri, &key, &path).await;
        let all = listed["policies"].as_array().expect("a list").iter();
        let own = all.filter(|policy| policy["origin"] == "api").count();
        let logged = found["policies"].as_object().map_or(0, serde_json::Map::len);
        assert_eq!((own as u64, logged as u64), (revision, revision));
        acknowledged = revision;
    }
    assert!(acknowledged > 4, "only {acknowledged} changes were acknowledged before the kills");
}

fn http() -> reqwest::Client {
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build();
    http.expect("a client can be made")
}

/// Puts the policy with this number. Returns whether it was acknowledged.
async fn put(uri: &str, key: &str, number: u64) -> bool {
    let id = format!("p{number}");
    let url = format!("{uri}{POLICIES}/{id}");
    let sent = http().put(url).bearer_auth(key).json(&policy(&id)).send().await;
    match sent {
        Ok(response) => {
            assert_eq!(response.status(), 200, "a running server accepts the policy");
            response.bytes().await.is_ok()
        }
        Err(_) => false,
    }
}

async fn get(uri: &str, key: &str, path: &str) -> Value {
    let sent = http().get(format!("{uri}{path}")).bearer_auth(key).send().await;
    let response = sent.expect("the server lives");
    assert_eq!(response.status(), 200);
    let bytes = response.bytes().await.expect("a body");
    serde_json::from_slice(&bytes).expect("JSON")
}

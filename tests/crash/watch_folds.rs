//! Watchers of the change feed while the server is killed, restored and reconfigured: the tables
//! that a client derives from its last listing and the later events are the tables that the server
//! lists.
//!
//! `SLATEBERG_CRASH_ROUNDS` sets the number of rounds. `SLATEBERG_CRASH_SEED` repeats the choices
//! of a run, except for the order in which concurrent requests arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::Method;
use futures::future::join_all;
use object_store::ObjectStore;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use slateberg_config::Settings;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use self::follower::{Follower, listed};
use crate::scene::{DEADLINE, TIMEOUT, within};
use crate::support::app::{TestApp, memory_settings, write_policies};
use crate::support::bucket::bucket;
use crate::support::env_numbers::{number_from_env, seed};
use crate::support::faults::{EVERYTHING, Fault, FaultStore, LOG, METADATA_FILES, Verb};
use crate::support::fsck::assert_sound;
use crate::support::offline::restore;
use crate::support::table::{create_table, set_property};

mod follower;

/// Default number of rounds.
const ROUNDS: u64 = 18;
const WORKERS: usize = 4;
const NAMESPACES: [&str; 3] = ["open", "granted", "closed"];
const TABLES: [&str; 5] = ["a", "b", "c", "d", "e"];
const CHECKPOINTS: &str = "/management/v1/checkpoints";
const GRANTS: &str = "/management/v1/grants";

/// The analyst always reads `open`, reads `granted` while there is a grant, and never reads
/// `closed`.
const POLICIES: &str = r#"
    @id("config") permit (principal in Role::"analyst", action == Action::"ReadConfig", resource);
    @id("open") permit (principal in Role::"analyst", action in Action::"Read",
        resource in Namespace::"default/open");
    @id("watch") permit (principal in Role::"analyst", action == Action::"Watch", resource);"#;

/// A disturbance of the server while clients change and watch it.
#[derive(Debug, Clone, Copy)]
enum Disturbance {
    /// Nothing: only watchers die.
    Nothing,
    /// The server is killed. Another one starts, and then the killed one continues.
    Kill,
    /// Requests of the bucket fail, are delayed, or lose their responses.
    Faults,
    /// The catalog is restored to a checkpoint.
    Restore,
    /// The change log loses its oldest entries.
    Trim,
    /// The analyst gets or loses a grant.
    Grant,
}

const DISTURBANCES: [Disturbance; 6] = [
    Disturbance::Nothing,
    Disturbance::Kill,
    Disturbance::Faults,
    Disturbance::Restore,
    Disturbance::Trim,
    Disturbance::Grant,
];

/// A catalog on a bucket, and the credentials of its clients.
struct World {
    bucket: Arc<dyn ObjectStore>,
    settings: Settings,
    faults: Arc<FaultStore>,
    app: Arc<TestApp>,
    admin: String,
    analyst: String,
    /// The id of the grant on `granted`.
    grant: Option<String>,
    /// Number of checkpoints. The next restore goes to the last one.
    checkpoints: u32,
    _policies: TempDir,
}

impl World {
    async fn new() -> Self {
        let policies = tempfile::tempdir().expect("there is room");
        write_policies(policies.path(), POLICIES);
        let mut settings = memory_settings();
        settings.authn.insecure_no_auth = false;
        settings.authz.policy_paths = vec![policies.path().to_owned()];
        settings.catalog.change_log_entries_max = 40;
        settings.catalog.commit_deadline_ms =
            u64::try_from(DEADLINE.as_millis()).expect("deadlines are short");
        let bucket = bucket();
        let faults = FaultStore::new(Arc::clone(&bucket));
        let app = TestApp::with(Arc::clone(&faults) as _, settings.clone()).await;
        for namespace in NAMESPACES {
            app.create_namespace(&[namespace]).await;
        }
        app.post(CHECKPOINTS, json!({ "name": "c0" })).await.expect(201);
        let (admin, analyst) = (app.credential().to_owned(), app.key_with_role("analyst").await);
        Self {
            bucket,
            settings,
            faults,
            app: Arc::new(app),
            admin,
            analyst,
            grant: None,
            checkpoints: 0,
            _policies: policies,
        }
    }

    /// Starts a server on the bucket.
    async fn open(&mut self) {
        self.faults = FaultStore::new(Arc::clone(&self.bucket));
        let opening = TestApp::with(Arc::clone(&self.faults) as _, self.settings.clone());
        let mut app = within(TIMEOUT, "opening", opening).await;
        app.credential = Some(self.admin.clone());
        self.app = Arc::new(app);
    }

    async fn close(&self) {
        self.app.app.runtime.catalog.close().await.expect("the catalog closes");
    }

    /// Kills the server and starts another one. Then the requests of the killed one continue.
    async fn kill(&mut self) {
        let killed = (Arc::clone(&self.faults), Arc::clone(&self.app));
        self.faults.kill();
        self.open().await;
        killed.0.lift();
    }

    async fn restore(&mut self) {
        self.close().await;
        let checkpoint = format!("c{}", self.checkpoints);
        let restored = restore(&self.bucket, &self.settings, &checkpoint).await;
        restored.expect("it is restored");
        self.open().await;
        let listed = self.app.get(GRANTS).await.expect(200).body["grants"].clone();
        let grant = listed.as_array().and_then(|grants| grants.first());
        self.grant = grant.map(|it| it["id"].as_str().expect("an id").to_owned());
        self.replace_checkpoint().await;
    }

    /// Creates a checkpoint, and deletes the earlier one and those that the restore has created.
    async fn replace_checkpoint(&mut self) {
        let listed = self.app.get(CHECKPOINTS).await.expect(200).body["checkpoints"].clone();
        self.checkpoints += 1;
        let name = format!("c{}", self.checkpoints);
        self.app.post(CHECKPOINTS, json!({ "name": name })).await.expect(201);
        for checkpoint in listed.as_array().expect("a list") {
            let id = checkpoint["id"].as_str().expect("an id");
            self.app.delete(&format!("{CHECKPOINTS}/{id}")).await.expect(204);
        }
    }

    async fn toggle_grant(&mut self) {
        if let Some(id) = self.grant.take() {
            self.app.delete(&format!("{GRANTS}/{id}")).await.expect(200);
            return;
        }
        let grant = json!({
            "template": "read", "grantee": "role:analyst", "resource": "namespace:default/granted",
        });
        let created = self.app.post(GRANTS, grant).await.expect(201).body;
        self.grant = Some(created["grant"]["id"].as_str().expect("an id").to_owned());
    }

    fn inject_faults(&self, rng: &mut StdRng) {
        for _ in 0..rng.random_range(1..4) {
            let part = [LOG, METADATA_FILES, EVERYTHING].choose(rng).expect("there are some");
            let fault = match rng.random_range(0..3) {
                0 => Fault::Fail,
                1 => Fault::LoseResponse,
                _ => Fault::Delay(1..30),
            };
            self.faults.inject_times(Verb::Put, part, fault, rng.random_range(1..4));
        }
    }

    /// Disturbs the server while clients use it.
    async fn disturb(&mut self, disturbance: Disturbance, rng: &mut StdRng) {
        match disturbance {
            Disturbance::Nothing | Disturbance::Kill | Disturbance::Restore => {}
            Disturbance::Faults => self.inject_faults(rng),
            Disturbance::Grant => self.toggle_grant().await,
            Disturbance::Trim => {
                self.app.app.runtime.catalog.maintenance().expire().await.expect("it expires");
            }
        }
    }

    /// Starts another server if the disturbance requires it. Clients have stopped.
    async fn recover(&mut self, disturbance: Disturbance) {
        self.faults.lift();
        match disturbance {
            Disturbance::Nothing | Disturbance::Grant => {}
            Disturbance::Kill => self.kill().await,
            Disturbance::Restore => self.restore().await,
            Disturbance::Faults | Disturbance::Trim => {
                self.close().await;
                self.open().await;
            }
        }
    }
}

/// Changes tables until `stop` is set.
async fn work(app: Arc<TestApp>, stop: Arc<AtomicBool>, mut rng: StdRng) {
    while !stop.load(Ordering::Relaxed) {
        let (method, path, body) = change(&mut rng);
        let response = app.request(method, &path, &[], &body).await;
        let status = response.status.as_u16();
        // Faults of the bucket lead to 500 and 503, and their changes may have taken effect.
        assert!(
            matches!(status, 200 | 204 | 404 | 409 | 500 | 503 | 504),
            "{path}: {status} {}",
            response.body
        );
    }
}

/// Returns a random change, which may fail because of other changes.
fn change(rng: &mut StdRng) -> (Method, String, Value) {
    let mut pick = || {
        let namespace = NAMESPACES.choose(rng).expect("there are some");
        (*namespace, *TABLES.choose(rng).expect("there are some"))
    };
    let (from, to) = (pick(), pick());
    let ident = |(namespace, name): (&str, &str)| json!({ "namespace": [namespace], "name": name });
    let tables = format!("/v1/namespaces/{}/tables", from.0);
    let table = format!("{tables}/{}", from.1);
    let update = |key: &str| json!({ "requirements": [], "updates": [set_property(key, "yes")] });
    match rng.random_range(0..10) {
        0..3 => (Method::POST, tables, create_table(from.1)),
        3..6 => (Method::POST, table, update(&format!("k{}", rng.random_range(0..4)))),
        6 => (Method::DELETE, table, Value::Null),
        7 if from != to => {
            let changes = [from, to].map(|it| {
                let mut change = update("both");
                change["identifier"] = ident(it);
                change
            });
            let body = json!({ "table-changes": changes });
            (Method::POST, "/v1/transactions/commit".to_owned(), body)
        }
        _ => {
            let body = json!({ "source": ident(from), "destination": ident(to) });
            (Method::POST, "/v1/tables/rename".to_owned(), body)
        }
    }
}

/// Stops tasks at their next await, like the clients of a killed server.
fn abort<T>(tasks: &[JoinHandle<T>]) {
    for task in tasks {
        task.abort();
    }
}

async fn all<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let ended = within(TIMEOUT, "stopping", join_all(tasks)).await;
    ended.into_iter().map(|it| it.expect("it ends")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listing_and_later_events_add_up_to_the_next_listing_under_any_disturbance() {
    let rounds = number_from_env("SLATEBERG_CRASH_ROUNDS", ROUNDS);
    let seed = seed("SLATEBERG_CRASH_SEED");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut world = World::new().await;
    let keys = [&world.admin, &world.analyst, &world.admin, &world.analyst];
    let mut followers: Vec<_> = keys.iter().map(|key| Follower::new(key)).collect();
    for round in 0..rounds {
        let at = usize::try_from(round).expect("rounds are few");
        let disturbance = match DISTURBANCES.get(at) {
            Some(each_once) => *each_once,
            None => *DISTURBANCES.choose(&mut rng).expect("there are some"),
        };
        let what = format!("{disturbance:?} in round {round} of seed {seed}");
        let stop = Arc::new(AtomicBool::new(false));
        let workers = (0..WORKERS).map(|_| {
            let rng = StdRng::seed_from_u64(rng.random());
            tokio::spawn(work(Arc::clone(&world.app), Arc::clone(&stop), rng))
        });
        let workers: Vec<_> = workers.collect();
        // A follower that sleeps for several rounds resumes from an old position.
        let (awake, asleep): (Vec<_>, Vec<_>) =
            followers.into_iter().partition(|_| rng.random_bool(0.7));
        let following = awake.into_iter().map(|follower| {
            let rng = StdRng::seed_from_u64(rng.random());
            tokio::spawn(follower.follow(Arc::clone(&world.app), Arc::clone(&stop), rng))
        });
        let following: Vec<_> = following.collect();
        tokio::time::sleep(Duration::from_millis(rng.random_range(2..60))).await;
        world.disturb(disturbance, &mut rng).await;
        tokio::time::sleep(Duration::from_millis(rng.random_range(2..60))).await;
        stop.store(true, Ordering::Relaxed);
        if matches!(disturbance, Disturbance::Kill) {
            world.faults.kill();
            abort(&workers);
            join_all(workers).await;
        } else {
            all(workers).await;
        }
        let mut awake = all(following).await;
        world.recover(disturbance).await;
        for follower in &mut awake {
            follower.catch_up(&world.app, &what).await;
            let expected = listed(&world.app, follower.key()).await;
            assert_eq!(follower.tables(), expected, "{what}");
        }
        followers = awake.into_iter().chain(asleep).collect();
    }
    for follower in &mut followers {
        follower.catch_up(&world.app, "the end").await;
        assert_eq!(follower.tables(), listed(&world.app, follower.key()).await, "seed {seed}");
    }
    world.close().await;
    assert_sound(Arc::clone(&world.bucket)).await;
    let events: usize = followers.iter().map(Follower::events).sum();
    let listings: usize = followers.iter().map(Follower::listings).sum();
    eprintln!("seed {seed}: {rounds} rounds, {events} events, {listings} listings");
    assert!(events as u64 > rounds * 10, "too few events: {events}");
    assert!(listings > followers.len(), "no follower had to list again");
}

//! At least 100,000 generated requests, some of them valid and some with one error.
//!
//! A response is never a 5xx and never late, an error is always an `ErrorModel`, and a rejected
//! request changes nothing. Each worker has its own catalog, so that a seed determines the
//! requests, independently of the scheduler. `SLATEBERG_FUZZ_SEED` sets another seed, and
//! `SLATEBERG_FUZZ_REQUESTS` another number of requests.

mod changes;
mod grammar;
mod managing;
mod mutate;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use self::grammar::Grammar;
use self::managing::{LISTS, MANAGEMENT};
use crate::support::app::{TestApp, TestResponse};
use crate::support::env_numbers::number_from_env;
use crate::support::fsck::findings;
use crate::support::path;

const REQUESTS: u64 = 100_000;
const SEED: u64 = 20_260_901;
/// Number of workers. It is larger than the number of cores, because workers often wait for the
/// log.
const WORKERS: u64 = 16;
/// Maximum duration of a request, in seconds. A request that takes longer fails the test.
const ANSWER_SECONDS_MAX: u64 = 30;
/// Number of requests between two sweeps, which keep the catalog small.
const SWEEP_EVERY: u64 = 200;
/// Side effects are checked for one in this number of requests.
const CHECK_ONE_OF: u32 = 20;
/// Size of a table's metadata, in bytes, above which a sweep drops it.
const METADATA_BYTES_MAX: usize = 64 << 10;
/// Maximum number of namespaces, tables and views after a sweep.
const NAMES_MAX: usize = 1000;
/// Maximum number of warehouses.
const WAREHOUSES_MAX: usize = 4;
/// One in this number of workers has a catalog that requires no credentials. Policies and keys
/// cannot be managed in such a catalog.
const OPEN_ONE_OF: u64 = 4;
/// Maximum growth of the process, in bytes. Its memory contains the buckets of all workers.
const GROWTH_BYTES_MAX: u64 = 2 << 30;

/// A request before it is sent.
struct Generated {
    method: Method,
    uri: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Whether the request has no credential.
    anonymous: bool,
}

impl Generated {
    /// Builds the request. `None` if HTTP does not allow such a request.
    fn build(&self, credential: Option<&str>) -> Option<Request<Body>> {
        let mut request = Request::builder().method(self.method.clone()).uri(&self.uri);
        for (name, value) in &self.headers {
            request = request.header(*name, value.as_str());
        }
        if let Some(credential) = credential.filter(|_| !self.anonymous) {
            request = request.header("authorization", format!("Bearer {credential}"));
        }
        request = request.header("content-length", self.body.len());
        request.body(Body::from(self.body.clone())).ok()
    }

    fn has_key(&self) -> bool {
        self.headers.iter().any(|(name, _)| *name == "idempotency-key")
    }
}

impl std::fmt::Display for Generated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(2000).collect();
        let uri: String = self.uri.chars().take(2000).collect();
        write!(f, "{} {uri} {:?} {body}", self.method, self.headers)
    }
}

/// Statistics of requests.
#[derive(Debug, Default)]
struct Tally {
    /// Number of responses by status.
    statuses: BTreeMap<u16, u64>,
    /// Number of created resources by management list.
    made: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn count(&mut self, generated: &Generated, status: StatusCode) {
        *self.statuses.entry(status.as_u16()).or_default() += 1;
        let is_one_of = |list: &&str| generated.uri.starts_with(&format!("{MANAGEMENT}/{list}"));
        if matches!(status, StatusCode::CREATED | StatusCode::ACCEPTED)
            && let Some(list) = LISTS.into_iter().find(is_one_of)
        {
            *self.made.entry(list).or_default() += 1;
        }
    }

    fn add(&mut self, other: Self) {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (list, count) in other.made {
            *self.made.entry(list).or_default() += count;
        }
    }
}

struct Worker {
    name: String,
    app: TestApp,
    grammar: Grammar,
    rng: StdRng,
    tally: Tally,
}

impl Worker {
    async fn new(seed: u64, number: u64) -> Self {
        let seed = seed.wrapping_add(number);
        let app = TestApp::with_settings(|settings| {
            settings.server.body_bytes_max = 64 << 10;
            settings.catalog.page_size_max = 3;
            settings.catalog.warehouses_max = WAREHOUSES_MAX;
            settings.authn.insecure_no_auth = seed.is_multiple_of(OPEN_ONE_OF);
            settings.store.block_cache_bytes = 1 << 20;
            settings.store.meta_cache_bytes = 1 << 20;
        })
        .await;
        Self {
            name: format!("SLATEBERG_FUZZ_SEED={seed}, worker 0"),
            app,
            grammar: Grammar::new(StdRng::seed_from_u64(seed)),
            rng: StdRng::seed_from_u64(!seed),
            tally: Tally::default(),
        }
    }

    async fn run(mut self, requests: u64) -> Tally {
        let mut sent = 0;
        while sent < requests {
            if sent.is_multiple_of(SWEEP_EVERY) {
                self.sweep_managed().await;
                self.sweep().await;
            }
            let generated = self.grammar.request();
            if let Some(request) = generated.build(self.app.credential.as_deref()) {
                self.send(&generated, request).await;
                sent += 1;
            }
        }
        // Managed resources stay, so that the restart has to preserve them.
        self.sweep().await;
        self.finish().await
    }

    async fn send(&mut self, generated: &Generated, request: Request<Body>) {
        let checked = self.rng.random_ratio(1, CHECK_ONE_OF);
        let before = match checked {
            true => Some((self.app.dump().await, managed(&self.app).await)),
            false => None,
        };
        let limit = Duration::from_secs(ANSWER_SECONDS_MAX);
        let answer = tokio::time::timeout(limit, self.app.send(request)).await;
        let name = &self.name;
        let answer = answer.unwrap_or_else(|_| panic!("{name}: no answer to {generated}"));
        self.tally.count(generated, answer.status);
        let fault = fault(generated, &answer);
        assert!(fault.is_none(), "{name}: {fault:?}: {generated}: {}", answer.body);
        if let Some((before, managed_before)) = before.filter(|_| !answer.status.is_success()) {
            let after = self.app.dump().await;
            assert_eq!(before.visible, after.visible, "{name}: {generated} changed something");
            let managed = managed(&self.app).await;
            assert_eq!(managed_before, managed, "{name}: {generated} changed managed resources");
            // The catalog records the rejection of a request with an idempotency key. Any other
            // rejection does not even write to the log.
            if !generated.has_key() {
                // The garbage collection of SlateDB deletes old files of the log at any time.
                let is_log = |object: &str| object.starts_with("state/wal/");
                let stays = |it: &&String| !is_log(it) || after.objects.contains(it);
                let expected: Vec<_> = before.objects.iter().filter(stays).collect();
                let found: Vec<_> = after.objects.iter().collect();
                assert_eq!(expected, found, "{name}: {generated} wrote something");
            }
        }
        self.grammar.learn(&answer);
    }

    /// Runs the background tasks of the server, and removes managed resources.
    async fn sweep_managed(&mut self) {
        let catalog = &self.app.app.runtime.catalog;
        catalog.jobs().run_jobs().await.expect("jobs run");
        catalog.maintenance().expire().await.expect("it expires");
        let before = self.app.get(&format!("{MANAGEMENT}/policies")).await;
        if self.app.credential.is_none() {
            before.expect_error(403, "ForbiddenException");
            return;
        }
        before.expect(200);
        let back = json!({ "to": 0 });
        self.app.post(&format!("{MANAGEMENT}/policies/rollback"), back).await.expect(200);
        let whoami = self.app.get(&format!("{MANAGEMENT}/whoami")).await.expect(200).body;
        for list in ["api-keys", "checkpoints"] {
            for id in self.ids(list).await {
                if id != whoami["id"] {
                    let path = format!("{MANAGEMENT}/{list}/{}", id.as_str().expect("an id"));
                    self.app.delete(&path).await.expect(204);
                }
            }
        }
    }

    /// Returns the ids in a list.
    async fn ids(&self, list: &str) -> Vec<Value> {
        let listed = self.app.get(&format!("{MANAGEMENT}/{list}")).await.expect(200).body;
        let all = listed[list].as_array().unwrap_or_else(|| panic!("{list}: {listed}"));
        let current = all.iter().filter(|one| one["revoked-at-ms"].is_null());
        current.map(|one| one["id"].clone()).collect()
    }

    /// Creates the basic resources, and drops surplus ones.
    async fn sweep(&mut self) {
        for (path, body) in grammar::initial_resources() {
            let answer = self.app.post(path, body).await;
            let message = answer.body.to_string();
            assert!(
                matches!(answer.status.as_u16(), 200 | 409),
                "{}: {path}: {message}",
                self.name
            );
        }
        let seen = self.app.visible_state("/v1").await;
        let namespaces = seen.as_object().expect("an object");
        let mut names = namespaces.len();
        for (levels, namespace) in namespaces.iter().rev() {
            let levels: Value = serde_json::from_str(levels).expect("a list");
            let namespace_path = format!("/v1/{}", path::of_namespace(&levels));
            for kind in ["tables", "views"] {
                let held = namespace[kind].as_object().into_iter().flatten();
                for (name, held) in held {
                    names += 1;
                    let known = grammar::NAMES.contains(&name.as_str());
                    if !known || held.to_string().len() > METADATA_BYTES_MAX {
                        let path = format!("{namespace_path}/{kind}/{}", path::segment(name));
                        self.app.delete(&path).await.expect(204);
                    }
                }
            }
            let levels: Vec<_> = levels.as_array().into_iter().flatten().collect();
            let known =
                levels.iter().all(|it| it.as_str().is_some_and(|it| grammar::NAMES.contains(&it)));
            if !known || namespace["itself"].to_string().len() > METADATA_BYTES_MAX {
                // The namespace may contain resources that the next sweep drops.
                self.app.delete(&namespace_path).await;
            }
        }
        assert!(names < NAMES_MAX, "{}: {names} names", self.name);
    }

    /// Restarts the server, and checks that all resources and invariants are preserved.
    async fn finish(self) -> Tally {
        let before = (self.app.visible_state("/v1").await, managed(&self.app).await);
        let app = self.app.restart().await;
        let after = (app.visible_state("/v1").await, managed(&app).await);
        assert_eq!(after, before, "{}: after a restart", self.name);
        app.app.runtime.catalog.close().await.expect("the catalog closes");
        let findings = findings(Arc::clone(&app.bucket)).await;
        assert_eq!(findings, Vec::<String>::new(), "{}", self.name);
        self.tally
    }
}

/// Returns all management lists. The times at which keys were last used and the progress of webhooks
/// are left out, because they are written only occasionally.
async fn managed(app: &TestApp) -> Vec<Value> {
    let mut all = Vec::new();
    for list in LISTS {
        let answer = app.get(&format!("{MANAGEMENT}/{list}")).await;
        // A server without authentication rejects requests for some of the lists.
        let mut listed =
            if app.credential.is_some() { answer.expect(200).body } else { answer.body };
        for key in listed["api-keys"].as_array_mut().into_iter().flatten() {
            key["last-used-at-ms"] = Value::Null;
        }
        for webhook in listed["webhooks"].as_array_mut().into_iter().flatten() {
            webhook["delivery"] = Value::Null;
        }
        all.push(listed);
    }
    all
}

/// Returns the error in a response, if any.
fn fault(generated: &Generated, answer: &TestResponse) -> Option<&'static str> {
    let status = answer.status;
    if status.is_server_error() {
        return Some("a server error");
    }
    let bodiless = generated.method == Method::HEAD || status == StatusCode::NOT_MODIFIED;
    if bodiless || status == StatusCode::NO_CONTENT {
        return (!answer.body.is_null()).then_some("a body, though the status allows none");
    }
    if status.is_client_error() {
        return (!answer.is_error_model()).then_some("an error that is not an ErrorModel");
    }
    let managed = generated.uri.starts_with(MANAGEMENT);
    let done = match status {
        StatusCode::OK => true,
        StatusCode::CREATED | StatusCode::ACCEPTED => managed,
        _ => false,
    };
    (!done).then_some("a status that the specification does not have")
}

/// Returns the resident memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_breaks_the_catalog() {
    let (requests, seed) = (
        number_from_env("SLATEBERG_FUZZ_REQUESTS", REQUESTS),
        number_from_env("SLATEBERG_FUZZ_SEED", SEED),
    );
    let before = resident_bytes();
    let mut workers = Vec::new();
    for n in 0..WORKERS {
        let worker = Worker::new(seed, n).await;
        workers.push(tokio::spawn(worker.run(requests.div_ceil(WORKERS))));
    }
    let mut tally = Tally::default();
    for worker in workers {
        tally.add(worker.await.expect("no request of the worker failed the checks"));
    }
    let growth = resident_bytes().saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "the process has grown by {growth} bytes");
    let Tally { statuses, made } = &tally;
    let total: u64 = statuses.values().sum();
    assert!(total >= requests);
    // Both successes and rejections occurred.
    for status in [200, 400, 404, 409] {
        assert!(statuses.get(&status).is_some_and(|count| *count > total / 100), "{tally:?}");
    }
    // All management lists were used.
    assert!(LISTS.iter().all(|list| made.contains_key(list)), "{tally:?}");
    #[expect(clippy::print_stdout, reason = "the statistics are for developers with --nocapture")]
    {
        println!("{total} requests, {} MiB more, {tally:?}", growth >> 20);
    }
}

//! A campaign of random failures of clusters, with clients that use all members.
//!
//! Each **cluster** has a seed, three members on a bucket in memory, and some rounds. In each
//! **round**, one or two [failures](failure) occur and end. Then each member must acknowledge a change
//! within a bound. The [clients](clients) record all operations in a [history], which must be
//! linearizable. Files that tables reference must remain, and `fsck` must find nothing at the end.
//!
//! - `SLATEBERG_CAMPAIGN_ROUNDS` sets the number of rounds.
//! - `SLATEBERG_CAMPAIGN_SEED` sets the seed of the first cluster. The next clusters have the next seeds.
//! - `SLATEBERG_CAMPAIGN_CLUSTERS` sets the number of clusters that run at once.

mod clients;
mod failure;
mod files;
mod history;
mod process;
mod remote_bucket;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use object_store::ObjectStore;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Client as HttpClient, Method};
use serde_json::{Value as Json, json};
use tokio::task::{JoinHandle, JoinSet};

use crate::member::{PAUSE, TIMEOUT, writer_record};
use crate::support::bucket::bucket;
use crate::support::env_numbers::{number_from_env, seed};
use crate::support::faults::FaultStore;
use crate::support::fsck::assert_sound;
use crate::support::table::create_table;
use clients::{Client, Counts, MEMBERS, Reply, Scene, TABLES};
use failure::Failure;
use files::TableFiles;
use process::Process;

/// Default number of rounds.
const ROUNDS: u64 = 12;
/// Default number of clusters that run at once.
const CLUSTERS: u64 = 3;
/// Maximum number of rounds of a cluster. The next rounds have a new cluster, because the log in the
/// bucket grows.
const ROUNDS_MAX: u64 = 40;
/// Rounds between two lines about the progress.
const REPORTED_ROUNDS: u64 = 100;
/// Time limit for acknowledged changes through each member after the failures have ended.
const RECOVERY_MAX: Duration = Duration::from_secs(20);
/// Minimum and maximum duration of failures, in milliseconds.
const FAILURE_MS: std::ops::Range<u64> = 20..1_000;
/// Properties of the tables that are never dropped: old metadata files are deleted.
const PROPERTIES: [(&str, &str); 2] = [
    ("write.metadata.delete-after-commit.enabled", "true"),
    ("write.metadata.previous-versions-max", "3"),
];

/// The progress of all clusters.
struct Progress {
    began: Instant,
    rounds: AtomicU64,
    counts: Arc<Counts>,
    /// The longest time until all members acknowledged changes again, in milliseconds.
    recovery_ms: AtomicU64,
}

impl Progress {
    fn count_round(&self, recovery: Duration) {
        let recovery_ms = u64::try_from(recovery.as_millis()).expect("it is bounded");
        self.recovery_ms.fetch_max(recovery_ms, Ordering::Relaxed);
        if (self.rounds.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(REPORTED_ROUNDS) {
            self.report();
        }
    }

    fn report(&self) {
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        eprintln!(
            "{} rounds in {:.0?}: {} responses, {} rejected requests, {} unknown outcomes, \
             {} purged tables, longest recovery {} ms",
            get(&self.rounds),
            self.began.elapsed(),
            get(&self.counts.responses),
            get(&self.counts.rejected),
            get(&self.counts.unknown),
            get(&self.counts.purged),
            get(&self.recovery_ms),
        );
    }
}

/// A cluster under test.
struct Cluster {
    bucket: Arc<dyn ObjectStore>,
    processes: [Option<Process>; MEMBERS],
    /// The requests of killed processes to the bucket.
    of_killed: Vec<Arc<FaultStore>>,
    /// Processes that stop in order.
    stopping: Vec<JoinHandle<()>>,
    scene: Arc<Scene>,
    clients: JoinSet<()>,
    /// Files of a table that is never dropped.
    files: TableFiles,
    rng: StdRng,
    http: HttpClient,
    /// The failures, for a report.
    log: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    /// Starts all members and clients.
    async fn start(seed: u64, log: Arc<Mutex<Vec<String>>>, counts: Arc<Counts>) -> Self {
        let (bucket, mut rng) = (bucket(), StdRng::seed_from_u64(seed));
        let http = HttpClient::new();
        let scene = Scene::new(Arc::clone(&bucket), format!("ns{seed}"), http.clone(), counts);
        let mut processes = [const { None }; MEMBERS];
        for (member, slot) in processes.iter_mut().enumerate() {
            *slot = Some(start_member(&scene, member, &http).await);
        }
        let files = create_tables(&scene).await;
        let mut clients = JoinSet::new();
        for client in Client::all(&scene, &mut rng) {
            clients.spawn(client.run());
        }
        let (of_killed, stopping) = (Vec::new(), Vec::new());
        Self { bucket, processes, of_killed, stopping, scene, clients, files, rng, http, log }
    }

    /// Runs one round. Returns the time until all members acknowledged changes after the failures.
    async fn round(&mut self, number: u64) -> Duration {
        let count = self.rng.random_range(1..=2);
        let mut lasts = Duration::from_millis(self.rng.random_range(FAILURE_MS));
        for _ in 0..count {
            let writer = self.writer().await;
            let failure = Failure::choose(&mut self.rng, writer);
            self.log(format!("round {number}: {failure:?}"));
            lasts = lasts.max(failure.duration());
            self.begin(&failure).await;
            let until_next = self.rng.random_range(0..200);
            tokio::time::sleep(Duration::from_millis(until_next)).await;
        }
        tokio::time::sleep(lasts).await;
        self.recover().await;
        let began = Instant::now();
        // In some rounds, the other members have to recover alone.
        if self.rng.random_bool(0.5) {
            self.wait_for_changes(number).await;
        }
        self.start_missing().await;
        self.wait_for_changes(number).await;
        let recovery = began.elapsed();
        self.scene.history.check().unwrap_or_else(|error| panic!("{error}"));
        self.files.check_all(&self.bucket).await;
        recovery
    }

    /// Returns the member that the record in the bucket names as the writer.
    async fn writer(&self) -> Option<usize> {
        let record = writer_record(&self.bucket).await;
        record["holder"]["name"].as_str()?.strip_prefix('m')?.parse().ok()
    }

    async fn begin(&mut self, failure: &Failure) {
        match *failure {
            Failure::Kill(member) => {
                if let Some(process) = self.processes[member].take() {
                    self.scene.set_endpoint(member, None);
                    self.of_killed.push(Arc::clone(&process.faults));
                    process.kill().await;
                }
            }
            Failure::Stop(member) => {
                if let Some(mut process) = self.processes[member].take() {
                    self.scene.set_endpoint(member, None);
                    process.resume();
                    self.of_killed.push(Arc::clone(&process.faults));
                    let bucket = Arc::clone(&self.bucket);
                    let stopping = async move { process.stop(&bucket).await };
                    self.stopping.push(tokio::spawn(stopping));
                }
            }
            Failure::Transfer(member) => {
                let scene = Arc::clone(&self.scene);
                tokio::spawn(async move {
                    let path = "/management/v1/cluster/transfer";
                    let body = json!({});
                    scene.send(member, (Method::POST, path), Some(&body), RECOVERY_MAX).await
                });
            }
            _ => failure.begin(&mut self.processes),
        }
    }

    /// Ends all failures, and waits until members that stop have ended.
    async fn recover(&mut self) {
        for process in self.processes.iter_mut().flatten() {
            process.recover();
        }
        for faults in self.of_killed.drain(..) {
            faults.lift();
        }
        for stopping in self.stopping.drain(..) {
            stopping.await.expect("the member stops in order");
        }
    }

    /// Starts all members that do not run.
    async fn start_missing(&mut self) {
        for member in 0..MEMBERS {
            if self.processes[member].is_none() {
                let started = start_member(&self.scene, member, &self.http).await;
                self.processes[member] = Some(started);
            }
        }
    }

    /// Waits until a new change is acknowledged through each member that runs.
    async fn wait_for_changes(&mut self, round: u64) {
        let (began, since) = (Instant::now(), self.scene.history.tick());
        loop {
            self.check_tasks();
            let running = (0..MEMBERS).filter(|member| self.processes[*member].is_some());
            let missing: Vec<_> =
                running.filter(|member| !self.scene.has_changed(*member, since)).collect();
            if missing.is_empty() {
                return;
            }
            if began.elapsed() > RECOVERY_MAX {
                let record = writer_record(&self.bucket).await;
                panic!("round {round}: no change is acknowledged through {missing:?}: {record}");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// No client and no process may have ended.
    fn check_tasks(&mut self) {
        if let Some(ended) = self.clients.try_join_next() {
            panic!("a client has ended: {ended:?}");
        }
        for (member, process) in self.processes.iter_mut().enumerate() {
            if let Some(ended) = process.as_mut().and_then(Process::has_ended) {
                panic!("member {member} has ended: {ended}");
            }
        }
    }

    /// Reads everything at all members, and stops them.
    async fn finish(mut self) {
        self.scene.stop();
        while let Some(ended) = self.clients.join_next().await {
            ended.expect("the client got only expected responses");
        }
        let names = self.scene.names();
        for member in 0..MEMBERS {
            for table in TABLES.into_iter().chain(names.iter().map(String::as_str)) {
                self.scene.load(member, table, TIMEOUT).await;
            }
        }
        self.scene.history.check().unwrap_or_else(|error| panic!("{error}"));
        for process in self.processes.into_iter().flatten() {
            process.stop(&self.bucket).await;
        }
        self.files.check_all(&self.bucket).await;
        assert_sound(self.bucket).await;
    }

    fn log(&self, line: String) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

async fn start_member(scene: &Scene, member: usize, http: &HttpClient) -> Process {
    let process = Process::start(&scene.bucket, &format!("m{member}"), http).await;
    scene.set_endpoint(member, Some(process.uri.clone()));
    process
}

/// Creates the namespace and the tables that are never dropped. Returns the files of one of them.
async fn create_tables(scene: &Scene) -> TableFiles {
    create(scene, "/v1/namespaces", json!({ "namespace": [scene.namespace] })).await;
    let tables = format!("/v1/namespaces/{}/tables", scene.namespace);
    let mut files = None;
    for table in TABLES {
        let mut body = create_table(table);
        body["properties"] = PROPERTIES.into_iter().collect();
        let created = create(scene, &tables, body).await;
        let of_table = TableFiles::put(&scene.bucket, &created, 0).await;
        create(scene, &format!("{tables}/{table}"), of_table.append()).await;
        files = Some(of_table);
    }
    files.expect("there are tables")
}

/// Sends a request until there is a writer.
async fn create(scene: &Scene, path: &str, body: Json) -> Json {
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        match scene.send(0, (Method::POST, path), Some(&body), TIMEOUT).await {
            Reply::Done(created) => return created,
            Reply::NotExecuted => tokio::time::sleep(PAUSE).await,
            _ => panic!("{path}: the cluster has no failures yet"),
        }
    }
    panic!("{path}: there is no writer");
}

/// Runs the rounds of one cluster.
async fn run(seed: u64, rounds: u64, log: Arc<Mutex<Vec<String>>>, progress: Arc<Progress>) {
    let mut cluster = Cluster::start(seed, log, Arc::clone(&progress.counts)).await;
    for round in 0..rounds {
        let recovery = cluster.round(round).await;
        progress.count_round(recovery);
    }
    cluster.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_survives_random_failures() {
    let first = seed("SLATEBERG_CAMPAIGN_SEED");
    let rounds = number_from_env("SLATEBERG_CAMPAIGN_ROUNDS", ROUNDS);
    let at_once = number_from_env("SLATEBERG_CAMPAIGN_CLUSTERS", CLUSTERS);
    let of_each = rounds.div_ceil(at_once).clamp(1, ROUNDS_MAX);
    let progress = Arc::new(Progress {
        began: Instant::now(),
        rounds: AtomicU64::new(0),
        counts: Arc::default(),
        recovery_ms: AtomicU64::new(0),
    });
    let at_once = usize::try_from(at_once).expect("it is small");
    let mut clusters = futures::stream::iter(first..first + rounds.div_ceil(of_each))
        .map(|seed| {
            let (log, progress) = (Arc::<Mutex<Vec<String>>>::default(), Arc::clone(&progress));
            let rounds = of_each.min(rounds - (seed - first) * of_each);
            let running = tokio::spawn(run(seed, rounds, Arc::clone(&log), progress));
            async move { (seed, log, running.await) }
        })
        .buffer_unordered(at_once);
    while let Some((seed, log, ended)) = clusters.next().await {
        if let Err(error) = ended {
            let log = log.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
            panic!("SLATEBERG_CAMPAIGN_SEED={seed}: {error}\n{log}");
        }
    }
    progress.report();
}

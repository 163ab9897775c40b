//! A cluster of processes whose writer is killed, paused or stopped under load.
//!
//! `SLATEBERG_CLUSTER_ROUNDS` sets the number of failures, and `SLATEBERG_TEST_LEASE_MS` the
//! duration of the lease.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinHandle;

use crate::client::{Client, Reply};
use crate::load::TABLE;
use crate::server::{Server, assert_sound};
use crate::support::env_numbers::number_from_env;

const ROUNDS: u64 = 6;
const MEMBERS: usize = 3;
const WRITERS: usize = 6;
const READERS: usize = 3;
const LEASE_MS: u64 = 2_000;
/// Time limit for the first acknowledged change after a failure: the lease, its margin, the
/// interval of the reads, and the start of the next writer, on a busy machine.
const TAKEOVER_MAX: Duration = Duration::from_secs(15);
/// Lines of the members' log in a panic.
const LOG_LINES: usize = 60;

/// The failure of the writer in one round.
#[derive(Debug, Clone, Copy)]
enum Failure {
    Kill,
    Pause,
    Stop,
}

/// A running member.
struct Member {
    server: Server,
    client: Client,
}

impl Member {
    fn start(data_dir: &Path, number: usize) -> Self {
        let lease = number_from_env("SLATEBERG_TEST_LEASE_MS", LEASE_MS);
        let (name, lease) = (format!("m{number}"), lease.to_string());
        let environment = [
            ("SLATEBERG__CLUSTER__ENABLED", "true"),
            ("SLATEBERG__CLUSTER__LISTEN", "127.0.0.1:0"),
            ("SLATEBERG__CLUSTER__NAME", name.as_str()),
            ("SLATEBERG__CLUSTER__LEASE_MS", lease.as_str()),
            ("SLATEBERG__CLUSTER__LEASE_WAIT_MS", "500"),
        ];
        let server = Server::start_with(data_dir, &environment);
        let client = Client::of(&server.uri);
        Self { server, client }
    }

    /// Whether this member is the writer. `None` if it does not respond.
    async fn is_writer(&self) -> Option<bool> {
        match self.client.get("../ready").await {
            Reply::Answered(200, body) => Some(body["role"] == "writer"),
            Reply::Answered(..) => Some(false),
            Reply::Lost => None,
        }
    }

    /// Stops the member in order, and returns its exit code. The clients continue to read responses
    /// meanwhile: the member waits for them.
    async fn stop(self) -> Option<i32> {
        self.server.terminate();
        let stopped = tokio::task::spawn_blocking(|| self.server.wait_for_exit()).await;
        stopped.expect("it stops in time").code()
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.server.pid()]).status();
        assert!(sent.expect("kill is there").success(), "{signal}");
    }
}

/// Writers and readers that use any member of the cluster.
struct Load {
    clients: Arc<Mutex<Vec<Client>>>,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<Acknowledged>,
    /// The log of all members.
    log: PathBuf,
    writers: Vec<JoinHandle<BTreeSet<String>>>,
    readers: Vec<JoinHandle<u64>>,
}

/// The acknowledged changes.
#[derive(Default)]
struct Acknowledged {
    count: AtomicU64,
    /// The number of the newest change of each writer, plus one.
    newest: [AtomicU64; WRITERS],
}

impl Acknowledged {
    fn add(&self, writer: usize, number: u64) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.newest[writer].store(number + 1, Ordering::SeqCst);
    }

    /// Returns the key of the newest change of each writer.
    fn newest(&self) -> BTreeSet<String> {
        let numbers = self.newest.iter().map(|number| number.load(Ordering::SeqCst)).enumerate();
        let changed = numbers.filter(|(_, number)| *number > 0);
        changed.map(|(writer, number)| format!("w{writer}-{}", number - 1)).collect()
    }
}

impl Load {
    fn start(clients: Vec<Client>, log: PathBuf) -> Self {
        let clients = Arc::new(Mutex::new(clients));
        let (stop, acknowledged) = (Arc::default(), Arc::<Acknowledged>::default());
        let readers = (0..READERS).map(|_| {
            let (clients, stop, acknowledged) =
                (Arc::clone(&clients), Arc::clone(&stop), Arc::clone(&acknowledged));
            tokio::spawn(async move { read(&clients, &stop, &acknowledged).await })
        });
        let readers = readers.collect();
        let writers = (0..WRITERS).map(|writer| {
            let (clients, stop, acknowledged) =
                (Arc::clone(&clients), Arc::clone(&stop), Arc::clone(&acknowledged));
            tokio::spawn(async move { write(writer, &clients, &stop, &acknowledged).await })
        });
        let writers = writers.collect();
        Self { clients, stop, acknowledged, log, writers, readers }
    }

    fn use_members(&self, members: &[Member]) {
        let clients = members.iter().map(|member| member.client.clone()).collect();
        *self.clients.lock().expect("no writer panics with the lock") = clients;
    }

    /// Waits until a change is acknowledged that was sent after this call, and returns the time that
    /// this took. Each writer may have one change in progress at the time of the call.
    async fn progress(&self, what: &str) -> Duration {
        let (before, since) = (self.acknowledged.count.load(Ordering::SeqCst), Instant::now());
        loop {
            if self.acknowledged.count.load(Ordering::SeqCst) - before > WRITERS as u64 {
                return since.elapsed();
            }
            if since.elapsed() > TAKEOVER_MAX {
                let clients = self.clients.lock().expect("no writer panics with the lock").clone();
                for client in clients {
                    eprintln!("{}", client.metrics("slateberg_cluster").await);
                }
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                let lines: Vec<_> = log.lines().rev().take(LOG_LINES).collect();
                let log: Vec<_> = lines.into_iter().rev().collect();
                panic!("{what}: no change is acknowledged\n{}", log.join("\n"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn stop(self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = BTreeSet::new();
        for writer in self.writers {
            all.extend(writer.await.expect("the writer got only expected responses"));
        }
        let mut reads = 0;
        for reader in self.readers {
            reads += reader.await.expect("each read contains the acknowledged changes");
        }
        eprintln!("{reads} reads contained all changes that were acknowledged before");
        all
    }
}

/// Reads at any member. A read has to contain all changes that were acknowledged before it began.
/// Returns the number of reads.
async fn read(clients: &Mutex<Vec<Client>>, stop: &AtomicBool, acknowledged: &Acknowledged) -> u64 {
    let mut reads = 0;
    for attempt in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let client = {
            let clients = clients.lock().expect("no reader panics with the lock");
            clients[attempt % clients.len()].clone()
        };
        let expected = acknowledged.newest();
        match client.get(TABLE).await {
            Reply::Answered(200, loaded) => {
                has_all(&loaded, &expected);
                reads += 1;
            }
            Reply::Lost | Reply::Answered(500 | 503, _) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Reply::Answered(status, body) => panic!("{status} {body}"),
        }
    }
    reads
}

/// Sets properties one after the other. Returns the keys of all acknowledged changes.
async fn write(
    writer: usize,
    clients: &Mutex<Vec<Client>>,
    stop: &AtomicBool,
    acknowledged: &Acknowledged,
) -> BTreeSet<String> {
    let mut done = BTreeSet::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let client = {
            let clients = clients.lock().expect("no writer panics with the lock");
            // Group commits keep the writers in step. If they changed the member with each request,
            // all of them could be connected to the writer when it is paused.
            clients[writer % clients.len()].clone()
        };
        let key = format!("w{writer}-{number}");
        match client.set(TABLE, &key).await {
            Reply::Answered(200, _) => {
                acknowledged.add(writer, number);
                done.insert(key);
            }
            // The member itself has failed, or is a paused writer that has lost its lease.
            Reply::Lost | Reply::Answered(500 | 503, _) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Reply::Answered(status, body) => panic!("{key}: {status} {body}"),
        }
    }
    done
}

async fn writer_of(members: &[Member]) -> usize {
    let since = Instant::now();
    loop {
        for (index, member) in members.iter().enumerate() {
            if member.is_writer().await == Some(true) {
                return index;
            }
        }
        assert!(since.elapsed() < TAKEOVER_MAX, "the cluster has no writer");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn has_all(loaded: &Value, acknowledged: &BTreeSet<String>) {
    let properties = &loaded["metadata"]["properties"];
    let lost: Vec<_> =
        acknowledged.iter().filter(|key| properties[key.as_str()].is_null()).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a bucket: make networks"]
async fn cluster_survives_failures_of_its_writer() {
    let data_dir = tempfile::tempdir().expect("there is room");
    let mut members: Vec<_> =
        (0..MEMBERS).map(|number| Member::start(data_dir.path(), number)).collect();
    let client = members[1].client.clone();
    client.create_namespace("ns").await.expect(200);
    client.create_table("ns", "t").await.expect(200);
    let log = data_dir.path().join("test-server.log");
    let load = Load::start(members.iter().map(|member| member.client.clone()).collect(), log);
    load.progress("the start").await;
    for round in 0..number_from_env("SLATEBERG_CLUSTER_ROUNDS", ROUNDS) {
        let failure = [Failure::Kill, Failure::Pause, Failure::Stop][round as usize % 3];
        let failed = members.remove(writer_of(&members).await);
        load.use_members(&members);
        let what = format!("round {round}: {failure:?}");
        match failure {
            Failure::Kill => failed.server.kill(),
            Failure::Pause => {
                failed.signal("-STOP");
                let takeover = load.progress(&what).await;
                eprintln!("{what}: the next change is acknowledged after {takeover:?}");
                let newer = format!("after-{round}");
                members[0].client.set(TABLE, &newer).await.expect(200);
                failed.signal("-CONT");
                // The paused process still has the state of before in its memory.
                let loaded = failed.client.get(TABLE).await;
                if let Reply::Answered(200, loaded) = &loaded {
                    has_all(loaded, &BTreeSet::from([newer]));
                }
                assert!(matches!(loaded, Reply::Answered(200 | 503, _)), "{what}: {loaded:?}");
                failed.server.kill();
            }
            Failure::Stop => {
                assert_eq!(failed.stop().await, Some(0), "{what}");
            }
        }
        let takeover = load.progress(&what).await;
        eprintln!("{what}: the next change is acknowledged after {takeover:?}");
        members.push(Member::start(data_dir.path(), MEMBERS + round as usize));
        load.use_members(&members);
    }
    let acknowledged = load.stop().await;
    eprintln!("{} changes were acknowledged", acknowledged.len());
    for member in &members {
        has_all(&member.client.load(TABLE).await, &acknowledged);
    }
    for member in members {
        assert_eq!(member.stop().await, Some(0), "a member stops in order");
    }
    assert_sound(data_dir.path(), "after the last stop");
}

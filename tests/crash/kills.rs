//! Kills servers with `kill -9` at random moments under load, repeatedly on one directory or
//! bucket.
//!
//! `SLATEBERG_CRASH_ROUNDS` sets the number of rounds. `SLATEBERG_CRASH_SEED` repeats the choices
//! of a run, but not its timing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::Value;

use crate::client::Client;
use crate::server::{Server, assert_sound};
use crate::support::bucket::read_location;
use crate::support::env_numbers::{number_from_env, seed};
use crate::workload::{Expectation, RoundNames, WORKERS, Worker};

/// Default number of kills.
const ROUNDS: u64 = 20;
/// Time from the start of the load until the kill, in milliseconds.
const KILL_AFTER_MS: std::ops::Range<u64> = 20..300;
/// Time until the kill of a server that only starts, in milliseconds.
const KILL_START_AFTER_MS: std::ops::Range<u64> = 0..60;

/// Tables as loaded by a client, by path.
type Loaded = BTreeMap<String, Value>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_changes_survive_kills_and_all_changes_are_atomic() {
    let rounds = number_from_env("SLATEBERG_CRASH_ROUNDS", ROUNDS);
    let seed = seed("SLATEBERG_CRASH_SEED");
    eprintln!("seed {seed}, {rounds} rounds");
    let mut rng = StdRng::seed_from_u64(seed);
    let data_dir = tempfile::tempdir().expect("there is room");
    let mut locations = BTreeMap::new();
    let (mut acknowledged, mut in_doubt) = (0, 0);
    let since = Instant::now();
    for round in 0..rounds {
        let what = format!("in round {round} of seed {seed}");
        let names = RoundNames::of_round(round);
        let journal = load_and_kill(data_dir.path(), &names, &mut rng).await;
        assert_sound(data_dir.path(), &format!("after the kill {what}"));
        if rng.random_bool(0.3) {
            Server::start_and_kill(data_dir.path(), delay(KILL_START_AFTER_MS, &mut rng));
        }
        let server = Server::start(data_dir.path());
        let client = Client::of(&server.uri);
        let check = Check::of(&client, &journal).await;
        check.all(&client, &journal, &what).await;
        locations.extend(retry(&client, &journal, &what).await);
        acknowledged += journal.iter().filter(|it| it.is_acknowledged()).count();
        in_doubt += journal.iter().filter(|it| !it.is_acknowledged()).count();
        server.kill();
        assert_sound(data_dir.path(), &format!("after the check {what}"));
    }
    let server = Server::start(data_dir.path());
    let client = Client::of(&server.uri);
    for (table, location) in &locations {
        let loaded = client.load(table).await;
        assert_eq!(&loaded["metadata-location"], location, "{table} has changed since its round");
        assert_published(&loaded, "at the end").await;
    }
    server.terminate();
    assert_eq!(server.wait_for_exit().code(), Some(0), "seed {seed}");
    assert_sound(data_dir.path(), &format!("at the end of seed {seed}"));
    eprintln!(
        "seed {seed}: {rounds} kills, {acknowledged} acknowledged changes, {in_doubt} in doubt, \
         {} tables, {:?}",
        locations.len(),
        since.elapsed()
    );
    assert!(acknowledged as u64 > rounds * 10, "too few acknowledged changes before the kills");
}

fn delay(range_ms: std::ops::Range<u64>, rng: &mut StdRng) -> Duration {
    Duration::from_millis(rng.random_range(range_ms))
}

/// Runs the load of one round and kills the server in the middle.
async fn load_and_kill(data_dir: &Path, names: &RoundNames, rng: &mut StdRng) -> Vec<Expectation> {
    let server = Server::start(data_dir);
    let client = Client::of(&server.uri);
    client.create_namespace(&names.namespace).await.expect(200);
    client.create_namespace(&names.attic).await.expect(200);
    let tables = RoundNames::tables();
    let created = join_all(tables.iter().map(|it| client.create_table(&names.namespace, it))).await;
    created.into_iter().for_each(|it| drop(it.expect(200)));
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let worker = Worker::new(number, names.clone(), client.clone(), rng.random());
            tokio::spawn(worker.run())
        })
        .collect();
    tokio::time::sleep(delay(KILL_AFTER_MS, rng)).await;
    server.kill();
    let mut journal = Vec::new();
    for worker in workers {
        journal.extend(worker.await.expect("the worker got only expected responses"));
    }
    journal
}

/// Repeats every request with an `Idempotency-Key` twice. Returns the metadata location of every
/// table of the round that still exists.
async fn retry(client: &Client, journal: &[Expectation], what: &str) -> BTreeMap<String, Value> {
    for _ in 0..2 {
        for expectation in journal {
            let Expectation::Retry { path, body, key } = expectation else { continue };
            let reply = client.send(Method::POST, path, body, Some(*key)).await;
            assert!(reply.is_acknowledged(), "{what}: retry of {path}: {reply:?}, {body}");
        }
    }
    let check = Check::of(client, journal).await;
    for expectation in journal {
        let Expectation::Retry { path, body, .. } = expectation else { continue };
        check.snapshots_are_unique(path, body, what);
    }
    let location = |(table, loaded): (String, Value)| (table, loaded["metadata-location"].clone());
    check.loaded.into_iter().map(location).collect()
}

impl Expectation {
    fn is_acknowledged(&self) -> bool {
        match self {
            Self::Property { acknowledged, .. }
            | Self::NamespaceProperties { acknowledged, .. }
            | Self::Snapshot { acknowledged, .. } => *acknowledged,
            Self::ExistsAtOne { possible, .. } => possible.len() == 1,
            Self::Retry { .. } => true,
        }
    }

    /// Returns the tables that must exist for this expectation.
    fn tables(&self) -> Vec<String> {
        match self {
            Self::Property { tables, .. } => tables.clone(),
            Self::Snapshot { table, .. } => vec![table.clone()],
            Self::Retry { path, .. } if path.contains("/tables/") => vec![path.clone()],
            _ => Vec::new(),
        }
    }
}

/// The tables of a journal on a restarted server.
struct Check {
    loaded: Loaded,
}

impl Check {
    async fn of(client: &Client, journal: &[Expectation]) -> Self {
        let mut loaded = Loaded::new();
        for table in journal.iter().flat_map(Expectation::tables).collect::<BTreeSet<_>>() {
            let response = client.load(&table).await;
            loaded.insert(table, response);
        }
        Self { loaded }
    }

    /// Asserts all expectations.
    async fn all(&self, client: &Client, journal: &[Expectation], what: &str) {
        for loaded in self.loaded.values() {
            assert_published(loaded, what).await;
        }
        for expectation in journal {
            match expectation {
                Expectation::Property { tables, key, acknowledged } => {
                    let has = |table: &String| !self.metadata(table)["properties"][key].is_null();
                    let having = tables.iter().filter(|table| has(table)).count();
                    assert!(
                        having == tables.len() || (!acknowledged && having == 0),
                        "{what}: {having} tables have the property of {expectation:?}"
                    );
                }
                Expectation::Snapshot { table, id, acknowledged } => {
                    let found = self.snapshot_ids(table).contains(id);
                    assert!(found || !acknowledged, "{what}: {expectation:?} is lost");
                }
                Expectation::NamespaceProperties { namespace, keys, acknowledged } => {
                    let loaded = client.get(namespace).await.expect(200);
                    let has = |key: &&String| !loaded["properties"][*key].is_null();
                    let having = keys.iter().filter(has).count();
                    assert!(
                        having == keys.len() || (!acknowledged && having == 0),
                        "{what}: {having} properties exist of {expectation:?}"
                    );
                }
                Expectation::ExistsAtOne { possible, paths } => {
                    let mut at = Vec::new();
                    for names in paths {
                        if client.exists(names).await {
                            assert_published(&client.load(names).await, what).await;
                            at.push(names.clone());
                        }
                    }
                    assert!(at.len() <= 1, "{what}: {expectation:?} is at {at:?}");
                    let at = at.pop();
                    assert!(possible.contains(&at), "{what}: {expectation:?} is at {at:?}");
                }
                Expectation::Retry { .. } => {}
            }
        }
    }

    /// Asserts that a retried append exists once, and that the main branch is one unbroken line.
    fn snapshots_are_unique(&self, table: &str, body: &Value, what: &str) {
        let Some(id) = body["updates"][0]["snapshot"]["snapshot-id"].as_i64() else { return };
        let ids = self.snapshot_ids(table);
        let found = ids.iter().filter(|it| **it == id).count();
        assert_eq!(found, 1, "{what}: {table} holds snapshot {id} {found} times");
        let snapshots = self.metadata(table)["snapshots"].as_array().expect("there are some");
        for (at, snapshot) in snapshots.iter().enumerate() {
            let parent = snapshot["parent-snapshot-id"].as_i64();
            assert_eq!(parent, at.checked_sub(1).map(|before| ids[before]), "{what}: {table}");
        }
    }

    fn metadata(&self, table: &str) -> &Value {
        &self.loaded[table]["metadata"]
    }

    fn snapshot_ids(&self, table: &str) -> Vec<i64> {
        let snapshots = self.metadata(table)["snapshots"].as_array();
        let ids = snapshots.into_iter().flatten().map(|it| it["snapshot-id"].as_i64());
        ids.collect::<Option<_>>().expect("snapshots have ids")
    }
}

/// Asserts that a table's metadata file exists with the content that the server returns.
async fn assert_published(loaded: &Value, what: &str) {
    let location = loaded["metadata-location"].as_str().expect("it is not staged");
    let text = read_location(location).await;
    let text = text.unwrap_or_else(|error| panic!("{what}: {location}: {error}"));
    let file: Value = serde_json::from_slice(&text).expect("metadata files hold JSON");
    assert_eq!(file, loaded["metadata"], "{what}: {location} differs from its record");
}

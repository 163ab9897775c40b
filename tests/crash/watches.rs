//! Watchers of the change feed under `kill -9`: the events that a watcher has received lead to
//! exactly the tables that the server lists, however often the server and the watcher die.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::client::{Client, Reply};
use crate::server::{Server, assert_sound};
use crate::support::env_numbers::{number_from_env, seed};
use crate::workload::{RoundNames, WORKERS, Worker};

/// Default number of kills.
const ROUNDS: u64 = 10;
const WATCHERS: usize = 3;
const WATCH: &str = "../management/v1/watch";
/// Time from the start of the load until the kill, in milliseconds.
const KILL_AFTER_MS: std::ops::Range<u64> = 20..250;

/// The metadata locations of all tables, by namespace and name.
pub(crate) type Tables = BTreeMap<String, String>;

/// A client that follows all changes, and can die like the server.
#[derive(Debug, Clone)]
struct Watcher {
    after: String,
    events: Vec<Value>,
    /// The position and the number of events that survive the death of the watcher.
    saved: (String, usize),
}

impl Watcher {
    fn from_the_oldest_change() -> Self {
        Self { after: "oldest".to_owned(), events: Vec::new(), saved: ("oldest".to_owned(), 0) }
    }

    /// Receives one response. Returns whether it contains all events up to the present. `None` if
    /// the server is gone.
    async fn poll(&mut self, client: &Client, wait: u64, max: u64) -> Option<bool> {
        let path = format!("{WATCH}?after={}&wait={wait}&max={max}", self.after);
        let body = match client.get(&path).await {
            Reply::Lost => return None,
            reply => reply.expect(200),
        };
        let events = body["events"].as_array().expect("a list");
        assert_complete_groups(events);
        self.events.extend(events.iter().cloned());
        self.after = body["next"].as_str().expect("a position").to_owned();
        Some(body["caught-up"] == true)
    }

    /// Follows the changes until the server is gone. Saves its progress at random, and dies at
    /// random.
    async fn follow(mut self, client: Client, mut rng: StdRng) -> Self {
        while self.poll(&client, 5, rng.random_range(1..50)).await.is_some() {
            if rng.random_bool(0.3) {
                self.saved = (self.after.clone(), self.events.len());
            } else if rng.random_bool(0.1) {
                (self.after, _) = self.saved.clone();
                self.events.truncate(self.saved.1);
            }
        }
        self
    }

    async fn catch_up(&mut self, client: &Client) {
        while !self.poll(client, 0, 1000).await.expect("the server lives") {}
    }

    /// Returns the tables that exist after all events.
    fn tables(&self) -> Tables {
        let mut by_id: BTreeMap<String, (String, String)> = BTreeMap::new();
        for event in self.events.iter().filter(|event| event["resource"]["kind"] == "table") {
            let id = event["resource"]["id"].as_str().expect("an id").to_owned();
            let name = name_of(&event["resource"]);
            let location = event["after"]["metadata-location"].as_str().map(ToOwned::to_owned);
            match event["type"].as_str().expect("a type") {
                "table.created" => {
                    let before = by_id.insert(id, (name, location.expect("a new table has one")));
                    assert_eq!(before, None, "created twice: {event}");
                }
                "table.committed" => {
                    let table = by_id.get_mut(&id).expect("the table exists");
                    let location = location.expect("a commit has one");
                    // All events of a group commit have the same version before and after the
                    // commit.
                    let continues = event["before"]["metadata-location"] == table.1;
                    assert!(continues || location == table.1, "a gap after {}: {event}", table.1);
                    table.1 = location;
                }
                "table.renamed" => {
                    let table = by_id.get_mut(&id).expect("the table exists");
                    assert_eq!(name_of(&event["before"]), table.0, "a gap: {event}");
                    table.0 = name;
                }
                "table.dropped" => {
                    by_id.remove(&id).expect("the table exists");
                }
                other => panic!("unexpected event {other}"),
            }
        }
        by_id.into_values().collect()
    }
}

pub(crate) fn name_of(resource: &Value) -> String {
    let levels = resource["namespace"].as_array().into_iter().flatten();
    let levels = levels.chain([&resource["name"]]).map(|level| level.as_str().expect("a name"));
    levels.collect::<Vec<_>>().join(".")
}

/// Asserts that all events of a transaction are in the same response: only the last event of a
/// transaction has a position.
pub(crate) fn assert_complete_groups(events: &[Value]) {
    if let Some(last) = events.last() {
        assert!(last["position"].is_string(), "a response ends within a transaction: {events:?}");
    }
}

/// Lists all tables of a server, and loads each one.
async fn listed(client: &Client) -> Tables {
    let mut tables = Tables::new();
    let namespaces = client.get("namespaces").await.expect(200);
    for namespace in namespaces["namespaces"].as_array().expect("a list") {
        let namespace = namespace[0].as_str().expect("a level");
        let path = format!("namespaces/{namespace}/tables");
        let body = client.get(&path).await.expect(200);
        for ident in body["identifiers"].as_array().expect("a list") {
            let name = ident["name"].as_str().expect("a name");
            let loaded = client.load(&format!("{path}/{name}")).await;
            let location = loaded["metadata-location"].as_str().expect("a location");
            tables.insert(format!("{namespace}.{name}"), location.to_owned());
        }
    }
    tables
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_each_watcher_add_up_to_the_listing_after_kills() {
    let rounds = number_from_env("SLATEBERG_CRASH_ROUNDS", ROUNDS);
    let seed = seed("SLATEBERG_CRASH_SEED");
    let mut rng = StdRng::seed_from_u64(seed);
    let data_dir = tempfile::tempdir().expect("there is room");
    let mut watchers = vec![Watcher::from_the_oldest_change(); WATCHERS];
    for round in 0..rounds {
        let server = Server::start(data_dir.path());
        let client = Client::of(&server.uri);
        let names = RoundNames::of_round(round);
        client.create_namespace(&names.namespace).await.expect(200);
        client.create_namespace(&names.attic).await.expect(200);
        for table in RoundNames::tables() {
            client.create_table(&names.namespace, &table).await.expect(200);
        }
        let workers = (0..WORKERS)
            .map(|number| Worker::new(number, names.clone(), client.clone(), rng.random()));
        let workers: Vec<_> = workers.map(|worker| tokio::spawn(worker.run())).collect();
        let following = watchers.into_iter().map(|watcher| {
            tokio::spawn(watcher.follow(client.clone(), StdRng::seed_from_u64(rng.random())))
        });
        let following: Vec<_> = following.collect();
        tokio::time::sleep(Duration::from_millis(rng.random_range(KILL_AFTER_MS))).await;
        server.kill();
        join_all(workers).await;
        let following = join_all(following).await;
        watchers = following.into_iter().map(|it| it.expect("the watcher ends")).collect();
        assert_sound(data_dir.path(), &format!("after round {round} of seed {seed}"));
        check(data_dir.path(), &mut watchers, &format!("round {round} of seed {seed}")).await;
    }
    let events = watchers[0].events.len();
    eprintln!("seed {seed}: {rounds} kills, {events} events for each of {WATCHERS} watchers");
    assert!(events as u64 > rounds * 20, "too few events before the kills: {events}");
}

/// Restarts the server, and compares the events of all watchers with its listing.
async fn check(data_dir: &std::path::Path, watchers: &mut [Watcher], what: &str) {
    let server = Server::start(data_dir);
    let client = Client::of(&server.uri);
    let expected = listed(&client).await;
    let mut all = Watcher::from_the_oldest_change();
    all.catch_up(&client).await;
    for watcher in watchers {
        watcher.catch_up(&client).await;
        assert_eq!(watcher.tables(), expected, "{what}");
        // The watcher has received exactly the events in the log, without a gap or a repetition.
        assert!(watcher.events == all.events, "the events of a watcher differ in {what}");
    }
    server.terminate();
    assert_eq!(server.wait_for_exit().code(), Some(0), "{what}");
}

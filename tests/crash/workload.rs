//! Requests that clients send until the server is killed, and their expectations for the state
//! afterwards.
//!
//! Every worker continues until its server dies, and records its expectations. An acknowledged
//! request has taken effect. A request that was lost with the server has taken effect entirely or
//! not at all.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Client, Reply};
use crate::support::table::{append, create_table, main_is, set_property};

/// An expectation for the state after a crash.
#[derive(Debug, Clone)]
pub enum Expectation {
    /// All of these tables have this property or, if it was not acknowledged, possibly none of
    /// them.
    Property {
        /// Paths of the tables.
        tables: Vec<String>,
        /// The property.
        key: String,
        /// Whether the server acknowledged it.
        acknowledged: bool,
    },
    /// The namespace has all of these properties or, if they were not acknowledged, possibly none
    /// of them.
    NamespaceProperties {
        /// Path of the namespace.
        namespace: String,
        /// The properties.
        keys: [String; 2],
        /// Whether the server acknowledged them.
        acknowledged: bool,
    },
    /// The table's main branch contains this snapshot, or possibly not if it was not acknowledged.
    Snapshot {
        /// Path of the table.
        table: String,
        /// The snapshot.
        id: i64,
        /// Whether the server acknowledged it.
        acknowledged: bool,
    },
    /// The table is at exactly one of the possible paths, and at no other of its paths. The path
    /// `None` means that the table does not exist.
    ExistsAtOne {
        /// The possible paths.
        possible: Vec<Option<String>>,
        /// All paths that the table may have had.
        paths: Vec<String>,
    },
    /// The request, repeated with its key, succeeds: it is applied exactly once.
    Retry {
        /// Path of the request.
        path: String,
        /// Its body.
        body: Value,
        /// Its `Idempotency-Key`.
        key: Uuid,
    },
}

/// The names of one round.
#[derive(Debug, Clone)]
pub struct RoundNames {
    /// The round's namespace.
    pub namespace: String,
    /// Another namespace, to which tables are moved.
    pub attic: String,
}

/// Number of tables that three workers share, so that their commits compete.
pub const HOT: usize = 2;
/// Number of additional tables.
pub const MANY: usize = 6;

impl RoundNames {
    /// Returns the names of this round.
    pub fn of_round(round: u64) -> Self {
        Self { namespace: format!("r{round}"), attic: format!("r{round}-attic") }
    }

    /// Returns the tables that exist before the load begins.
    pub fn tables() -> Vec<String> {
        let hot = (0..HOT).map(|table| format!("hot{table}"));
        let many = (0..MANY).map(|table| format!("many{table}"));
        let own = (0..WORKERS).map(|worker| format!("own{worker}")).skip(WITH_KEY);
        hot.chain(many).chain(own).chain(["log".to_owned()]).collect()
    }

    fn table(&self, name: &str) -> String {
        format!("namespaces/{}/tables/{name}", self.namespace)
    }
}

/// A client under load.
pub struct Worker {
    /// Its number, which makes its names unique.
    pub number: usize,
    /// The names of its round.
    pub names: RoundNames,
    /// Its connection to the server.
    pub client: Client,
    rng: StdRng,
    journal: Vec<Expectation>,
}

/// Number of workers in each round.
pub const WORKERS: usize = 14;
/// Number of the first worker that sends an `Idempotency-Key` with each request. This worker and
/// all later ones append to tables of their own, so that no other worker can cause the rejection of
/// a retry.
const WITH_KEY: usize = 12;

impl Worker {
    /// Returns the worker with this number.
    pub fn new(number: usize, names: RoundNames, client: Client, seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed ^ (number as u64) << 32);
        Self { number, names, client, rng, journal: Vec::new() }
    }

    /// Works until the server is gone, and returns the expectations.
    pub async fn run(mut self) -> Vec<Expectation> {
        let mut step = 0;
        while self.step(step).await {
            step += 1;
        }
        self.journal
    }

    /// Sends the requests of one step. Returns `false` if the server is gone.
    async fn step(&mut self, step: usize) -> bool {
        match self.number {
            0..3 => self.set(vec![format!("hot{}", step % HOT)], step).await,
            3..5 => self.set(vec![format!("many{}", step % MANY)], step).await,
            5..7 => self.transact(step).await,
            7..9 => self.append(step).await,
            9..11 => self.move_about(step).await,
            11 => self.describe(step).await,
            WITH_KEY.. => self.with_key(step).await,
        }
    }

    fn key(&self, step: usize) -> String {
        format!("w{}-{step}", self.number)
    }

    async fn set(&mut self, tables: Vec<String>, step: usize) -> bool {
        let key = self.key(step);
        let table = self.names.table(&tables[0]);
        let done = self.client.set(&table, &key).await.done_or(&[]);
        self.journal.push(Expectation::Property {
            tables: vec![table],
            key,
            acknowledged: done.is_some(),
        });
        done.is_some()
    }

    async fn transact(&mut self, step: usize) -> bool {
        let key = self.key(step);
        let names = ["hot0", "many0", "hot1"];
        let change = |name: &str| {
            json!({
                "identifier": { "namespace": [self.names.namespace], "name": name },
                "requirements": [], "updates": [set_property(&key, "yes")],
            })
        };
        let body = json!({ "table-changes": names.map(change) });
        let done = self.client.post("transactions/commit", &body).await.done_or(&[]);
        let tables = names.map(|name| self.names.table(name)).to_vec();
        let acknowledged = done.is_some();
        self.journal.push(Expectation::Property { tables, key, acknowledged });
        acknowledged
    }

    /// Appends like a client: on top of the loaded state. If the table has changed, the next step
    /// tries again.
    async fn append(&mut self, _step: usize) -> bool {
        let table = self.names.table("log");
        let Reply::Answered(200, loaded) = self.client.get(&table).await else { return false };
        let (id, body) = next_append(&loaded, &mut self.rng);
        match self.client.post(&table, &body).await.done_or(&[409]) {
            Some(true) => {
                self.journal.push(Expectation::Snapshot { table, id, acknowledged: true })
            }
            Some(false) => {}
            None => {
                self.journal.push(Expectation::Snapshot { table, id, acknowledged: false });
                return false;
            }
        }
        true
    }

    /// Creates a table, moves it to another namespace, and possibly drops it.
    async fn move_about(&mut self, step: usize) -> bool {
        let name = self.key(step);
        let (here, there) = (self.names.namespace.clone(), self.names.attic.clone());
        let at_first = self.names.table(&name);
        let at_last = format!("namespaces/{there}/tables/{name}");
        let rename = json!({
            "source": { "namespace": [here], "name": name },
            "destination": { "namespace": [there], "name": name },
        });
        let mut at = None;
        let mut alive = true;
        let mut possible = Vec::new();
        for stage in 0..self.rng.random_range(1..=3) {
            let (reply, next) = match stage {
                0 => (self.client.create_table(&here, &name).await, Some(at_first.clone())),
                1 => (self.client.post("tables/rename", &rename).await, Some(at_last.clone())),
                _ => (self.client.send(Method::DELETE, &at_last, &Value::Null, None).await, None),
            };
            if reply.done_or(&[]).is_none() {
                possible = vec![at.clone(), next];
                alive = false;
                break;
            }
            at = next;
            possible = vec![at.clone()];
        }
        self.journal.push(Expectation::ExistsAtOne { possible, paths: vec![at_first, at_last] });
        alive
    }

    async fn describe(&mut self, step: usize) -> bool {
        let keys = [format!("{}-a", self.key(step)), format!("{}-b", self.key(step))];
        let namespace = format!("namespaces/{}", self.names.namespace);
        let body = json!({ "updates": { &keys[0]: "yes", &keys[1]: "yes" } });
        let reply = self.client.post(&format!("{namespace}/properties"), &body).await;
        let acknowledged = reply.done_or(&[]).is_some();
        self.journal.push(Expectation::NamespaceProperties { namespace, keys, acknowledged });
        acknowledged
    }

    /// Sends a request with an `Idempotency-Key` that would fail if it were applied twice.
    async fn with_key(&mut self, step: usize) -> bool {
        let name = self.key(step);
        let (path, body) = match self.rng.random_range(0..3) {
            0 => {
                let tables = format!("namespaces/{}/tables", self.names.namespace);
                (tables, create_table(&name))
            }
            1 => {
                let levels = [self.names.namespace.as_str(), name.as_str()];
                ("namespaces".to_owned(), json!({ "namespace": levels }))
            }
            _ => {
                let table = self.names.table(&format!("own{}", self.number));
                let Reply::Answered(200, loaded) = self.client.get(&table).await else {
                    return false;
                };
                (table, next_append(&loaded, &mut self.rng).1)
            }
        };
        let key = Uuid::from_u128(self.rng.random());
        let done = self.client.send(Method::POST, &path, &body, Some(key)).await.done_or(&[]);
        self.journal.push(Expectation::Retry { path, body, key });
        done.is_some()
    }
}

/// Returns a new snapshot on top of the loaded state, and the commit that appends it.
fn next_append(loaded: &Value, rng: &mut StdRng) -> (i64, Value) {
    let metadata = &loaded["metadata"];
    let parent = metadata["refs"]["main"]["snapshot-id"].as_i64();
    let sequence_number = metadata["last-sequence-number"].as_i64().expect("it has one") + 1;
    let id = rng.random_range(1..i64::MAX);
    let updates = append(id, parent, sequence_number);
    (id, json!({ "requirements": [main_is(parent)], "updates": updates }))
}

//! What clients do while the server is killed under them, and what each of them may expect afterwards.
//!
//! Every worker goes on until its server dies, and writes down what has to hold from then on. A request
//! that was acknowledged has happened; the one that was lost with the server has happened or not, but
//! never by half.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Client, Reply};
use crate::support::table::{append, create_table, main_is, set_property};

/// Something that has to hold after a crash.
#[derive(Debug, Clone)]
pub enum Expectation {
    /// All of these tables have this property or, if that was not acknowledged, none of them.
    Property {
        /// Paths of the tables.
        tables: Vec<String>,
        /// The property.
        key: String,
        /// Whether the server said so.
        acknowledged: bool,
    },
    /// The namespace has all of these properties or, if that was not acknowledged, none of them.
    NamespaceProperties {
        /// Path of the namespace.
        namespace: String,
        /// The properties.
        keys: [String; 2],
        /// Whether the server said so.
        acknowledged: bool,
    },
    /// The table's main branch holds this snapshot; it may, if that was not acknowledged.
    Snapshot {
        /// Path of the table.
        table: String,
        /// The snapshot.
        id: i64,
        /// Whether the server said so.
        acknowledged: bool,
    },
    /// The table is at exactly one of these places, none being nowhere, and at no other of its places.
    Place {
        /// Where it may be.
        possible: Vec<Option<String>>,
        /// Where it could ever have been.
        places: Vec<String>,
    },
    /// The request, sent again with its key, is answered well: it is applied exactly once.
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
pub struct Place {
    /// The round's namespace.
    pub namespace: String,
    /// Another one, to move tables into.
    pub attic: String,
}

/// Tables that few workers share.
pub const HOT: usize = 2;
/// Tables that are there so that there are many.
pub const MANY: usize = 6;

impl Place {
    /// The names of this round.
    pub fn of_round(round: u64) -> Self {
        Self { namespace: format!("r{round}"), attic: format!("r{round}-attic") }
    }

    /// Tables that are there before the load begins.
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

/// One client under load.
pub struct Worker {
    /// Its number, which makes its names its own.
    pub number: usize,
    /// Where it works.
    pub place: Place,
    /// How it speaks to the server.
    pub client: Client,
    rng: StdRng,
    journal: Vec<Expectation>,
}

/// Workers of each round.
pub const WORKERS: usize = 14;
/// The first of those that send an `Idempotency-Key` with each request. Each of them appends to a table
/// of its own, so that nobody else can be the reason why a retry is refused.
const WITH_KEY: usize = 12;

impl Worker {
    /// The worker of this number.
    pub fn new(number: usize, place: Place, client: Client, seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed ^ (number as u64) << 32);
        Self { number, place, client, rng, journal: Vec::new() }
    }

    /// Works until the server is gone, and tells what has to hold now.
    pub async fn run(mut self) -> Vec<Expectation> {
        let mut step = 0;
        while self.step(step).await {
            step += 1;
        }
        self.journal
    }

    /// Does one thing. False if the server is gone.
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
        let table = self.place.table(&tables[0]);
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
                "identifier": { "namespace": [self.place.namespace], "name": name },
                "requirements": [], "updates": [set_property(&key, "yes")],
            })
        };
        let body = json!({ "table-changes": names.map(change) });
        let done = self.client.post("transactions/commit", &body).await.done_or(&[]);
        let tables = names.map(|name| self.place.table(name)).to_vec();
        let acknowledged = done.is_some();
        self.journal.push(Expectation::Property { tables, key, acknowledged });
        acknowledged
    }

    /// Appends as a client does: on top of what it has read, and again from the start if that has moved.
    async fn append(&mut self, _step: usize) -> bool {
        let table = self.place.table("log");
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

    /// Makes a table, moves it to another namespace, and drops it or not.
    async fn move_about(&mut self, step: usize) -> bool {
        let name = self.key(step);
        let (here, there) = (self.place.namespace.clone(), self.place.attic.clone());
        let at_first = self.place.table(&name);
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
        self.journal.push(Expectation::Place { possible, places: vec![at_first, at_last] });
        alive
    }

    async fn describe(&mut self, step: usize) -> bool {
        let keys = [format!("{}-a", self.key(step)), format!("{}-b", self.key(step))];
        let namespace = format!("namespaces/{}", self.place.namespace);
        let body = json!({ "updates": { &keys[0]: "yes", &keys[1]: "yes" } });
        let reply = self.client.post(&format!("{namespace}/properties"), &body).await;
        let acknowledged = reply.done_or(&[]).is_some();
        self.journal.push(Expectation::NamespaceProperties { namespace, keys, acknowledged });
        acknowledged
    }

    /// Does something with an `Idempotency-Key` that could not be done twice.
    async fn with_key(&mut self, step: usize) -> bool {
        let name = self.key(step);
        let (path, body) = match self.rng.random_range(0..3) {
            0 => {
                let tables = format!("namespaces/{}/tables", self.place.namespace);
                (tables, create_table(&name))
            }
            1 => {
                let levels = [self.place.namespace.as_str(), name.as_str()];
                ("namespaces".to_owned(), json!({ "namespace": levels }))
            }
            _ => {
                let table = self.place.table(&format!("own{}", self.number));
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

/// A new snapshot on top of what was loaded, and the commit that appends it.
fn next_append(loaded: &Value, rng: &mut StdRng) -> (i64, Value) {
    let metadata = &loaded["metadata"];
    let parent = metadata["refs"]["main"]["snapshot-id"].as_i64();
    let sequence_number = metadata["last-sequence-number"].as_i64().expect("it has one") + 1;
    let id = rng.random_range(1..i64::MAX);
    let updates = append(id, parent, sequence_number);
    (id, json!({ "requirements": [main_is(parent)], "updates": updates }))
}

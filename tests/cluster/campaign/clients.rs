//! Clients that use all members: they change tables, read, and create and drop tables with files.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object_store::ObjectStore;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use reqwest::{Client as HttpClient, Method};
use serde_json::{Value as Json, json};

use super::files::{TableFiles, is_missing};
use super::history::{History, Op, Value};
use crate::support::table::create_table;

/// Members of a cluster.
pub const MEMBERS: usize = 3;
/// Tables that are never dropped.
pub const TABLES: [&str; 2] = ["r0", "r1"];
/// Property that all writers change.
const SHARED: &str = "shared";
const WRITERS: usize = 3;
const READERS: usize = 2;
const CREATORS: usize = 2;
/// Property of a created table with the number of the change that has created it.
const CREATED: &str = "created";
/// Pause of a client between two requests, in milliseconds.
const THINK_MS: std::ops::Range<u64> = 10..120;
/// Timeouts of a request. The short one is shorter than most failures.
const PATIENCE: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_secs(5), Duration::from_secs(5)];

/// The parts that all clients of a cluster share.
pub struct Scene {
    /// All operations.
    pub history: History,
    /// The bucket, without faults.
    pub bucket: Arc<dyn ObjectStore>,
    /// The namespace. Clusters have different namespaces: if a port is used again, a request can
    /// arrive at another cluster.
    pub namespace: String,
    /// The URLs of the members that run.
    endpoints: [Mutex<Option<String>>; MEMBERS],
    /// The time of the newest call through each member that has changed a table.
    changed: [AtomicU64; MEMBERS],
    /// The names of all tables that clients have created.
    names: Mutex<BTreeSet<String>>,
    /// The number of the next change.
    next: AtomicU64,
    is_stopped: AtomicBool,
    /// The outcomes of requests.
    counts: Arc<Counts>,
    http: HttpClient,
}

/// Numbers of requests of all clusters.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests with a response.
    pub responses: AtomicU64,
    /// Requests that were not executed.
    pub rejected: AtomicU64,
    /// Changes with an unknown outcome.
    pub unknown: AtomicU64,
    /// Purged tables.
    pub purged: AtomicU64,
}

/// The outcome of a request.
pub enum Reply {
    /// It succeeded.
    Done(Json),
    /// The table does not exist.
    NotFound,
    /// The table exists.
    Exists,
    /// It was not executed.
    NotExecuted,
    /// It may have been executed, or be executed later.
    Unknown,
}

impl Scene {
    /// Creates the parts for a cluster without members.
    pub fn new(
        bucket: Arc<dyn ObjectStore>,
        namespace: String,
        http: HttpClient,
        counts: Arc<Counts>,
    ) -> Arc<Self> {
        Arc::new(Self {
            history: History::default(),
            bucket,
            namespace,
            endpoints: Default::default(),
            changed: Default::default(),
            names: Mutex::default(),
            next: AtomicU64::new(1),
            is_stopped: AtomicBool::new(false),
            counts,
            http,
        })
    }

    /// Lets clients use a member, or no longer.
    pub fn set_endpoint(&self, member: usize, uri: Option<String>) {
        *self.endpoints[member].lock().unwrap_or_else(PoisonError::into_inner) = uri;
    }

    /// Asks all clients to end.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Whether a change was acknowledged through this member that was sent at this time or later.
    pub fn has_changed(&self, member: usize, since: u64) -> bool {
        self.changed[member].load(Ordering::SeqCst) >= since
    }

    /// Returns the path of a table, or of all tables.
    fn path(&self, table: &str) -> String {
        format!(
            "/v1/namespaces/{}/tables{}{table}",
            self.namespace,
            if table.is_empty() { "" } else { "/" }
        )
    }

    /// Sends a request to a member.
    pub async fn send(
        &self,
        member: usize,
        (method, path): (Method, &str),
        body: Option<&Json>,
        patience: Duration,
    ) -> Reply {
        let endpoint =
            self.endpoints[member].lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(uri) = endpoint else { return Reply::NotExecuted };
        let request = self.http.request(method, format!("{uri}{path}")).timeout(patience);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let reply = match request.send().await {
            Err(error) if error.is_connect() => Reply::NotExecuted,
            Err(_) => Reply::Unknown,
            Ok(response) => {
                let status = response.status().as_u16();
                match response.text().await {
                    Ok(body) => reply(path, status, &body),
                    Err(_) => Reply::Unknown,
                }
            }
        };
        let count = match reply {
            Reply::NotExecuted => &self.counts.rejected,
            Reply::Unknown => &self.counts.unknown,
            _ => &self.counts.responses,
        };
        count.fetch_add(1, Ordering::Relaxed);
        reply
    }

    /// Loads a table, and records the values of its registers. Returns the table.
    pub async fn load(&self, member: usize, table: &str, patience: Duration) -> Option<Json> {
        let called = self.history.call();
        let path = self.path(table);
        let reply = self.send(member, (Method::GET, &path), None, patience).await;
        let ops = match &reply {
            Reply::Done(loaded) if TABLES.contains(&table) => reads(table, loaded),
            Reply::Done(loaded) => {
                vec![(table.to_owned(), Op::Read(number(loaded, CREATED)))]
            }
            Reply::NotFound => vec![(table.to_owned(), Op::Read(None))],
            _ => Vec::new(),
        };
        self.history.end(called, true, ops);
        match reply {
            Reply::Done(loaded) => Some(loaded),
            _ => None,
        }
    }

    /// Lists the tables, and records which ones exist.
    async fn list(&self, member: usize, patience: Duration) {
        let names = self.names();
        let called = self.history.call();
        let path = self.path("");
        let reply = self.send(member, (Method::GET, &path), None, patience).await;
        let mut ops = Vec::new();
        if let Reply::Done(listing) = reply {
            assert!(listing["next-page-token"].is_null(), "{listing}");
            let found = listing["identifiers"].as_array().into_iter().flatten();
            let found: BTreeSet<_> = found.filter_map(|it| it["name"].as_str()).collect();
            assert!(TABLES.iter().all(|table| found.contains(table)), "{listing}");
            let exists = |name: String| {
                let op = Op::Exists(found.contains(name.as_str()));
                (name, op)
            };
            ops.extend(names.into_iter().map(exists));
        }
        self.history.end(called, true, ops);
    }

    /// Returns the names of all tables that clients have created.
    pub fn names(&self) -> BTreeSet<String> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the outcome of a response.
fn reply(path: &str, status: u16, body: &str) -> Reply {
    let json: Json = serde_json::from_str(body).unwrap_or_default();
    match (status, json["error"]["type"].as_str().unwrap_or_default()) {
        (200 | 202 | 204, _) => Reply::Done(json),
        (404, "NoSuchTableException") => Reply::NotFound,
        (409, "AlreadyExistsException") => Reply::Exists,
        (503 | 429, _) | (404, "NoSuchNamespaceException") | (409, "CommitFailedException") => {
            Reply::NotExecuted
        }
        (500 | 502 | 504, _) => Reply::Unknown,
        _ => panic!("{path}: {status} {body}"),
    }
}

fn property_of_writer(writer: usize) -> String {
    format!("w{writer}")
}

fn number(loaded: &Json, property: &str) -> Value {
    let value = loaded["metadata"]["properties"][property].as_str()?;
    Some(value.parse().expect("clients set numbers"))
}

/// Returns the reads of all registers of a table that is never dropped.
fn reads(table: &str, loaded: &Json) -> Vec<(String, Op)> {
    let properties = (0..WRITERS).map(property_of_writer).chain([SHARED.to_owned()]);
    let read = |property: String| {
        let op = Op::Read(number(loaded, &property));
        (format!("{table}.{property}"), op)
    };
    properties.map(read).collect()
}

/// The kind of a client.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Writer(usize),
    Reader,
    Creator(usize),
}

/// A client.
pub struct Client {
    scene: Arc<Scene>,
    kind: Kind,
    rng: StdRng,
}

impl Client {
    /// Returns all clients of a cluster.
    pub fn all(scene: &Arc<Scene>, rng: &mut StdRng) -> Vec<Self> {
        let writers = (0..WRITERS).map(Kind::Writer);
        let readers = (0..READERS).map(|_| Kind::Reader);
        let creators = (0..CREATORS).map(Kind::Creator);
        let kinds = writers.chain(readers).chain(creators);
        let client = |kind| {
            let rng = StdRng::seed_from_u64(rng.random());
            Self { scene: Arc::clone(scene), kind, rng }
        };
        kinds.map(client).collect()
    }

    /// Sends requests until the scene is stopped.
    pub async fn run(mut self) {
        let mut generation = 0;
        while !self.scene.is_stopped.load(Ordering::SeqCst) {
            match self.kind {
                Kind::Writer(writer) => self.write(writer).await,
                Kind::Reader => self.read().await,
                Kind::Creator(creator) => {
                    let name = format!("c{creator}-{generation}");
                    if !self.use_table(&name).await {
                        // A change of this table may still take effect.
                        generation += 1;
                    }
                }
            }
            self.think().await;
        }
    }

    async fn think(&mut self) {
        let ms = self.rng.random_range(THINK_MS);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn member(&mut self) -> usize {
        self.rng.random_range(0..MEMBERS)
    }

    fn patience(&mut self) -> Duration {
        *PATIENCE.choose(&mut self.rng).expect("there are some")
    }

    fn next(&self) -> u64 {
        self.scene.next.fetch_add(1, Ordering::SeqCst)
    }

    /// Sets two properties in one commit.
    async fn write(&mut self, writer: usize) {
        let (member, patience, value) = (self.member(), self.patience(), self.next());
        let table = *TABLES.choose(&mut self.rng).expect("there are some");
        let own = property_of_writer(writer);
        let updates = json!({ SHARED: value.to_string(), &own: value.to_string() });
        let updates = json!([{ "action": "set-properties", "updates": updates }]);
        let body = json!({ "requirements": [], "updates": updates });
        let scene = Arc::clone(&self.scene);
        let path = scene.path(table);
        let called = scene.history.call();
        let reply = scene.send(member, (Method::POST, &path), Some(&body), patience).await;
        let writes =
            [own.as_str(), SHARED].map(|name| (format!("{table}.{name}"), Op::Write(value)));
        match reply {
            Reply::Done(committed) => {
                // The response shows the table after this commit, or after later ones.
                let ops = writes.into_iter().chain(reads(table, &committed));
                scene.history.end(called, true, ops);
                scene.changed[member].fetch_max(called, Ordering::SeqCst);
            }
            Reply::Unknown => scene.history.end(called, false, writes),
            Reply::NotExecuted => scene.history.end(called, true, []),
            Reply::NotFound | Reply::Exists => panic!("the table {table} is lost"),
        }
    }

    async fn read(&mut self) {
        let (member, patience) = (self.member(), self.patience());
        match self.rng.random_range(0..10) {
            0 => self.scene.list(member, patience).await,
            1..4 => {
                let names: Vec<_> = self.scene.names().into_iter().collect();
                if let Some(name) = names.choose(&mut self.rng) {
                    self.scene.load(member, name, patience).await;
                }
            }
            _ => {
                let table = *TABLES.choose(&mut self.rng).expect("there are some");
                self.check_current(member, table, patience).await;
            }
        }
    }

    /// Loads a table. Its metadata file must exist, until the table has another one.
    async fn check_current(&mut self, member: usize, table: &str, patience: Duration) {
        let scene = Arc::clone(&self.scene);
        let Some(loaded) = scene.load(member, table, patience).await else { return };
        let location = &loaded["metadata-location"];
        let file = location.as_str().expect("a location");
        while is_missing(&scene.bucket, file).await && !scene.is_stopped.load(Ordering::SeqCst) {
            let member = self.member();
            if let Some(again) = scene.load(member, table, PATIENCE[1]).await {
                let is_lost = again["metadata-location"] == *location
                    && is_missing(&scene.bucket, file).await;
                assert!(!is_lost, "the metadata file of {table} does not exist: {file}");
                return;
            }
            self.think().await;
        }
    }

    /// Creates a table with files, checks that its files remain, and purges it. Returns `false` if the
    /// outcome of a change is unknown.
    async fn use_table(&mut self, name: &str) -> bool {
        let Some(created) = self.create(name).await else { return false };
        let Some(created) = created else { return true };
        let files = TableFiles::put(&self.scene.bucket, &created, self.next()).await;
        self.think().await;
        let has_files = self.append(name, &files).await;
        for _ in 0..self.rng.random_range(0..3) {
            self.think().await;
            let (member, patience) = (self.member(), self.patience());
            if let Some(loaded) = self.scene.load(member, name, patience).await {
                files.check(&self.scene.bucket, &loaded, has_files).await;
            }
        }
        self.purge(name).await
    }

    /// Creates a table. Returns `None` if the outcome is unknown, and `Some(None)` if it was not
    /// created.
    async fn create(&mut self, name: &str) -> Option<Option<Json>> {
        let (member, patience, value) = (self.member(), self.patience(), self.next());
        let scene = Arc::clone(&self.scene);
        scene.names.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        let mut body = create_table(name);
        body["properties"] = json!({ CREATED: value.to_string() });
        let path = scene.path("");
        let called = scene.history.call();
        let reply = scene.send(member, (Method::POST, &path), Some(&body), patience).await;
        let (is_known, op) = match &reply {
            Reply::Done(_) => (true, Some(Op::Create(value))),
            Reply::Exists => (true, Some(Op::Exists(true))),
            Reply::NotExecuted => (true, None),
            Reply::Unknown => (false, Some(Op::Create(value))),
            Reply::NotFound => panic!("{name}: 404"),
        };
        scene.history.end(called, is_known, op.map(|op| (name.to_owned(), op)));
        match reply {
            Reply::Done(created) => Some(Some(created)),
            _ => is_known.then_some(None),
        }
    }

    /// Appends the files to a table. Returns whether the table has them, if this is known.
    async fn append(&mut self, name: &str, files: &TableFiles) -> Option<bool> {
        let (member, patience) = (self.member(), self.patience());
        let body = files.append();
        let path = self.scene.path(name);
        let called = self.scene.history.call();
        let reply = self.scene.send(member, (Method::POST, &path), Some(&body), patience).await;
        let op = match &reply {
            Reply::Done(_) => Some(Op::Exists(true)),
            Reply::NotFound => Some(Op::Exists(false)),
            _ => None,
        };
        self.scene.history.end(called, true, op.map(|op| (name.to_owned(), op)));
        match reply {
            Reply::Done(_) => Some(true),
            Reply::NotExecuted => Some(false),
            _ => None,
        }
    }

    /// Drops a table with its files. Returns `false` if the outcome is unknown.
    async fn purge(&mut self, name: &str) -> bool {
        loop {
            let (member, patience) = (self.member(), self.patience());
            let path = format!("{}?purgeRequested=true", self.scene.path(name));
            let called = self.scene.history.call();
            let reply = self.scene.send(member, (Method::DELETE, &path), None, patience).await;
            let (is_known, op) = match reply {
                Reply::Done(_) => (true, Some(Op::Drop)),
                Reply::NotFound => (true, Some(Op::Exists(false))),
                Reply::NotExecuted => (true, None),
                Reply::Unknown => (false, Some(Op::Drop)),
                Reply::Exists => panic!("{name}: 409"),
            };
            self.scene.history.end(called, is_known, op.map(|op| (name.to_owned(), op)));
            if op.is_some() || self.scene.is_stopped.load(Ordering::SeqCst) {
                if let Some(Op::Drop) = op
                    && is_known
                {
                    self.scene.counts.purged.fetch_add(1, Ordering::Relaxed);
                }
                return is_known;
            }
            self.think().await;
        }
    }
}

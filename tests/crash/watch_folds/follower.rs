//! [`Follower`]: a client that lists the tables once, and then derives them from events.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::time::timeout;

use super::NAMESPACES;
use crate::support::app::{TestApp, TestResponse};
use crate::watches::{Tables, assert_complete_groups, name_of};

/// Time after which a follower gives up a request, and continues from its saved progress.
const RESPONSE_TIME: Duration = Duration::from_secs(5);
const WATCH: &str = "/management/v1/watch";
const POSITION: &str = "slateberg-position";

/// A table, as far as the follower knows it.
#[derive(Debug, Clone)]
struct Known {
    name: String,
    location: String,
    /// Whether the next commit must continue from the location. This is not the case as long as
    /// the table was loaded after the position of the listing: its first events then lead to a
    /// state that the follower knows already.
    exact: bool,
}

/// The progress of a follower.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// Position after which it continues. `None` if it has to list the tables first.
    after: Option<String>,
    /// The tables by UUID.
    tables: BTreeMap<String, Known>,
    /// The positions of all events since the listing.
    seen: HashSet<String>,
}

/// The server responded with 503.
#[derive(Debug)]
struct Unavailable;

/// A client that follows all changes that it may see.
pub struct Follower {
    key: String,
    progress: Progress,
    /// The progress that survives its death.
    saved: Progress,
    events: usize,
    listings: usize,
}

impl Follower {
    /// Returns a follower with this credential.
    pub fn new(key: &str) -> Self {
        let key = key.to_owned();
        let (progress, saved) = (Progress::default(), Progress::default());
        Self { key, progress, saved, events: 0, listings: 0 }
    }

    /// Returns its credential.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the number of events that it received.
    pub fn events(&self) -> usize {
        self.events
    }

    /// Returns the number of times that it listed the tables.
    pub fn listings(&self) -> usize {
        self.listings
    }

    /// Returns the tables that it derives from the events.
    pub fn tables(&self) -> Tables {
        let tables = self.progress.tables.values();
        tables.map(|it| (it.name.clone(), it.location.clone())).collect()
    }

    /// Follows the changes until `stop` is set. Saves its progress at random, and dies at random.
    pub async fn follow(
        mut self,
        app: Arc<TestApp>,
        stop: Arc<AtomicBool>,
        mut rng: StdRng,
    ) -> Self {
        while !stop.load(Ordering::Relaxed) {
            let step = self.step(&app, rng.random_range(1..20));
            if timeout(RESPONSE_TIME, step).await.is_err() {
                // A read of a killed server can hang.
                self.progress = self.saved.clone();
            }
            if rng.random_bool(0.3) {
                self.saved = self.progress.clone();
            } else if rng.random_bool(0.1) {
                self.progress = self.saved.clone();
            }
            tokio::time::sleep(Duration::from_millis(rng.random_range(0..5))).await;
        }
        self
    }

    /// Receives all events up to the present.
    pub async fn catch_up(&mut self, app: &TestApp, what: &str) {
        for _ in 0..10_000 {
            if self.step(app, 1000).await {
                return;
            }
        }
        panic!("the follower does not reach the present after {what}");
    }

    /// Sends one request, or lists the tables. Returns whether it has received all events.
    async fn step(&mut self, app: &TestApp, max: u64) -> bool {
        let Some(after) = &self.progress.after else {
            if let Ok(progress) = list(app, &self.key).await {
                self.progress = progress;
                self.listings += 1;
            }
            return false;
        };
        let path = format!("{WATCH}?after={after}&wait=0&max={max}");
        let response = app.get_as(&self.key, &path).await;
        match response.status.as_u16() {
            200 => self.process(app, &response).await,
            410 => {
                assert_eq!(response.error_type(), "GoneException");
                self.progress = Progress::default();
                false
            }
            503 => false,
            _ => panic!("{path}: {}", response.body),
        }
    }

    async fn process(&mut self, app: &TestApp, response: &TestResponse) -> bool {
        let events = response.body["events"].as_array().expect("a list");
        assert_complete_groups(events);
        for event in events {
            self.events += 1;
            if let Some(position) = event["position"].as_str() {
                let is_new = self.progress.seen.insert(position.to_owned());
                assert!(is_new, "the follower received an event twice: {event}");
            }
            if event["type"] == "resync" {
                self.progress = Progress::default();
                return false;
            }
            if event["resource"]["kind"] == "table" && self.apply(app, event).await.is_err() {
                self.progress = Progress::default();
                return false;
            }
        }
        let next = response.body["next"].as_str().expect("a position");
        self.progress.after = Some(next.to_owned());
        response.body["caught-up"] == true
    }

    async fn apply(&mut self, app: &TestApp, event: &Value) -> Result<(), Unavailable> {
        let tables = &mut self.progress.tables;
        let uuid = event["resource"]["uuid"].as_str().expect("a UUID").to_owned();
        let name = name_of(&event["resource"]);
        let location = event["after"]["metadata-location"].as_str();
        match (event["type"].as_str().expect("a type"), location) {
            ("table.created", Some(location)) => {
                let exact = !tables.contains_key(&uuid);
                tables.insert(uuid, Known { name, location: location.to_owned(), exact });
            }
            // The table got a name that the follower may see.
            ("table.created", None) => {
                tables.extend(load(app, &self.key, &name).await?);
            }
            ("table.committed", Some(location)) => {
                let before = event["before"]["metadata-location"].as_str().expect("a location");
                let Some(known) = tables.get_mut(&uuid) else {
                    let location = location.to_owned();
                    tables.insert(uuid, Known { name, location, exact: false });
                    return Ok(());
                };
                // All events of a group commit have the same locations.
                let continues = before == known.location || location == known.location;
                assert!(continues || !known.exact, "a gap after {known:?}: {event}");
                known.exact |= continues;
                location.clone_into(&mut known.location);
            }
            ("table.renamed", _) => match tables.get_mut(&uuid) {
                Some(known) => known.name = name,
                None => tables.extend(load(app, &self.key, &name).await?),
            },
            ("table.dropped", _) => {
                tables.remove(&uuid);
            }
            other => panic!("unexpected event {other:?}: {event}"),
        }
        Ok(())
    }
}

/// Loads a table. Returns its UUID and state. `None` if it has been dropped or renamed.
async fn load(
    app: &TestApp,
    key: &str,
    name: &str,
) -> Result<Option<(String, Known)>, Unavailable> {
    let (namespace, table) = name.split_once('.').expect("a namespace and a name");
    let response = app.get_as(key, &format!("/v1/namespaces/{namespace}/tables/{table}")).await;
    match response.status.as_u16() {
        200 => {}
        403 | 404 => return Ok(None),
        503 => return Err(Unavailable),
        _ => panic!("{}", response.body),
    }
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let location = text(&response.body["metadata-location"]);
    let known = Known { name: name.to_owned(), location, exact: false };
    Ok(Some((text(&response.body["metadata"]["table-uuid"]), known)))
}

/// Lists and loads all tables. Returns the position of the first response with them, because later
/// changes may or may not be in the listing.
async fn list(app: &TestApp, key: &str) -> Result<Progress, Unavailable> {
    let mut progress = Progress::default();
    for namespace in NAMESPACES {
        let response = app.get_as(key, &format!("/v1/namespaces/{namespace}/tables")).await;
        match response.status.as_u16() {
            200 => {}
            403 | 404 => continue,
            503 => return Err(Unavailable),
            _ => panic!("{}", response.body),
        }
        let position = response.header(POSITION).to_owned();
        progress.after.get_or_insert(position);
        for ident in response.body["identifiers"].as_array().expect("a list") {
            progress.tables.extend(load(app, key, &name_of(ident)).await?);
        }
    }
    Ok(progress)
}

/// Returns the tables that the server lists for this credential while nothing changes.
pub async fn listed(app: &TestApp, key: &str) -> Tables {
    let progress = list(app, key).await.expect("the server is ready");
    progress.tables.into_values().map(|it| (it.name, it.location)).collect()
}

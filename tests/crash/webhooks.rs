//! Webhooks under `kill -9`: the receiver gets every event in order, however often the server dies.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::client::Client;
use crate::server::{Server, assert_sound};
use crate::support::env_numbers::{number_from_env, seed};

/// Default number of kills.
const ROUNDS: u64 = 10;
/// Time from the start of the changes until the kill, in milliseconds.
const KILL_AFTER_MS: std::ops::Range<u64> = 20..1500;
/// Time after which the test fails because the receiver has not got the last event.
const PATIENCE: Duration = Duration::from_secs(120);
/// The receiver is on this machine, and does not use TLS.
const SETTINGS: [(&str, &str); 2] =
    [("SLATEBERG__WEBHOOKS__ALLOW_HTTP", "true"), ("SLATEBERG__WEBHOOKS__ALLOW_PRIVATE", "true")];

/// A receiver that outlives the server.
#[derive(Default)]
struct Received {
    /// All events in the order of their arrival, including repeated ones.
    events: Mutex<Vec<Value>>,
    arrived: watch::Sender<()>,
}

async fn receive(State(received): State<Arc<Received>>, body: Bytes) {
    let events: Vec<Value> = serde_json::from_slice(&body).expect("a list");
    received.events.lock().expect("no panic").extend(events);
    received.arrived.send_replace(());
}

impl Received {
    async fn wait_for_namespace(&self, name: &str) {
        let mut arrived = self.arrived.subscribe();
        let is_there = || {
            let events = self.events.lock().expect("no panic");
            events.iter().any(|event| event["data"]["resource"]["namespace"] == json!([name]))
        };
        let waiting = async {
            while !is_there() {
                arrived.changed().await.expect("the receiver runs");
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the last event arrives");
    }

    /// Returns the events without repetitions, and the number of repetitions.
    fn distinct(&self) -> (Vec<Value>, usize) {
        let events = self.events.lock().expect("no panic");
        let mut seen = HashSet::new();
        let is_new = |event: &&Value| seen.insert(event["id"].to_string());
        let distinct: Vec<_> =
            events.iter().filter(is_new).map(|event| event["data"].clone()).collect();
        let repeated = events.len() - distinct.len();
        (distinct, repeated)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receiver_of_a_webhook_gets_every_event_in_order_despite_kills() {
    let rounds = number_from_env("SLATEBERG_CRASH_ROUNDS", ROUNDS);
    let seed = seed("SLATEBERG_CRASH_SEED");
    let mut rng = StdRng::seed_from_u64(seed);
    let data_dir = tempfile::tempdir().expect("there is room");
    let received = Arc::new(Received::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let routes = Router::new().fallback(receive).with_state(Arc::clone(&received));
    let receiver = tokio::spawn(async { axum::serve(listener, routes).await.expect("it serves") });
    for round in 0..rounds {
        let server = Server::start_with(data_dir.path(), &SETTINGS);
        let client = Client::of(&server.uri);
        if round == 0 {
            let body =
                json!({ "name": "w", "url": url, "after": "oldest", "types": ["namespace"] });
            client.post("../management/v1/webhooks", &body).await.expect(201);
        }
        let changes = tokio::spawn(async move {
            for number in 0_u64.. {
                let name = format!("r{round}n{number}");
                if !client.create_namespace(&name).await.is_acknowledged() {
                    return number;
                }
            }
            0
        });
        tokio::time::sleep(Duration::from_millis(rng.random_range(KILL_AFTER_MS))).await;
        server.kill();
        let acknowledged = changes.await.expect("the client ends");
        assert!(acknowledged > 0, "round {round} of seed {seed}");
        assert_sound(data_dir.path(), &format!("after round {round} of seed {seed}"));
    }
    let server = Server::start_with(data_dir.path(), &SETTINGS);
    let client = Client::of(&server.uri);
    client.create_namespace("last").await.expect(200);
    received.wait_for_namespace("last").await;
    let (events, repeated) = received.distinct();
    let (mut expected, mut after) = (Vec::new(), "oldest".to_owned());
    loop {
        let path = format!("../management/v1/watch?wait=0&type=namespace&after={after}");
        let page = client.get(&path).await.expect(200);
        expected.extend(page["events"].as_array().expect("a list").iter().cloned());
        after = page["next"].as_str().expect("a position").to_owned();
        if page["caught-up"] == true {
            break;
        }
    }
    assert!(
        events == expected,
        "seed {seed}: the receiver missed events, or got them out of order"
    );
    eprintln!("seed {seed}: {rounds} kills, {} events, {repeated} repeated", events.len());
    server.terminate();
    assert_eq!(server.wait_for_exit().code(), Some(0), "seed {seed}");
    receiver.abort();
}

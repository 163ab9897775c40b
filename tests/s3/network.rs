//! A network between the server and its store that is slow, cuts connections, loses responses, or
//! is down.
//!
//! In all cases, no acknowledged commit is lost, every request gets a response in time (200, 503 or
//! an unknown outcome), and the server recovers by itself. `SLATEBERG_OUTAGE_SECONDS` sets the
//! duration of an outage, `SLATEBERG_TOXIC_SECONDS` that of each other fault.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Client, Reply};
use crate::load::{Answers, Load, TABLE};
use crate::server::{Server, assert_sound};
use crate::support::knobs::knob;
use crate::toxics::{Link, Toxic};

const OUTAGE_SECONDS: u64 = 6;
const TOXIC_SECONDS: u64 = 4;
/// Commit deadline in milliseconds, after which the outcome is unknown.
const DEADLINE_MS: u64 = 3000;
/// Longest response time: two deadlines, one in the lane and one in the log.
const ANSWER_MAX: Duration = Duration::from_millis(DEADLINE_MS * 2 + 2000);
/// Time limit for the recovery: the longest pause between two attempts, and the waiting requests.
const RECOVERY_MAX: Duration = Duration::from_secs(15);

fn seconds(name: &str, default: u64) -> Duration {
    Duration::from_secs(knob(name, default))
}

/// Starts a server on a link, with the table for the load.
async fn server(data_dir: &Path, link: &Link) -> (Server, Client) {
    let deadline = DEADLINE_MS.to_string();
    let environment = [
        ("AWS_ENDPOINT", link.endpoint.as_str()),
        ("SLATEBERG__CATALOG__COMMIT_DEADLINE_MS", deadline.as_str()),
    ];
    let server = Server::start_with(data_dir, &environment);
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    client.create_table("ns", "t").await.expect(200);
    (server, client)
}

/// Commits until one succeeds again. Returns the time that this took.
async fn recovered(client: &Client, what: &str) -> Duration {
    let since = Instant::now();
    loop {
        match client.set(TABLE, "recovered").await {
            Reply::Answered(200, _) => return since.elapsed(),
            Reply::Answered(500 | 503, _) if since.elapsed() < RECOVERY_MAX => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => panic!("{what}: {other:?} after {:?}", since.elapsed()),
        }
    }
}

/// Injects a fault under load, and checks the result: on the running server, after a kill, and by
/// fsck.
async fn suffer(what: &str, ill: impl AsyncFnOnce(&Link), has_to_fail: bool) {
    let data_dir = tempfile::tempdir().expect("there is room");
    let link = Link::open().await;
    let (server, client) = server(data_dir.path(), &link).await;
    let load = Load::start(&client, "load");
    tokio::time::sleep(Duration::from_millis(500)).await;
    ill(&link).await;
    let recovery = recovered(&client, what).await;
    let answers = load.stop().await;
    let Answers { done, refused, unknown, slowest } = &answers;
    eprintln!(
        "{what}: {} done, {} refused, {} unknown, slowest answer {slowest:?}, recovered in {recovery:?}",
        done.len(),
        refused.len(),
        unknown.len()
    );
    assert!(*slowest < ANSWER_MAX, "{what}: an answer took {slowest:?}");
    assert!(done.len() > 20, "{what}: the writers got somewhere");
    let failed = refused.len() + unknown.len();
    assert!(!has_to_fail || failed > 0, "{what}: nobody noticed that the store was away");
    answers.check(&client.load(TABLE).await, what);
    server.kill();
    assert_sound(data_dir.path(), what);
    let server = Server::start(data_dir.path());
    answers.check(&Client::of(&server.uri).load(TABLE).await, what);
    server.terminate();
    assert_eq!(server.ended().code(), Some(0), "{what}");
    assert_sound(data_dir.path(), what);
}

async fn poisoned(toxic: Toxic) {
    let what = format!("{} {} of {}", toxic.kind, toxic.attributes, toxic.share);
    let ill = async |link: &Link| {
        link.poison(&toxic).await;
        tokio::time::sleep(seconds("SLATEBERG_TOXIC_SECONDS", TOXIC_SECONDS)).await;
        link.heal().await;
    };
    suffer(&what, ill, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store and toxiproxy: make stores"]
async fn a_store_that_is_away_for_a_while() {
    let ill = async |link: &Link| {
        link.set_up(false).await;
        tokio::time::sleep(seconds("SLATEBERG_OUTAGE_SECONDS", OUTAGE_SECONDS)).await;
        link.set_up(true).await;
    };
    suffer("an outage", ill, true).await;
}

/// Packets are dropped silently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store and toxiproxy: make stores"]
async fn a_store_that_swallows_every_request_for_a_while() {
    let hole = Toxic { kind: "timeout", share: 1.0, attributes: json!({ "timeout": 0 }) };
    let ill = async |link: &Link| {
        link.poison(&hole).await;
        tokio::time::sleep(seconds("SLATEBERG_OUTAGE_SECONDS", OUTAGE_SECONDS)).await;
        link.heal().await;
    };
    suffer("a black hole", ill, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store and toxiproxy: make stores"]
async fn answers_that_are_lost_after_the_write_took_effect() {
    poisoned(Toxic { kind: "timeout", share: 0.4, attributes: json!({ "timeout": 300 }) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store and toxiproxy: make stores"]
async fn connections_that_are_cut() {
    poisoned(Toxic { kind: "reset_peer", share: 0.5, attributes: json!({ "timeout": 5 }) }).await;
    poisoned(Toxic { kind: "limit_data", share: 1.0, attributes: json!({ "bytes": 2000 }) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store and toxiproxy: make stores"]
async fn a_network_that_is_slow() {
    let jittery = json!({ "latency": 150, "jitter": 120 });
    poisoned(Toxic { kind: "latency", share: 1.0, attributes: jittery }).await;
    poisoned(Toxic { kind: "bandwidth", share: 1.0, attributes: json!({ "rate": 4 }) }).await;
    poisoned(Toxic { kind: "slow_close", share: 1.0, attributes: json!({ "delay": 700 }) }).await;
}

/// A start waits for a store that is late, and fails if the store never responds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store and toxiproxy: make stores"]
async fn a_start_without_a_store() {
    let data_dir = tempfile::tempdir().expect("there is room");
    let link = Link::open().await;
    link.set_up(false).await;
    let endpoint = link.endpoint.clone();
    let environment =
        [("AWS_ENDPOINT", endpoint.as_str()), ("SLATEBERG__STATE__START_SECONDS_MAX", "2")];
    let since = Instant::now();
    let (code, said) = crate::server::serve_in_vain_with(data_dir.path(), &environment);
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("waiting for the object store"), "{said}");
    assert!(said.contains("within 2 s; last error: "), "{said}");
    assert!(since.elapsed() < Duration::from_secs(12), "{:?}", since.elapsed());
    let path = data_dir.path().to_owned();
    let starting = tokio::task::spawn_blocking(move || {
        Server::start_with(&path, &[("AWS_ENDPOINT", endpoint.as_str())])
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    link.set_up(true).await;
    let server = starting.await.expect("it starts");
    Client::of(&server.uri).create_namespace("ns").await.expect(200);
}

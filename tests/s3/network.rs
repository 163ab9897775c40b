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
use crate::load::{Load, Outcomes, TABLE};
use crate::server::{Server, assert_sound};
use crate::support::env_numbers::number_from_env;
use crate::toxics::{Link, Toxic};

const OUTAGE_SECONDS: u64 = 6;
const TOXIC_SECONDS: u64 = 4;
/// Commit deadline in milliseconds, after which the outcome is unknown.
const DEADLINE_MS: u64 = 3000;
/// Longest response time: one deadline in the table's commit queue, and one for the log.
const ANSWER_MAX: Duration = Duration::from_millis(DEADLINE_MS * 2 + 2000);
/// Time limit for the recovery: the server's longest pause between two attempts, plus the time for
/// the requests that wait.
const RECOVERY_MAX: Duration = Duration::from_secs(15);

fn seconds(name: &str, default: u64) -> Duration {
    Duration::from_secs(number_from_env(name, default))
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
async fn run_during_outage(what: &str, ill: impl AsyncFnOnce(&Link), has_to_fail: bool) {
    let data_dir = tempfile::tempdir().expect("there is room");
    let link = Link::open().await;
    let (server, client) = server(data_dir.path(), &link).await;
    let load = Load::start(&client, "load");
    tokio::time::sleep(Duration::from_millis(500)).await;
    ill(&link).await;
    let recovery = recovered(&client, what).await;
    let answers = load.stop().await;
    let Outcomes { done, rejected, unknown, slowest } = &answers;
    eprintln!(
        "{what}: {} done, {} refused, {} unknown, slowest answer {slowest:?}, recovered in {recovery:?}",
        done.len(),
        rejected.len(),
        unknown.len()
    );
    assert!(*slowest < ANSWER_MAX, "{what}: an answer took {slowest:?}");
    assert!(done.len() > 20, "{what}: too few commits were acknowledged");
    let failed = rejected.len() + unknown.len();
    assert!(!has_to_fail || failed > 0, "{what}: no commit failed, though the store was away");
    answers.check(&client.load(TABLE).await, what);
    server.kill();
    assert_sound(data_dir.path(), what);
    let server = Server::start(data_dir.path());
    answers.check(&Client::of(&server.uri).load(TABLE).await, what);
    server.terminate();
    assert_eq!(server.wait_for_exit().code(), Some(0), "{what}");
    assert_sound(data_dir.path(), what);
}

async fn run_with_toxic(toxic: Toxic) {
    let what = format!("{} {} of {}", toxic.kind, toxic.attributes, toxic.share);
    let ill = async |link: &Link| {
        link.poison(&toxic).await;
        tokio::time::sleep(seconds("SLATEBERG_TOXIC_SECONDS", TOXIC_SECONDS)).await;
        link.heal().await;
    };
    run_during_outage(&what, ill, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store and toxiproxy: make stores"]
async fn commits_resume_after_an_outage_of_the_store() {
    let ill = async |link: &Link| {
        link.set_up(false).await;
        tokio::time::sleep(seconds("SLATEBERG_OUTAGE_SECONDS", OUTAGE_SECONDS)).await;
        link.set_up(true).await;
    };
    run_during_outage("an outage", ill, true).await;
}

/// Packets are dropped silently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store and toxiproxy: make stores"]
async fn commits_resume_after_the_store_swallowed_requests() {
    let hole = Toxic { kind: "timeout", share: 1.0, attributes: json!({ "timeout": 0 }) };
    let ill = async |link: &Link| {
        link.poison(&hole).await;
        tokio::time::sleep(seconds("SLATEBERG_OUTAGE_SECONDS", OUTAGE_SECONDS)).await;
        link.heal().await;
    };
    run_during_outage("a black hole", ill, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store and toxiproxy: make stores"]
async fn commits_survive_lost_responses_of_the_store() {
    run_with_toxic(Toxic { kind: "timeout", share: 0.4, attributes: json!({ "timeout": 300 }) })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store and toxiproxy: make stores"]
async fn commits_survive_reset_connections() {
    run_with_toxic(Toxic { kind: "reset_peer", share: 0.5, attributes: json!({ "timeout": 5 }) })
        .await;
    run_with_toxic(Toxic { kind: "limit_data", share: 1.0, attributes: json!({ "bytes": 2000 }) })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store and toxiproxy: make stores"]
async fn commits_succeed_on_a_slow_network() {
    let jittery = json!({ "latency": 150, "jitter": 120 });
    run_with_toxic(Toxic { kind: "latency", share: 1.0, attributes: jittery }).await;
    run_with_toxic(Toxic { kind: "bandwidth", share: 1.0, attributes: json!({ "rate": 4 }) }).await;
    run_with_toxic(Toxic { kind: "slow_close", share: 1.0, attributes: json!({ "delay": 700 }) })
        .await;
}

/// A start waits for a store that becomes reachable late, and fails if the store never responds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store and toxiproxy: make stores"]
async fn start_waits_for_an_unavailable_store() {
    let data_dir = tempfile::tempdir().expect("there is room");
    let link = Link::open().await;
    link.set_up(false).await;
    let endpoint = link.endpoint.clone();
    let environment =
        [("AWS_ENDPOINT", endpoint.as_str()), ("SLATEBERG__STATE__START_SECONDS_MAX", "2")];
    let since = Instant::now();
    let (code, output_text) =
        crate::server::serve_expecting_failure_with(data_dir.path(), &environment);
    assert_eq!(code, Some(69), "{output_text}");
    assert!(output_text.contains("waiting for the object store"), "{output_text}");
    assert!(output_text.contains("within 2 s; last error: "), "{output_text}");
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

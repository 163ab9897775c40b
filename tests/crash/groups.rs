//! Commits that wait for one table form a group. After faults in the middle of a group, each member
//! has its true outcome.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::scene::{DEADLINE, SHORT_WAIT, Scene, TABLE};
use crate::support::app::{TestApp, TestResponse};
use crate::support::faults::{EVERYTHING, Fault, LOG, METADATA_FILES, Verb};
use crate::support::table::{append, main_is, set_property};

/// Number of commits that wait together.
const MEMBERS: usize = 20;

fn commit(
    scene: &Scene,
    requirements: Vec<Value>,
    updates: Vec<Value>,
) -> JoinHandle<TestResponse> {
    let app = Arc::clone(&scene.app);
    tokio::spawn(async move { app.commit("ns", "t", requirements, updates).await })
}

/// A transaction over a single table, with its own idempotency key.
fn transaction(scene: &Scene, member: usize, updates: Vec<Value>) -> JoinHandle<TestResponse> {
    let app = Arc::clone(&scene.app);
    let key = format!("00000000-0000-7000-9000-{member:012}");
    let identifier = json!({ "namespace": ["ns"], "name": "t" });
    let change = json!({ "identifier": identifier, "requirements": [], "updates": updates });
    let body = json!({ "table-changes": [change] });
    tokio::spawn(async move {
        let path = "/v1/transactions/commit";
        app.request(Method::POST, path, &[("idempotency-key", &key)], &body).await
    })
}

fn key(member: usize) -> String {
    format!("k{member:02}")
}

/// Starts a commit that occupies the table's lane (its commit queue), because puts to `part` hang.
async fn hold_lane(scene: &Scene, part: &str) -> JoinHandle<TestResponse> {
    scene.faults.inject(Verb::Put, part, Fault::Hang);
    let first = commit(scene, Vec::new(), vec![set_property("first", "first")]);
    tokio::time::sleep(SHORT_WAIT).await;
    first
}

/// Starts a commit that occupies the lane. Then, for each member of the next group, starts a commit
/// that sets a property.
async fn gather(scene: &Scene, part: &str) -> Vec<JoinHandle<TestResponse>> {
    let mut waiting = vec![hold_lane(scene, part).await];
    for member in 0..MEMBERS {
        waiting.push(commit(scene, Vec::new(), vec![set_property(&key(member), "yes")]));
    }
    tokio::time::sleep(SHORT_WAIT).await;
    waiting
}

async fn responses(waiting: Vec<JoinHandle<TestResponse>>) -> Vec<TestResponse> {
    let mut responses = Vec::new();
    for waiting in waiting {
        responses.push(waiting.await.expect("no panic"));
    }
    responses
}

async fn statuses(waiting: Vec<JoinHandle<TestResponse>>) -> Vec<u16> {
    responses(waiting).await.iter().map(|response| response.status.as_u16()).collect()
}

fn location(response: &TestResponse) -> String {
    response.body["metadata-location"].as_str().expect("the response to a commit").to_owned()
}

fn main_of(response: &TestResponse) -> Option<i64> {
    response.body["metadata"]["refs"]["main"]["snapshot-id"].as_i64()
}

#[tokio::test]
async fn commits_waiting_for_a_table_become_one_version() {
    let scene = Scene::new().await;
    let waiting = gather(&scene, LOG).await;
    let files_before = scene.faults.count(Verb::Put, METADATA_FILES);
    let logs_before = scene.faults.count(Verb::Put, LOG);
    scene.faults.lift();
    let responses = responses(waiting).await;
    let locations: Vec<String> = responses.iter().map(location).collect();
    assert!(responses.iter().all(|response| response.status == 200));
    assert_ne!(locations[0], locations[1], "the first commit began before the group");
    assert!(locations[1..].iter().all(|it| *it == locations[1]), "one version: {locations:?}");
    assert_eq!(scene.faults.count(Verb::Put, METADATA_FILES), files_before + 1);
    assert!(scene.faults.count(Verb::Put, LOG) <= logs_before + 2);
    let mut properties: Vec<String> = std::iter::once("first".to_owned()).collect();
    properties.extend((0..MEMBERS).map(key));
    let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
    scene.assert_is(&properties).await;
    let log = scene.app.get(TABLE).await.body["metadata"]["metadata-log"].clone();
    assert_eq!(log.as_array().map(Vec::len), Some(2), "one entry for each earlier file: {log}");
}

#[tokio::test]
async fn group_member_is_evaluated_on_the_state_of_the_previous_one() {
    let scene = Scene::new().await;
    let first = hold_lane(&scene, LOG).await;
    let mut waiting = Vec::new();
    for id in 1..=4 {
        // Each commit requires an empty table, so only the first one succeeds.
        waiting.push(commit(&scene, vec![main_is(None)], append(id, None, 1)));
        tokio::time::sleep(SHORT_WAIT / 10).await;
    }
    let on_top = commit(&scene, vec![main_is(Some(1))], append(5, Some(1), 2));
    tokio::time::sleep(SHORT_WAIT).await;
    assert!(waiting.iter().all(|it| !it.is_finished()), "a response before anything is durable");
    scene.faults.lift();
    assert_eq!(first.await.expect("no panic").status, 200);
    assert_eq!(statuses(waiting).await, [200, 409, 409, 409]);
    let on_top = on_top.await.expect("no panic").expect(200);
    assert_eq!(main_of(&on_top), Some(5));
    let snapshots = on_top.body["metadata"]["snapshots"].as_array().map(Vec::len);
    assert_eq!(snapshots, Some(2));
}

/// `DuckDB` sends every append as a transaction over one table.
#[tokio::test]
async fn a_transaction_over_one_table_joins_the_group_of_the_table() {
    let scene = Scene::new().await;
    let first = hold_lane(&scene, LOG).await;
    let mut waiting = Vec::new();
    for member in 0..MEMBERS {
        let updates = vec![set_property(&key(member), "yes")];
        waiting.push(match member % 2 {
            0 => commit(&scene, Vec::new(), updates),
            _ => transaction(&scene, member, updates),
        });
    }
    tokio::time::sleep(SHORT_WAIT).await;
    let files_before = scene.faults.count(Verb::Put, METADATA_FILES);
    scene.faults.lift();
    assert_eq!(first.await.expect("no panic").status, 200);
    let statuses = statuses(waiting).await;
    assert!(statuses.chunks(2).all(|pair| pair == [200, 204]), "{statuses:?}");
    assert_eq!(scene.faults.count(Verb::Put, METADATA_FILES), files_before + 1, "one version");
    let mut properties: Vec<String> = std::iter::once("first".to_owned()).collect();
    properties.extend((0..MEMBERS).map(key));
    let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
    scene.assert_is(&properties).await;
    let scene = scene.crash().await;
    // The transaction is repeated with its idempotency key, so it is not applied again.
    let replayed = transaction(&scene, 1, vec![set_property(&key(1), "yes")]);
    assert_eq!(replayed.await.expect("no panic").status, 204);
    scene.assert_is(&properties).await;
}

/// A rejection does not affect later members of the group.
#[tokio::test]
async fn failing_group_member_does_not_affect_the_others() {
    let scene = Scene::new().await;
    let first = hold_lane(&scene, LOG).await;
    let elsewhere = json!({ "action": "set-location", "location": "memory:///elsewhere/t" });
    let half = vec![
        set_property("half", "half"),
        json!({
            "action": "set-current-schema", "schema-id": 99,
        }),
    ];
    let waiting = vec![
        commit(&scene, Vec::new(), vec![set_property("a", "a")]),
        commit(&scene, Vec::new(), vec![elsewhere]),
        commit(&scene, Vec::new(), half),
        commit(&scene, Vec::new(), vec![set_property("b", "b")]),
    ];
    tokio::time::sleep(SHORT_WAIT).await;
    scene.faults.lift();
    assert_eq!(first.await.expect("no panic").status, 200);
    assert_eq!(statuses(waiting).await, [200, 400, 400, 200]);
    scene.assert_is(&["a", "b", "first"]).await;
}

#[tokio::test]
async fn group_with_a_late_log_entry_is_unknown_to_all_and_completes_as_one() {
    let scene = Scene::new().await;
    let waiting = gather(&scene, METADATA_FILES).await;
    // The first commit completes, and then the log entry of the group hangs.
    scene.faults.lift();
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    tokio::time::sleep(DEADLINE * 2).await;
    let mut outcomes = statuses(waiting).await;
    outcomes.remove(0);
    assert!(
        outcomes.iter().all(|it| *it == 200) || outcomes.iter().all(|it| *it == 500),
        "members of one group have different outcomes: {outcomes:?}"
    );
    scene.faults.lift();
    tokio::time::sleep(SHORT_WAIT).await;
    let properties = scene.properties().await;
    assert_eq!(properties.len(), MEMBERS + 1, "a commit with an unknown outcome completes");
}

#[tokio::test]
async fn group_in_progress_during_a_crash_is_atomic() {
    for part in [LOG, METADATA_FILES, EVERYTHING] {
        let scene = Scene::new().await;
        let waiting = gather(&scene, METADATA_FILES).await;
        scene.faults.lift();
        scene.faults.inject(Verb::Put, part, Fault::Hang);
        tokio::time::sleep(SHORT_WAIT).await;
        let acknowledged = waiting.iter().skip(1).filter(|it| it.is_finished()).count();
        let scene = scene.crash().await;
        let properties = scene.properties().await;
        let members = properties.iter().filter(|it| it.starts_with('k')).count();
        assert!(members == 0 || members == MEMBERS, "{part}: {properties:?}");
        assert!(acknowledged == 0 || members == MEMBERS, "{part}: {acknowledged} acknowledged");
        let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
        scene.assert_is(&properties).await;
    }
}

#[tokio::test]
async fn retry_with_an_idempotency_key_gets_the_outcome_of_its_group() {
    let scene = Scene::new().await;
    let first = hold_lane(&scene, LOG).await;
    let winner = tokio::spawn(keyed(Arc::clone(&scene.app), 1));
    tokio::time::sleep(SHORT_WAIT / 5).await;
    let loser = tokio::spawn(keyed(Arc::clone(&scene.app), 2));
    tokio::time::sleep(SHORT_WAIT).await;
    scene.faults.lift();
    assert_eq!(first.await.expect("no panic").status, 200);
    assert_eq!(winner.await.expect("no panic"), 200);
    assert_eq!(loser.await.expect("no panic"), 409);
    let scene = scene.crash().await;
    assert_eq!(keyed(Arc::clone(&scene.app), 1).await, 200);
    assert_eq!(keyed(Arc::clone(&scene.app), 2).await, 409);
}

/// Appends this snapshot to the empty table, with its own idempotency key.
async fn keyed(app: Arc<TestApp>, id: i64) -> u16 {
    let key = format!("00000000-0000-7000-8000-{id:012}");
    let body = json!({ "requirements": [main_is(None)], "updates": append(id, None, 1) });
    app.request(Method::POST, TABLE, &[("idempotency-key", &key)], &body).await.status.as_u16()
}

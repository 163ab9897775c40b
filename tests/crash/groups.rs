//! Commits that wait for one table form a group. After faults in the middle of a group, each member
//! has its true outcome.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::scene::{A_WHILE, DEADLINE, Scene, TABLE};
use crate::support::app::{Answer, TestApp};
use crate::support::faults::{EVERYTHING, Fault, LOG, METADATA_FILES, Verb};
use crate::support::table::{append, main_is, set_property};

/// Number of commits that wait together.
const MEMBERS: usize = 20;

fn commit(scene: &Scene, requirements: Vec<Value>, updates: Vec<Value>) -> JoinHandle<Answer> {
    let app = Arc::clone(&scene.app);
    tokio::spawn(async move { app.commit("ns", "t", requirements, updates).await })
}

/// A transaction over a single table, with its own idempotency key.
fn transaction(scene: &Scene, member: usize, updates: Vec<Value>) -> JoinHandle<Answer> {
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

/// Starts a commit that holds the lane, because puts to `part` hang.
async fn hold_lane(scene: &Scene, part: &str) -> JoinHandle<Answer> {
    scene.faults.inject(Verb::Put, part, Fault::Hang);
    let first = commit(scene, Vec::new(), vec![set_property("first", "first")]);
    tokio::time::sleep(A_WHILE).await;
    first
}

/// Starts a commit that holds the lane, and then one that sets a property for each member.
async fn gather(scene: &Scene, part: &str) -> Vec<JoinHandle<Answer>> {
    let mut waiting = vec![hold_lane(scene, part).await];
    for member in 0..MEMBERS {
        waiting.push(commit(scene, Vec::new(), vec![set_property(&key(member), "yes")]));
    }
    tokio::time::sleep(A_WHILE).await;
    waiting
}

async fn answers(waiting: Vec<JoinHandle<Answer>>) -> Vec<Answer> {
    let mut answers = Vec::new();
    for waiting in waiting {
        answers.push(waiting.await.expect("no panic"));
    }
    answers
}

async fn statuses(waiting: Vec<JoinHandle<Answer>>) -> Vec<u16> {
    answers(waiting).await.iter().map(|answer| answer.status.as_u16()).collect()
}

fn location(answer: &Answer) -> String {
    answer.body["metadata-location"].as_str().expect("a commit tells it").to_owned()
}

fn main_of(answer: &Answer) -> Option<i64> {
    answer.body["metadata"]["refs"]["main"]["snapshot-id"].as_i64()
}

#[tokio::test]
async fn what_waits_for_a_table_becomes_one_version() {
    let scene = Scene::new().await;
    let waiting = gather(&scene, LOG).await;
    let files_before = scene.faults.count(Verb::Put, METADATA_FILES);
    let logs_before = scene.faults.count(Verb::Put, LOG);
    scene.faults.lift();
    let answers = answers(waiting).await;
    let locations: Vec<String> = answers.iter().map(location).collect();
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_ne!(locations[0], locations[1], "the first was on its way already");
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
async fn each_member_is_judged_by_what_the_one_before_it_left() {
    let scene = Scene::new().await;
    let first = hold_lane(&scene, LOG).await;
    let mut waiting = Vec::new();
    for id in 1..=4 {
        // Each requires an empty table: only the first one gets it.
        waiting.push(commit(&scene, vec![main_is(None)], append(id, None, 1)));
        tokio::time::sleep(A_WHILE / 10).await;
    }
    let on_top = commit(&scene, vec![main_is(Some(1))], append(5, Some(1), 2));
    tokio::time::sleep(A_WHILE).await;
    assert!(waiting.iter().all(|it| !it.is_finished()), "told by what is not durable");
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
    tokio::time::sleep(A_WHILE).await;
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
    // The key is replayed: the transaction sets nothing again.
    let replayed = transaction(&scene, 1, vec![set_property(&key(1), "yes")]);
    assert_eq!(replayed.await.expect("no panic").status, 204);
    scene.assert_is(&properties).await;
}

/// A rejection does not affect later members of the group.
#[tokio::test]
async fn a_bad_member_spoils_nothing_for_the_others() {
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
    tokio::time::sleep(A_WHILE).await;
    scene.faults.lift();
    assert_eq!(first.await.expect("no panic").status, 200);
    assert_eq!(statuses(waiting).await, [200, 400, 400, 200]);
    scene.assert_is(&["a", "b", "first"]).await;
}

#[tokio::test]
async fn a_group_whose_log_entry_is_late_is_unknown_to_all_and_lands_as_one() {
    let scene = Scene::new().await;
    let waiting = gather(&scene, METADATA_FILES).await;
    // The first commit completes, and the group after it hangs in the log.
    scene.faults.lift();
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    tokio::time::sleep(DEADLINE * 2).await;
    let mut outcomes = statuses(waiting).await;
    outcomes.remove(0);
    assert!(
        outcomes.iter().all(|it| *it == 200) || outcomes.iter().all(|it| *it == 500),
        "one group, one fate: {outcomes:?}"
    );
    scene.faults.lift();
    tokio::time::sleep(A_WHILE).await;
    let properties = scene.properties().await;
    assert_eq!(properties.len(), MEMBERS + 1, "an unknown outcome is carried to its end");
}

#[tokio::test]
async fn a_process_that_dies_with_a_group_in_flight_has_all_of_it_or_nothing() {
    for part in [LOG, METADATA_FILES, EVERYTHING] {
        let scene = Scene::new().await;
        let waiting = gather(&scene, METADATA_FILES).await;
        scene.faults.lift();
        scene.faults.inject(Verb::Put, part, Fault::Hang);
        tokio::time::sleep(A_WHILE).await;
        let acknowledged = waiting.iter().skip(1).filter(|it| it.is_finished()).count();
        let scene = scene.crash().await;
        let properties = scene.properties().await;
        let members = properties.iter().filter(|it| it.starts_with('k')).count();
        assert!(members == 0 || members == MEMBERS, "{part}: {properties:?}");
        assert!(acknowledged == 0 || members == MEMBERS, "{part}: {acknowledged} were told");
        let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
        scene.assert_is(&properties).await;
    }
}

#[tokio::test]
async fn retries_with_the_same_key_are_told_the_same_as_the_group() {
    let scene = Scene::new().await;
    let first = hold_lane(&scene, LOG).await;
    let winner = tokio::spawn(keyed(Arc::clone(&scene.app), 1));
    tokio::time::sleep(A_WHILE / 5).await;
    let loser = tokio::spawn(keyed(Arc::clone(&scene.app), 2));
    tokio::time::sleep(A_WHILE).await;
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

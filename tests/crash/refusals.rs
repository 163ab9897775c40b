//! If a rejection is based on state that is not durable yet, the response is delayed until this
//! state is durable. So the rejection is still correct after a crash.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::scene::{SHORT_WAIT, Scene, TABLE, namespace};
use crate::support::app::TestResponse;
use crate::support::faults::{Fault, LOG, Verb};
use crate::support::table::create_table;

/// Sends requests one after the other while the log hangs: the change of the first one is accepted,
/// and the others depend on it. Returns their responses after the log continues.
async fn while_the_log_hangs(scene: &Scene, requests: Vec<(&str, Value)>) -> Vec<TestResponse> {
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    let mut waiting: Vec<JoinHandle<TestResponse>> = Vec::new();
    for (path, body) in requests {
        let (app, path) = (Arc::clone(&scene.app), path.to_owned());
        waiting.push(tokio::spawn(async move {
            if body.is_null() { app.delete(&path).await } else { app.post(&path, body).await }
        }));
        tokio::time::sleep(SHORT_WAIT / 5).await;
    }
    tokio::time::sleep(SHORT_WAIT).await;
    for (at, request) in waiting.iter().enumerate() {
        assert!(!request.is_finished(), "request {at} got a response before the state was durable");
    }
    scene.faults.lift();
    let mut answers = Vec::new();
    for request in waiting {
        answers.push(request.await.expect("no panic"));
    }
    answers
}

#[tokio::test]
async fn conflict_on_a_name_is_reported_once_its_creation_is_durable() {
    let scene = Scene::new().await;
    let tables = "/v1/namespaces/ns/tables";
    let requests = vec![(tables, create_table("u")), (tables, create_table("u"))];
    let answers = while_the_log_hangs(&scene, requests).await;
    assert_eq!(answers[0].status, 200);
    assert_eq!(answers[1].status, 409);
}

#[tokio::test]
async fn dropped_table_is_reported_missing_once_the_drop_is_durable() {
    let scene = Scene::new().await;
    let set = json!({ "requirements": [], "updates": [] });
    let requests = vec![(TABLE, Value::Null), (TABLE, Value::Null), (TABLE, set)];
    let answers = while_the_log_hangs(&scene, requests).await;
    assert_eq!(answers[0].status, 204);
    assert_eq!(answers[1].status, 404);
    assert_eq!(answers[2].status, 404);
}

#[tokio::test]
async fn namespace_is_reported_not_empty_once_its_content_is_durable() {
    let scene = Scene::new().await;
    scene.app.create_namespace(&["other"]).await;
    let rename = json!({
        "source": { "namespace": ["ns"], "name": "t" },
        "destination": { "namespace": ["other"], "name": "t" },
    });
    let requests = vec![("/v1/tables/rename", rename), ("/v1/namespaces/other", Value::Null)];
    let answers = while_the_log_hangs(&scene, requests).await;
    assert_eq!(answers[0].status, 204);
    assert_eq!(answers[1].error_type(), "NamespaceNotEmptyException");
}

/// A change without effect writes nothing, but the state that it was compared with must be durable.
#[tokio::test]
async fn unchanged_properties_are_acknowledged_once_they_are_durable() {
    let scene = Scene::new().await;
    let properties = "/v1/namespaces/ns/properties";
    let set = json!({ "updates": { "a": "1" } });
    let requests = vec![(properties, set.clone()), (properties, set)];
    let answers = while_the_log_hangs(&scene, requests).await;
    assert!(answers.iter().all(|response| response.status == 200));
}

/// The second commit waits for the first one in the table's lane (its commit queue).
#[tokio::test]
async fn commit_without_effect_is_acknowledged_once_its_base_is_durable() {
    let scene = Scene::new().await;
    let set = json!({
        "requirements": [],
        "updates": [{ "action": "set-properties", "updates": { "a": "1" } }],
    });
    let answers = while_the_log_hangs(&scene, vec![(TABLE, set.clone()), (TABLE, set)]).await;
    assert!(answers.iter().all(|response| response.status == 200));
    let version = |response: &TestResponse| response.body["metadata-location"].clone();
    assert_eq!(version(&answers[0]), version(&answers[1]));
}

/// Many concurrent requests for one name: a losing request may read the winner's change before the
/// change is durable.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn losers_of_a_race_are_rejected_once_the_winner_is_durable() {
    const ROUNDS: usize = 40;
    const RACERS: usize = 12;
    let scene = Scene::new().await;
    for round in 0..ROUNDS {
        scene.faults.inject(Verb::Put, LOG, Fault::Hang);
        let body = namespace(&format!("n{round}"));
        let racing: Vec<_> = (0..RACERS)
            .map(|_| {
                let (app, body) = (Arc::clone(&scene.app), body.clone());
                tokio::spawn(async move { app.post("/v1/namespaces", body).await })
            })
            .collect();
        tokio::time::sleep(SHORT_WAIT / 10).await;
        let early = racing.iter().filter(|racer| racer.is_finished()).count();
        scene.faults.lift();
        let mut won = 0;
        for racer in racing {
            won += usize::from(racer.await.expect("no panic").status == 200);
        }
        assert_eq!(early, 0, "round {round}: responses before the name was durable");
        assert_eq!(won, 1, "round {round}: creations of one name that succeeded");
    }
}

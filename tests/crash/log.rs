//! A write-ahead log whose puts hang, fail, are slow, lose their responses or report false
//! conflicts. Nothing is acknowledged before it is durable. A commit is done, has an unknown
//! outcome, or gets 503 and writes nothing.

use std::time::Duration;

use axum::http::Method;
use serde_json::json;

use crate::scene::{SHORT_WAIT, Scene, TABLE, TIMEOUT, namespace, within};
use crate::support::faults::{EVERYTHING, Fault, LOG, MANIFESTS, METADATA_FILES, Verb};
use crate::support::table::set_property;

/// Returns the number of commits to tables with this outcome.
async fn counted(scene: &Scene, outcome: &str) -> u64 {
    let metrics = scene.app.get("/metrics").await.expect(200);
    let name = format!(
        "slateberg_commit_outcomes_total{{action=\"commit_table\",outcome=\"{outcome}\"}} "
    );
    let text = metrics.body.as_str().expect("text").to_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(&name)).expect("it is there");
    line.trim().parse().expect("a number")
}

#[tokio::test]
async fn hanging_log_put_makes_the_outcome_unknown_and_readers_see_the_old_state() {
    let scene = Scene::new().await;
    scene.set("a").await.expect(200);
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    scene.set("b").await.expect_error(500, "CommitStateUnknownException");
    assert_eq!(scene.properties().await, ["a"], "a read returned a commit that is not durable");
    scene.set("c").await.expect(503);
    let created = scene.app.post("/v1/namespaces", namespace("other")).await;
    created.expect_error(500, "CommitStateUnknownException");
    scene.app.head("/v1/namespaces/other").await.expect(404);
    scene.faults.lift();
    let landed = async { while scene.properties().await != ["a", "b"] {} };
    within(TIMEOUT, "the pending commit", landed).await;
    scene.set("d").await.expect(200);
    scene.app.head("/v1/namespaces/other").await.expect(204);
    scene.assert_is(&["a", "b", "d"]).await;
}

#[tokio::test]
async fn commit_of_a_disconnected_client_is_counted() {
    let scene = Scene::new().await;
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    let setting = scene.setting("a");
    tokio::time::sleep(SHORT_WAIT).await;
    setting.abort();
    within(TIMEOUT, "counting", async {
        while counted(&scene, "unknown").await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    scene.faults.lift();
    let landed = async { while scene.properties().await != ["a"] {} };
    within(TIMEOUT, "the pending commit", landed).await;
    assert_eq!((counted(&scene, "unknown").await, counted(&scene, "done").await), (1, 0));
}

#[tokio::test]
async fn replayed_commit_is_counted_once() {
    let scene = Scene::new().await;
    let key = [("idempotency-key", "00000000-0000-7000-8000-000000000001")];
    let body = json!({ "requirements": [], "updates": [set_property("a", "a")] });
    for _ in 0..2 {
        scene.app.request(Method::POST, TABLE, &key, &body).await.expect(200);
    }
    assert_eq!(counted(&scene, "done").await, 1);
}

#[tokio::test]
async fn failed_log_puts_are_retried_until_they_succeed() {
    let scene = Scene::new().await;
    scene.faults.inject_times(Verb::Put, LOG, Fault::Fail, 2);
    scene.set("a").await.expect(200);
    scene.assert_is(&["a"]).await;
}

#[tokio::test]
async fn log_puts_with_lost_responses_are_acknowledged_once_and_do_not_fence() {
    let scene = Scene::new().await;
    for key in ["a", "b", "c"] {
        scene.faults.inject_times(Verb::Put, LOG, Fault::LoseResponse, 1);
        scene.set(key).await.expect(200);
    }
    scene.app.get("/ready").await.expect(200);
    let loaded = scene.app.get(TABLE).await.expect(200);
    let log = loaded.body["metadata"]["metadata-log"].as_array().map(Vec::len);
    assert_eq!(log, Some(3), "three commits, three versions");
    scene.assert_is(&["a", "b", "c"]).await;
}

#[tokio::test]
async fn slow_log_puts_only_delay_responses() {
    let scene = Scene::new().await;
    scene.faults.inject(Verb::Any, EVERYTHING, Fault::Delay(1..40));
    let setting: Vec<_> = ["a", "b", "c", "d"].into_iter().map(|key| scene.setting(key)).collect();
    for set in setting {
        set.await.expect("no panic").expect(200);
    }
    scene.faults.lift();
    scene.assert_is(&["a", "b", "c", "d"]).await;
}

/// S3 sometimes returns `409 ConditionalRequestConflict`, which `object_store` interprets as
/// "exists already" and SlateDB as another writer. Without another writer, the put is retried.
#[tokio::test]
async fn false_conflict_of_a_log_put_loses_neither_the_writer_nor_a_commit() {
    let scene = Scene::new().await;
    scene.set("a").await.expect(200);
    scene.faults.inject_times(Verb::Put, LOG, Fault::FalseConflict, 2);
    scene.set("b").await.expect(200);
    scene.faults.inject_times(Verb::Put, MANIFESTS, Fault::FalseConflict, 2);
    scene.app.app.runtime.catalog.flush().await.expect("the store is open");
    assert_eq!(scene.faults.remaining(), 0, "not all conflicts were injected into manifests");
    scene.faults.inject_times(Verb::Put, METADATA_FILES, Fault::FalseConflict, 2);
    scene.set("c").await.expect(200);
    scene.app.get("/ready").await.expect(200);
    scene.assert_is(&["a", "b", "c"]).await;
    let next = scene.crash().await;
    next.assert_is(&["a", "b", "c"]).await;
}

/// The response to the first attempt is lost. The second attempt conflicts with the first one.
#[tokio::test]
async fn lost_response_followed_by_a_conflict_is_one_successful_put() {
    let scene = Scene::new().await;
    for (key, file) in [("a", LOG), ("b", METADATA_FILES)] {
        scene.faults.inject_times(Verb::Put, file, Fault::LoseResponse, 1);
        scene.faults.inject_times(Verb::Put, file, Fault::FalseConflict, 1);
        scene.set(key).await.expect(200);
        assert_eq!(scene.faults.remaining(), 0, "not all faults were injected into {file}");
    }
    scene.app.get("/ready").await.expect(200);
    scene.assert_is(&["a", "b"]).await;
}

//! A write-ahead log that does not take what it is given: nothing is told before it is durable, and what
//! was handed to it ends as done or as unknown.

use std::time::Duration;

use crate::scene::{PATIENCE, Scene, TABLE, namespace, within};
use crate::support::faults::{EVERYTHING, Fault, LOG, Verb};

#[tokio::test]
async fn a_put_that_hangs_makes_the_outcome_unknown_and_readers_see_the_old_state() {
    let scene = Scene::new().await;
    scene.set("a").await.expect(200);
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    scene.set("b").await.expect_error(500, "CommitStateUnknownException");
    assert_eq!(scene.properties().await, ["a"], "what is not durable is seen by nobody");
    scene.set("c").await.expect(503);
    let created = scene.app.post("/v1/namespaces", namespace("other")).await;
    created.expect_error(500, "CommitStateUnknownException");
    scene.app.head("/v1/namespaces/other").await.expect(404);
    scene.faults.lift();
    let landed = async { while scene.properties().await != ["a", "b"] {} };
    within(PATIENCE, "landing", landed).await;
    scene.set("d").await.expect(200);
    scene.app.head("/v1/namespaces/other").await.expect(204);
    scene.assert_is(&["a", "b", "d"]).await;
}

#[tokio::test]
async fn puts_that_fail_are_tried_again_until_they_work() {
    let scene = Scene::new().await;
    scene.faults.inject_times(Verb::Put, LOG, Fault::Fail, 2);
    scene.set("a").await.expect(200);
    scene.assert_is(&["a"]).await;
}

#[tokio::test]
async fn puts_whose_answers_are_lost_are_acknowledged_once_and_fence_nobody() {
    let scene = Scene::new().await;
    for key in ["a", "b", "c"] {
        scene.faults.inject_times(Verb::Put, LOG, Fault::LoseAnswer, 1);
        scene.set(key).await.expect(200);
    }
    scene.app.get("/ready").await.expect(200);
    let loaded = scene.app.get(TABLE).await.expect(200);
    let log = loaded.body["metadata"]["metadata-log"].as_array().map(Vec::len);
    assert_eq!(log, Some(3), "three commits, three versions");
    scene.assert_is(&["a", "b", "c"]).await;
}

#[tokio::test]
async fn slow_puts_delay_answers_and_change_nothing_else() {
    let scene = Scene::new().await;
    scene.faults.inject(Verb::Any, EVERYTHING, Fault::Delay(1..40));
    let setting: Vec<_> = ["a", "b", "c", "d"].into_iter().map(|key| scene.setting(key)).collect();
    for set in setting {
        set.await.expect("no panic").expect(200);
    }
    scene.faults.lift();
    scene.assert_is(&["a", "b", "c", "d"]).await;
}

/// S3 answers `409 ConditionalRequestConflict` now and then, which `object_store` takes for "exists
/// already" and SlateDB for "another writer has been here". The server may step down for it; it may not
/// acknowledge anything that the next one does not find, and it may not answer 500 from then on.
#[tokio::test]
async fn a_false_conflict_costs_at_most_the_writer_and_never_a_commit() {
    let scene = Scene::new().await;
    scene.set("a").await.expect(200);
    scene.faults.inject_times(Verb::Put, LOG, Fault::FalseConflict, 1);
    let status = scene.set("b").await.status.as_u16();
    assert!([200, 500].contains(&status), "done or unknown, not {status}");
    let fenced = scene.app.get("/ready").await.status == 503;
    if fenced {
        scene.set("c").await.expect(503);
        scene.app.get(TABLE).await.expect(503);
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let next = scene.crash().await;
    let properties = next.properties().await;
    assert!(properties.contains(&"a".to_owned()), "acknowledged before");
    assert!(status != 200 || properties.contains(&"b".to_owned()), "acknowledged");
    assert!(!properties.contains(&"c".to_owned()), "refused");
    next.set("d").await.expect(200);
    assert!(fenced, "the engine does not tell a false conflict from a true one any more: say so");
}

//! Two writers on one bucket: the second fences the first, which then acknowledges nothing.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::scene::{PATIENCE, Scene, TABLE, within};
use crate::support::faults::{Fault, LOG, METADATA_FILES, Verb};

/// Commits until the server detects that it is fenced. Returns the acknowledged keys.
async fn until_deposed(scene: &Scene) -> Vec<String> {
    let mut acknowledged = Vec::new();
    let mut unknown = 0;
    within(PATIENCE, "being deposed", async {
        for attempt in 0.. {
            let key = format!("old-{attempt}");
            let answer = scene.set(&key).await;
            match answer.status.as_u16() {
                200 => acknowledged.push(key),
                500 => unknown += 1,
                503 => return,
                other => panic!("answered {other}: {}", answer.body),
            }
        }
    })
    .await;
    assert!(unknown <= 1, "{unknown} unknown outcomes: a deposed writer answers 500 for ever");
    acknowledged
}

#[tokio::test]
async fn the_first_writer_acknowledges_nothing_that_the_second_does_not_see() {
    let first = Scene::new().await;
    first.set("a").await.expect(200);
    let second = Scene::on(Arc::clone(&first.bucket)).await;
    assert_eq!(second.properties().await, ["a"]);
    let acknowledged = until_deposed(&first).await;
    let seen = second.properties().await;
    assert!(acknowledged.iter().all(|key| seen.contains(key)), "{acknowledged:?} in {seen:?}");
    for path in [TABLE, "/v1/namespaces", "/v1/namespaces/ns/tables", "/ready"] {
        first.app.get(path).await.expect(503);
    }
    let body = json!({ "namespace": ["late"] });
    first.app.post("/v1/namespaces", body).await.expect_error(503, "SlowDownException");
    second.set("b").await.expect(200);
    second.assert_is(&["a", "b"]).await;
}

#[tokio::test]
async fn a_commit_under_way_when_the_writer_is_deposed_is_unknown_and_never_half_there() {
    let first = Scene::new().await;
    first.faults.inject(Verb::Put, LOG, Fault::Hang);
    let logged = first.faults.count(Verb::Put, LOG);
    let setting = first.setting("a");
    first.faults.arrived(Verb::Put, LOG, logged + 1).await;
    let second = Scene::on(Arc::clone(&first.bucket)).await;
    first.faults.lift();
    let answer = setting.await.expect("no panic");
    answer.expect_error(500, "CommitStateUnknownException");
    first.set("b").await.expect(503);
    second.assert_is(&[]).await;
    second.set("c").await.expect(200);
    second.assert_is(&["c"]).await;
}

/// The first writer's commit is durable, but its file does not exist: both writers may write the
/// file, with the same content.
#[tokio::test]
async fn a_file_that_both_writers_owe_is_written_once() {
    let first = Scene::new().await;
    first.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    let setting = first.setting("a");
    setting.await.expect("no panic").expect_error(500, "CommitStateUnknownException");
    let second = Scene::on(Arc::clone(&first.bucket)).await;
    second.assert_is(&["a"]).await;
    second.set("b").await.expect(200);
    first.faults.lift();
    tokio::time::sleep(Duration::from_millis(100)).await;
    second.assert_is(&["a", "b"]).await;
    assert_eq!(first.faults.count(Verb::Delete, "warehouse/"), 0);
}

/// A fenced writer without writes answers reads from its present state until it detects the fence:
/// for one `manifest_poll_ms`, as documented, and no longer.
#[tokio::test]
async fn an_idle_deposed_writer_stops_answering_reads() {
    let first = Scene::new().await;
    let second = Scene::on(Arc::clone(&first.bucket)).await;
    second.set("new").await.expect(200);
    let deposed = async {
        while first.app.get(TABLE).await.status == 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(Duration::from_secs(5), "learning that it is deposed", deposed).await;
    first.app.get(TABLE).await.expect(503);
}

//! Two writers on one bucket: the second fences the first, which then acknowledges nothing.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::scene::{Scene, TABLE, TIMEOUT, within};
use crate::support::faults::{Fault, LOG, METADATA_FILES, Verb};

/// Commits until the server detects that it is fenced. Returns the acknowledged keys.
async fn commit_until_fenced(scene: &Scene) -> Vec<String> {
    let mut acknowledged = Vec::new();
    let mut unknown = 0;
    within(TIMEOUT, "the detection of the fence", async {
        for attempt in 0.. {
            let key = format!("old-{attempt}");
            let response = scene.set(&key).await;
            match response.status.as_u16() {
                200 => acknowledged.push(key),
                500 => unknown += 1,
                503 => return,
                other => panic!("answered {other}: {}", response.body),
            }
        }
    })
    .await;
    assert!(unknown <= 1, "{unknown} unknown outcomes: a fenced writer must respond with 503");
    acknowledged
}

#[tokio::test]
async fn fenced_writer_acknowledges_nothing_that_the_new_writer_lacks() {
    let first = Scene::new().await;
    first.set("a").await.expect(200);
    let second = Scene::on(Arc::clone(&first.bucket)).await;
    assert_eq!(second.properties().await, ["a"]);
    let acknowledged = commit_until_fenced(&first).await;
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
async fn commit_in_progress_when_its_writer_is_fenced_is_unknown_and_atomic() {
    let first = Scene::new().await;
    first.faults.inject(Verb::Put, LOG, Fault::Hang);
    let logged = first.faults.count(Verb::Put, LOG);
    let setting = first.setting("a");
    first.faults.wait_for_requests(Verb::Put, LOG, logged + 1).await;
    let second = Scene::on(Arc::clone(&first.bucket)).await;
    first.faults.lift();
    let response = setting.await.expect("no panic");
    response.expect_error(500, "CommitStateUnknownException");
    first.set("b").await.expect(503);
    second.assert_is(&[]).await;
    second.set("c").await.expect(200);
    second.assert_is(&["c"]).await;
}

/// The server puts several files of the log at the same time. The second file exists, but the first
/// one does not.
#[tokio::test]
async fn change_whose_log_file_follows_a_missing_one_is_not_acknowledged_and_never_appears() {
    let first = Scene::new().await;
    first.faults.inject_times(Verb::Put, LOG, Fault::Hang, 1);
    let logged = first.faults.count(Verb::Put, LOG);
    let setting = first.setting("a");
    first.faults.wait_for_requests(Verb::Put, LOG, logged + 1).await;
    let created = first.app.post("/v1/namespaces", json!({ "namespace": ["other"] })).await;
    created.expect_error(500, "CommitStateUnknownException");
    assert_eq!(first.faults.count(Verb::Put, LOG), logged + 2, "the puts overlap");
    let second = Scene::on(Arc::clone(&first.bucket)).await;
    second.set("b").await.expect(200);
    first.faults.lift();
    setting.await.expect("no panic").expect_error(500, "CommitStateUnknownException");
    let assert_lacks_both = async |scene: &Scene| {
        assert_eq!(scene.properties().await, ["b"]);
        scene.app.head("/v1/namespaces/other").await.expect(404);
    };
    assert_lacks_both(&second).await;
    assert_lacks_both(&Scene::on(Arc::clone(&first.bucket)).await).await;
}

/// When the second writer opens the bucket, the first writer's commit is durable, but its file does
/// not exist. Both writers may write the file, with the same content.
#[tokio::test]
async fn metadata_file_pending_in_both_writers_is_written_once() {
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

/// A fenced writer that does not write serves reads from its present state until it detects the
/// fence. The detection takes at most one `manifest_poll_ms`, as documented.
#[tokio::test]
async fn idle_fenced_writer_rejects_reads() {
    let first = Scene::new().await;
    let second = Scene::on(Arc::clone(&first.bucket)).await;
    second.set("new").await.expect(200);
    let deposed = async {
        while first.app.get(TABLE).await.status == 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(Duration::from_secs(5), "the detection of the fence", deposed).await;
    first.app.get(TABLE).await.expect(503);
}

//! Requests with an unknown outcome that are repeated with the same `Idempotency-Key`. Each is
//! applied exactly once.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::scene::{Scene, TABLE, TIMEOUT, namespace, within};
use crate::support::app::TestResponse;
use crate::support::faults::{Fault, LOG, METADATA_FILES, Verb};
use crate::support::table::{append, create_table, main_is};

/// Sends a request with the key of the test until its outcome is known.
async fn until_known(scene: &Scene, path: &str, body: &Value) -> TestResponse {
    within(TIMEOUT, "an outcome", async {
        loop {
            let answer = with_key(scene, path, body).await;
            if !answer.status.is_server_error() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

async fn with_key(scene: &Scene, path: &str, body: &Value) -> TestResponse {
    let key = Uuid::from_u128(7).to_string();
    scene.app.request(Method::POST, path, &[("idempotency-key", &key)], body).await
}

/// Sends a request three times: twice while puts to `part` hang, and then until they continue.
/// Returns the final response.
async fn unknown_then_known(scene: &Scene, part: &str, path: &str, body: &Value) -> TestResponse {
    scene.faults.inject(Verb::Put, part, Fault::Hang);
    with_key(scene, path, body).await.expect_error(500, "CommitStateUnknownException");
    // The outcome is still unknown, so the response must not claim that nothing was written.
    with_key(scene, path, body).await.expect_error(500, "CommitStateUnknownException");
    let lifting = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        scene.faults.lift();
    };
    let (answer, ()) = tokio::join!(until_known(scene, path, body), lifting);
    answer
}

fn appending() -> Value {
    json!({ "requirements": [main_is(None)], "updates": append(1, None, 1) })
}

#[tokio::test]
async fn commit_with_a_hanging_log_put_is_known_after_a_retry() {
    let scene = Scene::new().await;
    unknown_then_known(&scene, LOG, TABLE, &appending()).await.expect(200);
    let loaded = scene.app.get(TABLE).await.expect(200);
    assert_eq!(loaded.body["metadata"]["snapshots"].as_array().map(Vec::len), Some(1));
    scene.assert_is(&[]).await;
}

#[tokio::test]
async fn commit_with_a_hanging_metadata_put_is_known_after_a_retry() {
    let scene = Scene::new().await;
    unknown_then_known(&scene, METADATA_FILES, TABLE, &appending()).await.expect(200);
    scene.assert_is(&[]).await;
}

#[tokio::test]
async fn create_table_with_a_hanging_log_put_is_known_after_a_retry() {
    let scene = Scene::new().await;
    let tables = "/v1/namespaces/ns/tables";
    unknown_then_known(&scene, LOG, tables, &create_table("u")).await.expect(200);
    scene.app.get("/v1/namespaces/ns/tables/u").await.expect(200);
}

#[tokio::test]
async fn create_table_with_a_hanging_metadata_put_is_known_after_a_retry() {
    let scene = Scene::new().await;
    let tables = "/v1/namespaces/ns/tables";
    unknown_then_known(&scene, METADATA_FILES, tables, &create_table("u")).await.expect(200);
}

#[tokio::test]
async fn create_namespace_with_a_hanging_log_put_is_known_after_a_retry() {
    let scene = Scene::new().await;
    unknown_then_known(&scene, LOG, "/v1/namespaces", &namespace("other")).await.expect(200);
}

#[tokio::test]
async fn rename_with_a_hanging_log_put_is_known_after_a_retry() {
    let scene = Scene::new().await;
    let rename = json!({
        "source": { "namespace": ["ns"], "name": "t" },
        "destination": { "namespace": ["ns"], "name": "u" },
    });
    unknown_then_known(&scene, LOG, "/v1/tables/rename", &rename).await.expect(204);
}

/// Returns a transaction that appends to `ns.t`.
fn transaction() -> Value {
    let change = json!({
        "identifier": { "namespace": ["ns"], "name": "t" },
        "requirements": [main_is(None)], "updates": append(1, None, 1),
    });
    json!({ "table-changes": [change] })
}

#[tokio::test]
async fn transaction_with_a_hanging_log_put_is_known_after_a_retry() {
    let scene = Scene::new().await;
    let path = "/v1/transactions/commit";
    unknown_then_known(&scene, LOG, path, &transaction()).await.expect(204);
}

/// The transaction is not acknowledged before its files exist, neither by its response nor by a
/// replay.
#[tokio::test]
async fn transaction_with_a_hanging_metadata_put_is_known_after_a_retry() {
    let scene = Scene::new().await;
    let path = "/v1/transactions/commit";
    unknown_then_known(&scene, METADATA_FILES, path, &transaction()).await.expect(204);
    scene.app.get(TABLE).await.expect(200);
    scene.assert_is(&[]).await;
}

/// The process dies during the first request; the retry goes to the next process.
#[tokio::test]
async fn commit_of_a_crashed_process_is_known_after_a_retry() {
    for part in [LOG, METADATA_FILES] {
        let scene = Scene::new().await;
        scene.faults.inject(Verb::Put, part, Fault::Hang);
        let unknown = with_key(&scene, TABLE, &appending()).await;
        unknown.expect_error(500, "CommitStateUnknownException");
        let scene = scene.crash().await;
        until_known(&scene, TABLE, &appending()).await.expect(200);
        let replayed = until_known(&scene, TABLE, &appending()).await.expect(200);
        let snapshots = replayed.body["metadata"]["snapshots"].as_array().map(Vec::len);
        assert_eq!(snapshots, Some(1));
        scene.assert_is(&[]).await;
    }
}

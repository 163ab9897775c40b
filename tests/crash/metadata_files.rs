//! A warehouse that rejects metadata files: a commit waits for its file, or its outcome is unknown,
//! and no response contains a `metadata-location` that does not exist.

use serde_json::{Value, json};

use crate::scene::{DEADLINE, Scene, TABLE, TIMEOUT, within};
use crate::support::faults::{Fault, METADATA_FILES, Verb};
use crate::support::table::{create_table, creating_updates, set_property};

/// Returns a change that creates the table `ns.u`.
fn table_creation() -> Value {
    json!({
        "identifier": { "namespace": ["ns"], "name": "u" },
        "requirements": [{ "type": "assert-create" }],
        "updates": creating_updates(),
    })
}

#[tokio::test]
async fn failed_metadata_put_is_retried_until_it_succeeds() {
    let scene = Scene::new().await;
    let before = scene.faults.count(Verb::Put, METADATA_FILES);
    scene.faults.inject_times(Verb::Put, METADATA_FILES, Fault::Fail, 2);
    scene.set("a").await.expect(200);
    assert_eq!(scene.faults.count(Verb::Put, METADATA_FILES) - before, 3, "the third put succeeds");
    scene.assert_is(&["a"]).await;
}

#[tokio::test]
async fn metadata_put_with_a_lost_response_is_acknowledged_once() {
    let scene = Scene::new().await;
    scene.faults.inject_times(Verb::Put, METADATA_FILES, Fault::LoseResponse, 2);
    let committed = scene.set("a").await.expect(200);
    let log = committed.body["metadata"]["metadata-log"].as_array().map(Vec::len);
    assert_eq!(log, Some(1), "one commit, one version");
    scene.set("b").await.expect(200);
    scene.assert_is(&["a", "b"]).await;
}

#[tokio::test]
async fn hanging_metadata_put_makes_the_outcome_unknown_and_blocks_the_table() {
    let scene = Scene::new().await;
    scene.set("a").await.expect(200);
    scene.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    scene.set("b").await.expect_error(500, "CommitStateUnknownException");
    // The new version is durable, but its file does not exist: no response may contain its
    // location.
    scene.app.get(TABLE).await.expect(503);
    scene.set("c").await.expect(503);
    scene.app.head(TABLE).await.expect(204);
    scene.app.create_namespace(&["other"]).await;
    scene.faults.lift();
    within(TIMEOUT, "publishing", async { while scene.app.get(TABLE).await.status != 200 {} })
        .await;
    scene.assert_is(&["a", "b"]).await;
    scene.set("d").await.expect(200);
    scene.assert_is(&["a", "b", "d"]).await;
}

#[tokio::test]
async fn reader_waits_for_a_metadata_file_that_arrives_in_time() {
    let scene = Scene::new().await;
    scene.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    let puts = scene.faults.count(Verb::Put, METADATA_FILES);
    let setting = scene.setting("a");
    scene.faults.wait_for_requests(Verb::Put, METADATA_FILES, puts + 1).await;
    let lifting = async {
        tokio::time::sleep(DEADLINE / 4).await;
        scene.faults.lift();
    };
    let (loaded, ()) = tokio::join!(scene.app.get(TABLE), lifting);
    let loaded = loaded.expect(200);
    assert!(scene.file_of(&loaded).await.is_some(), "the returned metadata file is missing");
    setting.await.expect("no panic").expect(200);
    scene.assert_is(&["a"]).await;
}

#[tokio::test]
async fn table_with_a_hanging_first_metadata_file_is_invisible() {
    let scene = Scene::new().await;
    scene.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    let tables = "/v1/namespaces/ns/tables";
    let created = scene.app.post(tables, create_table("new")).await;
    created.expect_error(500, "CommitStateUnknownException");
    scene.app.get("/v1/namespaces/ns/tables/new").await.expect(503);
    // Other tables are not delayed.
    scene.app.get(TABLE).await.expect(200);
    scene.faults.lift();
    let new = "/v1/namespaces/ns/tables/new";
    within(TIMEOUT, "publishing", async { while scene.app.get(new).await.status != 200 {} }).await;
    let again = scene.app.post(tables, create_table("new")).await;
    again.expect_error(409, "AlreadyExistsException");
    scene.assert_is(&[]).await;
}

#[tokio::test]
async fn transaction_is_invisible_until_all_its_metadata_files_are_written() {
    let scene = Scene::new().await;
    scene.app.create_table("ns", "u").await;
    let change = |table: &str| {
        json!({
            "identifier": { "namespace": ["ns"], "name": table }, "requirements": [],
            "updates": [set_property("a", "a")],
        })
    };
    let body = json!({ "table-changes": [change("t"), change("u")] });
    scene.faults.inject(Verb::Put, "warehouse/ns/u", Fault::Hang);
    let committed = scene.app.post("/v1/transactions/commit", body).await;
    committed.expect_error(500, "CommitStateUnknownException");
    for table in ["t", "u"] {
        let answer = scene.app.get(&format!("/v1/namespaces/ns/tables/{table}")).await;
        answer.expect(503);
    }
    scene.faults.lift();
    for table in ["t", "u"] {
        let path = format!("/v1/namespaces/ns/tables/{table}");
        let loaded = within(TIMEOUT, "publishing", async {
            loop {
                let loaded = scene.app.get(&path).await;
                if loaded.status == 200 {
                    return loaded;
                }
            }
        })
        .await;
        assert_eq!(loaded.body["metadata"]["properties"]["a"], "a");
    }
    scene.assert_is(&["a"]).await;
}

/// A table that a transaction creates is visible when the transaction is accepted. No other request
/// commits on top of a version whose file could be lost in a crash.
#[tokio::test]
async fn table_created_by_a_transaction_waits_for_its_first_metadata_file() {
    let scene = Scene::new().await;
    // Only the put of the first file hangs. If the server accepted a second version, its file would
    // be written.
    scene.faults.inject_times(Verb::Put, METADATA_FILES, Fault::Hang, 1);
    let transaction = json!({ "table-changes": [table_creation()] });
    let response = scene.app.post("/v1/transactions/commit", transaction).await;
    response.expect_error(500, "CommitStateUnknownException");
    scene.app.commit("ns", "u", vec![], vec![set_property("a", "a")]).await.expect(503);
    let scene = scene.crash().await;
    scene.app.commit("ns", "u", vec![], vec![set_property("b", "b")]).await.expect(200);
    let loaded = scene.app.get("/v1/namespaces/ns/tables/u").await.expect(200);
    let log = loaded.body["metadata"]["metadata-log"].as_array().expect("it has a past");
    assert_eq!(log.len(), 1, "one file before this one");
    let first = log[0]["metadata-file"].as_str().expect("a location");
    assert!(scene.file_at(first).await.is_some(), "a file of the metadata log is missing");
    scene.assert_is(&[]).await;
}

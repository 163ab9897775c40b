//! Unfinished work of a dead process is completed by the next one before it serves.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde_json::json;

use crate::scene::{Scene, TABLE, TIMEOUT};
use crate::support::faults::{Fault, FaultStore, LOG, METADATA_FILES, Verb};
use crate::support::fsck::assert_sound;
use crate::support::table::{create_table, set_property};

#[tokio::test]
async fn durable_commit_without_its_metadata_file_is_published_at_the_next_start() {
    let scene = Scene::new().await;
    scene.set("a").await.expect(200);
    scene.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    scene.set("b").await.expect_error(500, "CommitStateUnknownException");
    assert_sound(Arc::clone(&scene.bucket)).await;
    let scene = scene.crash().await;
    scene.assert_is(&["a", "b"]).await;
    scene.set("c").await.expect(200);
    scene.assert_is(&["a", "b", "c"]).await;
}

#[tokio::test]
async fn commit_that_was_not_durable_is_lost_despite_its_metadata_file() {
    let scene = Scene::new().await;
    scene.set("a").await.expect(200);
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    let files = scene.faults.count(Verb::Put, METADATA_FILES);
    scene.set("b").await.expect_error(500, "CommitStateUnknownException");
    assert_eq!(scene.faults.count(Verb::Put, METADATA_FILES), files + 1, "written besides the log");
    let scene = scene.crash().await;
    scene.assert_is(&["a"]).await;
    scene.set("c").await.expect(200);
    scene.assert_is(&["a", "c"]).await;
}

#[tokio::test]
async fn durable_transaction_with_some_metadata_files_is_published_completely() {
    let scene = Scene::new().await;
    scene.app.create_table("ns", "u").await;
    let change = |table: &str| {
        json!({
            "identifier": { "namespace": ["ns"], "name": table }, "requirements": [],
            "updates": [set_property("a", "a")],
        })
    };
    scene.faults.inject(Verb::Put, "warehouse/ns/u", Fault::Hang);
    let body = json!({ "table-changes": [change("t"), change("u")] });
    scene.app.post("/v1/transactions/commit", body).await.expect(500);
    let scene = scene.crash().await;
    scene.assert_is(&["a"]).await;
    let other = scene.app.get("/v1/namespaces/ns/tables/u").await.expect(200);
    assert_eq!(scene.file_of(&other).await.as_ref(), Some(&other.body["metadata"]));
    assert_eq!(other.body["metadata"]["properties"]["a"], "a");
}

#[tokio::test]
async fn durable_table_and_view_without_metadata_files_are_published_at_the_next_start() {
    let scene = Scene::new().await;
    scene.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    scene.app.post("/v1/namespaces/ns/tables", create_table("new")).await.expect(500);
    let scene = scene.crash().await;
    let created = scene.app.get("/v1/namespaces/ns/tables/new").await.expect(200);
    assert_eq!(scene.file_of(&created).await.as_ref(), Some(&created.body["metadata"]));
    scene.assert_is(&[]).await;
}

/// The next process dies while it completes the publication: either before the metadata file
/// exists, or before the publication marker is removed.
#[tokio::test]
async fn publication_survives_repeated_crashes() {
    for part in [METADATA_FILES, LOG] {
        let scene = Scene::new().await;
        scene.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
        scene.set("a").await.expect_error(500, "CommitStateUnknownException");
        scene.faults.kill();
        let next = FaultStore::new(Arc::clone(&scene.bucket));
        next.inject(Verb::Put, METADATA_FILES, Fault::Hang);
        let opening = tokio::spawn(Scene::open(Arc::clone(&next)));
        next.wait_for_requests(Verb::Put, METADATA_FILES, 1).await;
        if part == LOG {
            let puts = next.count(Verb::Put, LOG);
            next.inject(Verb::Put, LOG, Fault::Hang);
            next.lift_from(METADATA_FILES);
            next.wait_for_requests(Verb::Put, LOG, puts + 1).await;
        }
        next.kill();
        opening.abort();
        let scene = Scene::on(scene.bucket).await;
        scene.assert_is(&["a"]).await;
    }
}

/// Another program wrote the registered file. So the file already exists, and the server does not
/// know how it is compressed.
#[tokio::test]
async fn overwriting_registration_survives_a_crash() {
    let scene = Scene::new().await;
    let loaded = scene.set("a").await.expect(200);
    let mut metadata = loaded.body["metadata"].clone();
    metadata["properties"]["registered"] = json!("yes");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(metadata.to_string().as_bytes()).expect("memory accepts all writes");
    let content = encoder.finish().expect("memory accepts all writes");
    let location = "memory:///warehouse/foreign/v1.gz.metadata.json";
    let path = Path::from("warehouse/foreign/v1.gz.metadata.json");
    scene.bucket.put(&path, content.into()).await.expect("memory accepts all writes");
    let body = json!({ "name": "t", "metadata-location": location, "overwrite": true });
    scene.app.post("/v1/namespaces/ns/register", body).await.expect(200);
    let scene = scene.crash().await;
    assert_eq!(scene.properties().await, ["a", "registered"]);
    let loaded = scene.app.get(TABLE).await.expect(200);
    assert_eq!(loaded.body["metadata-location"], location);
    assert_sound(Arc::clone(&scene.bucket)).await;
    assert!(scene.bucket.head(&path).await.is_ok(), "the registered file still exists");
}

/// Data fetched by a warm-up is not fetched again by the first read.
#[tokio::test]
async fn first_read_after_a_warm_up_sends_no_request_to_the_bucket() {
    const SORTED_RUNS: &str = "state/compacted/";
    let scene = Scene::new().await;
    scene.set("a").await.expect(200);
    scene.app.app.runtime.catalog.flush().await.expect("the store is open");
    let warm = Scene::on(Arc::clone(&scene.bucket)).await;
    let warmed = warm.app.app.runtime.catalog.warm_up(TIMEOUT).await;
    assert!(warmed.of > 0 && warmed.files == warmed.of, "{warmed:?}");
    let fetched = warm.faults.count(Verb::Get, SORTED_RUNS);
    assert!(fetched > 0, "the warm-up fetches sorted runs");
    assert_eq!(warm.properties().await, ["a"]);
    assert_eq!(warm.faults.count(Verb::Get, SORTED_RUNS), fetched, "the read fetches nothing");
}

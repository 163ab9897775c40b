//! Unfinished work of a dead process is completed by the next one before it serves.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde_json::json;

use crate::scene::{PATIENCE, Scene, TABLE};
use crate::support::faults::{Fault, FaultStore, LOG, METADATA_FILES, Verb};
use crate::support::fsck::assert_sound;
use crate::support::table::{create_table, set_property};

#[tokio::test]
async fn a_commit_that_was_durable_without_its_file_is_published() {
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
async fn a_commit_that_never_was_durable_is_gone_though_its_file_is_there() {
    let scene = Scene::new().await;
    scene.set("a").await.expect(200);
    scene.faults.inject(Verb::Put, LOG, Fault::Hang);
    let files = scene.faults.count(Verb::Put, METADATA_FILES);
    scene.set("b").await.expect_error(500, "CommitStateUnknownException");
    assert_eq!(scene.faults.count(Verb::Put, METADATA_FILES), files + 1, "written side by side");
    let scene = scene.crash().await;
    scene.assert_is(&["a"]).await;
    scene.set("c").await.expect(200);
    scene.assert_is(&["a", "c"]).await;
}

#[tokio::test]
async fn a_transaction_with_some_of_its_files_is_published_whole() {
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
async fn a_table_and_a_view_that_were_durable_without_their_files_are_published() {
    let scene = Scene::new().await;
    scene.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    scene.app.post("/v1/namespaces/ns/tables", create_table("new")).await.expect(500);
    let scene = scene.crash().await;
    let created = scene.app.get("/v1/namespaces/ns/tables/new").await.expect(200);
    assert_eq!(scene.file_of(&created).await.as_ref(), Some(&created.body["metadata"]));
    scene.assert_is(&[]).await;
}

/// The next process dies during the same work: before the file exists, or before its marker is
/// removed.
#[tokio::test]
async fn publishing_survives_its_own_crashes() {
    for part in [METADATA_FILES, LOG] {
        let scene = Scene::new().await;
        scene.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
        scene.set("a").await.expect_error(500, "CommitStateUnknownException");
        scene.faults.kill();
        let next = FaultStore::new(Arc::clone(&scene.bucket));
        next.inject(Verb::Put, METADATA_FILES, Fault::Hang);
        let opening = tokio::spawn(Scene::open(Arc::clone(&next)));
        next.arrived(Verb::Put, METADATA_FILES, 1).await;
        if part == LOG {
            let puts = next.count(Verb::Put, LOG);
            next.inject(Verb::Put, LOG, Fault::Hang);
            next.lift_from(METADATA_FILES);
            next.arrived(Verb::Put, LOG, puts + 1).await;
        }
        next.kill();
        opening.abort();
        let scene = Scene::on(scene.bucket).await;
        scene.assert_is(&["a"]).await;
    }
}

/// A registered file belongs to another program: it exists already, and its compression is unknown.
#[tokio::test]
async fn a_table_that_was_registered_over_another_survives_a_crash() {
    let scene = Scene::new().await;
    let loaded = scene.set("a").await.expect(200);
    let mut metadata = loaded.body["metadata"].clone();
    metadata["properties"]["registered"] = json!("yes");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(metadata.to_string().as_bytes()).expect("memory takes everything");
    let content = encoder.finish().expect("memory takes everything");
    let location = "memory:///warehouse/foreign/v1.gz.metadata.json";
    let path = Path::from("warehouse/foreign/v1.gz.metadata.json");
    scene.bucket.put(&path, content.into()).await.expect("memory takes everything");
    let body = json!({ "name": "t", "metadata-location": location, "overwrite": true });
    scene.app.post("/v1/namespaces/ns/register", body).await.expect(200);
    let scene = scene.crash().await;
    assert_eq!(scene.properties().await, ["a", "registered"]);
    let loaded = scene.app.get(TABLE).await.expect(200);
    assert_eq!(loaded.body["metadata-location"], location);
    assert_sound(Arc::clone(&scene.bucket)).await;
    assert!(scene.bucket.head(&path).await.is_ok(), "the registered file is as it was");
}

/// Data fetched by a warm-up is not fetched again by the first read.
#[tokio::test]
async fn after_a_warm_up_the_first_read_asks_the_bucket_for_nothing() {
    const SORTED_RUNS: &str = "state/compacted/";
    let scene = Scene::new().await;
    scene.set("a").await.expect(200);
    scene.app.app.runtime.catalog.flush().await.expect("the store is open");
    let warm = Scene::on(Arc::clone(&scene.bucket)).await;
    let warmed = warm.app.app.runtime.catalog.warm_up(PATIENCE).await;
    assert!(warmed.of > 0 && warmed.files == warmed.of, "{warmed:?}");
    let fetched = warm.faults.count(Verb::Get, SORTED_RUNS);
    assert!(fetched > 0, "the warm-up asks for them");
    assert_eq!(warm.properties().await, ["a"]);
    assert_eq!(warm.faults.count(Verb::Get, SORTED_RUNS), fetched, "the read does not");
}

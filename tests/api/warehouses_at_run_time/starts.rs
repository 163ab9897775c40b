//! Restarts with warehouses that were created at run time, and with a configuration that contains
//! them.

use std::sync::Arc;

use serde_json::json;
use slateberg::app::App;
use slateberg_base::secret::Secret;
use slateberg_config::{Settings, WarehouseSettings};
use slateberg_runtime::dependencies::Dependencies;

use super::{LAKE, WAREHOUSES, at, fill, fill_more, lake};
use crate::support::app::{TestApp, bucket_opener, memory_settings};
use crate::support::bucket::bucket;
use crate::support::fsck::assert_sound;

/// Returns settings with a warehouse `lake` at a location.
fn configured(location: &str) -> Settings {
    let mut settings = memory_settings();
    let lake = WarehouseSettings { location: location.to_owned(), ..Default::default() };
    settings.warehouses.insert("lake".to_owned(), lake);
    settings
}

#[tokio::test]
async fn configuration_takes_over_a_warehouse_at_its_location() {
    let app = TestApp::new().await;
    let made = app.post(WAREHOUSES, lake()).await.expect(201).body;
    fill(&app).await;
    let before = app.visible_state("/v1/lake").await;
    app.app.runtime.catalog.close().await.expect("it closes");
    let bucket = Arc::clone(&app.bucket);

    let dependencies =
        Dependencies { opener: bucket_opener(Arc::clone(&bucket)), ..Dependencies::default() };
    let error = App::build(configured("memory:///elsewhere"), dependencies).await.err();
    let error = error.expect("it does not open").to_string();
    assert!(error.starts_with("warehouses.lake: ") && error.contains("memory:///lake"), "{error}");

    let app = TestApp::with(Arc::clone(&bucket), configured("memory:///lake/")).await;
    assert_eq!(app.visible_state("/v1/lake").await, before);
    let response_body = app.get(LAKE).await.expect(200).body;
    assert_eq!(
        (&response_body["source"], &response_body["id"]),
        (&json!("configuration"), &made["id"])
    );
    app.delete(LAKE).await.expect_error(409, "ConflictException");
    app.app.runtime.catalog.close().await.expect("it closes");

    // A warehouse that is removed from the configuration is not served, but keeps its location and
    // name.
    let app = TestApp::on(Arc::clone(&bucket)).await;
    app.get(LAKE).await.expect_error(404, "NoSuchWarehouseException");
    app.get("/v1/lake/namespaces").await.expect(404);
    let other = app.post(WAREHOUSES, at("other", "memory:///lake/x")).await;
    assert!(other.message().ends_with("that of another warehouse"), "{}", other.message());
    app.post(WAREHOUSES, at("lake", "memory:///elsewhere")).await.expect(409);
    // A request that creates the warehouse with the same location takes it over with its contents.
    let again = app.post(WAREHOUSES, lake()).await.expect(201).body;
    assert_eq!((&again["source"], &again["id"]), (&json!("api"), &made["id"]));
    assert_eq!(app.visible_state("/v1/lake").await, before);
    fill_more(&app).await;
    assert_sound(bucket).await;
}

/// Returns settings with credentials of this name.
fn with_credentials(name: &str) -> Settings {
    let mut settings = memory_settings();
    let set = [("aws_region".to_owned(), Secret::new("eu"))];
    settings.credentials.insert(name.to_owned(), set.into());
    settings
}

#[tokio::test]
async fn warehouse_that_cannot_be_opened_does_not_affect_others_and_can_be_updated() {
    let app = TestApp::with(bucket(), with_credentials("a")).await;
    let mut requested = at("lake", "s3://bucket/lake");
    requested["storage"]["credentials"] = json!("a");
    app.post(WAREHOUSES, requested).await.expect(201);
    fill(&app).await;
    app.post("/v1/namespaces", json!({ "namespace": ["mine"] })).await.expect(200);
    let before = app.visible_state("/v1/lake").await;
    app.app.runtime.catalog.close().await.expect("it closes");

    let app = TestApp::with(Arc::clone(&app.bucket), with_credentials("b")).await;
    app.get("/v1/namespaces/mine").await.expect(200);
    for path in
        ["/v1/lake/namespaces", "/v1/lake/namespaces/ns/tables/t", "/v1/config?warehouse=lake"]
    {
        app.get(path).await.expect_error(503, "SlowDownException");
    }
    let response_body = app.get(LAKE).await.expect(200).body;
    assert_eq!(response_body["status"], "unavailable");
    let problem = "There are no credentials 'a' in the server's configuration";
    assert_eq!(response_body["problem"], problem);
    app.delete(LAKE).await.expect_error(409, "WarehouseNotEmptyException");
    let same = json!({ "storage": { "credentials": "a" } });
    assert_eq!(app.put(LAKE, same).await.expect(400).message(), problem);
    let mended = app.put(LAKE, json!({ "storage": { "credentials": "b" } })).await.expect(200).body;
    assert_eq!((&mended["status"], &mended["problem"]), (&json!("open"), &json!(null)));
    assert_eq!(app.visible_state("/v1/lake").await, before);
    let change = json!({ "requirements": [], "updates": [] });
    app.post("/v1/lake/namespaces/ns/tables/t", change).await.expect(200);
}

#[tokio::test]
async fn a_configured_warehouse_that_overlaps_with_one_from_the_api_is_rejected() {
    let app = TestApp::new().await;
    app.post(WAREHOUSES, lake()).await.expect(201);
    app.app.runtime.catalog.close().await.expect("it closes");
    let mut settings = memory_settings();
    let pond = WarehouseSettings { location: "memory:///lake/pond".into(), ..Default::default() };
    settings.warehouses.insert("pond".to_owned(), pond);
    let dependencies =
        Dependencies { opener: bucket_opener(Arc::clone(&app.bucket)), ..Dependencies::default() };
    let error =
        App::build(settings, dependencies).await.err().expect("it does not open").to_string();
    assert!(error.starts_with("warehouses.pond.location: the warehouse lake"), "{error}");
    assert!(error.contains("'memory:///lake'"), "{error}");
}

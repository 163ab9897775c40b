//! Restarts with warehouses that were created at run time, and with a configuration that contains
//! them.

use std::sync::Arc;

use serde_json::json;
use slateberg::app::App;
use slateberg_base::secret::Secret;
use slateberg_config::{Settings, WarehouseSettings};
use slateberg_runtime::seams::Seams;

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
async fn the_configuration_takes_over_what_is_where_it_says() {
    let app = TestApp::new().await;
    let made = app.post(WAREHOUSES, lake()).await.expect(201).body;
    fill(&app).await;
    let before = app.seen("/v1/lake").await;
    app.app.runtime.catalog.close().await.expect("it closes");
    let bucket = Arc::clone(&app.bucket);

    let seams = Seams { opener: bucket_opener(Arc::clone(&bucket)), ..Seams::default() };
    let refused = App::build(configured("memory:///elsewhere"), seams).await.err();
    let refused = refused.expect("it does not open").to_string();
    assert!(
        refused.starts_with("warehouses.lake: ") && refused.contains("memory:///lake"),
        "{refused}"
    );

    let app = TestApp::with(Arc::clone(&bucket), configured("memory:///lake/")).await;
    assert_eq!(app.seen("/v1/lake").await, before);
    let told = app.get(LAKE).await.expect(200).body;
    assert_eq!((&told["source"], &told["id"]), (&json!("configuration"), &made["id"]));
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
    // At the same location, it is taken over with its contents.
    let again = app.post(WAREHOUSES, lake()).await.expect(201).body;
    assert_eq!((&again["source"], &again["id"]), (&json!("api"), &made["id"]));
    assert_eq!(app.seen("/v1/lake").await, before);
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
async fn one_that_cannot_be_opened_keeps_nobody_from_the_others_and_can_be_mended() {
    let app = TestApp::with(bucket(), with_credentials("a")).await;
    let mut wanted = at("lake", "s3://bucket/lake");
    wanted["storage"]["credentials"] = json!("a");
    app.post(WAREHOUSES, wanted).await.expect(201);
    fill(&app).await;
    app.post("/v1/namespaces", json!({ "namespace": ["mine"] })).await.expect(200);
    let before = app.seen("/v1/lake").await;
    app.app.runtime.catalog.close().await.expect("it closes");

    let app = TestApp::with(Arc::clone(&app.bucket), with_credentials("b")).await;
    app.get("/v1/namespaces/mine").await.expect(200);
    for path in
        ["/v1/lake/namespaces", "/v1/lake/namespaces/ns/tables/t", "/v1/config?warehouse=lake"]
    {
        app.get(path).await.expect_error(503, "SlowDownException");
    }
    let told = app.get(LAKE).await.expect(200).body;
    assert_eq!(told["status"], "unavailable");
    let problem = "There are no credentials 'a' in the server's configuration";
    assert_eq!(told["problem"], problem);
    app.delete(LAKE).await.expect_error(409, "WarehouseNotEmptyException");
    let same = json!({ "storage": { "credentials": "a" } });
    assert_eq!(app.put(LAKE, same).await.expect(400).message(), problem);
    let mended = app.put(LAKE, json!({ "storage": { "credentials": "b" } })).await.expect(200).body;
    assert_eq!((&mended["status"], &mended["problem"]), (&json!("open"), &json!(null)));
    assert_eq!(app.seen("/v1/lake").await, before);
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
    let seams = Seams { opener: bucket_opener(Arc::clone(&app.bucket)), ..Seams::default() };
    let refused = App::build(settings, seams).await.err().expect("it does not open").to_string();
    assert!(refused.starts_with("warehouses.pond.location: the warehouse lake"), "{refused}");
    assert!(refused.contains("'memory:///lake'"), "{refused}");
}

//! Opening and closing of embedded catalogs: only one process at a time opens a catalog, and
//! afterwards, a server can serve it over HTTP.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use iceberg::spec::TableMetadata;
use iceberg::{Catalog, ErrorKind};
use slateberg::app::App;
use slateberg_embedded::{EmbeddedCatalog, Error, OpenError, Settings, StoreError, cause};
use slateberg_runtime::dependencies::Dependencies;

use crate::support::app::{TestApp, memory_settings};
use crate::support::bucket::bucket;
use crate::support::embedded::{
    make_table, namespace, open_in, open_on, set_property, settings_in, with_any_files,
};
use crate::support::fsck::assert_sound;

/// Time limit for expected events.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Opens the catalog in this directory like `slateberg serve`.
async fn serve_in(directory: &Path) -> TestApp {
    let app = App::build(settings_in(directory), Dependencies::default()).await;
    TestApp::of(app.expect("the catalog opens"))
}

#[tokio::test]
async fn embedded_catalog_is_served_over_http() {
    let directory = tempfile::tempdir().expect("there is room");
    let opened = open_in(directory.path()).await;
    let catalog = opened.as_iceberg();
    let t = make_table(&catalog).await;
    let last = set_property(&catalog, &t, ("a", "1")).await.expect("it is committed");
    opened.close().await.expect("it closes");

    let server = serve_in(directory.path()).await;
    assert!(server.credential.is_some(), "the first server mints the admin key");
    let served = server.get("/v1/namespaces/ns/tables/t").await.expect(200).body;
    assert_eq!(served["metadata-location"].as_str(), last.metadata_location());
    let metadata: TableMetadata =
        serde_json::from_value(served["metadata"].clone()).expect("it is valid");
    assert_eq!(&metadata, last.metadata());
    server.create_namespace(&["later"]).await;
    server.app.runtime.catalog.close().await.expect("it closes");
    drop(server);

    let again = open_in(directory.path()).await;
    let found = again.as_iceberg().namespace_exists(&namespace(&["later"])).await;
    assert!(found.expect("an answer"));
    again.close().await.expect("it closes");
}

#[tokio::test]
async fn directory_is_locked_until_the_catalog_is_closed() {
    let directory = tempfile::tempdir().expect("there is room");
    let opened = open_in(directory.path()).await;
    let second = EmbeddedCatalog::open(settings_in(directory.path())).await;
    assert!(matches!(second, Err(OpenError::Lock(_))), "{second:?}");
    opened.close().await.expect("it closes");
    let second = open_in(directory.path()).await;
    second.close().await.expect("it closes");
}

#[tokio::test]
async fn closed_catalog_rejects_calls_and_can_be_closed_again() {
    let bucket = bucket();
    let opened = open_on(Arc::clone(&bucket)).await;
    let catalog = with_any_files(&opened);
    let t = make_table(&catalog).await;
    let other = opened.clone();
    let (one, another) = tokio::join!(opened.close(), other.close());
    one.and(another).expect("it closes once");
    opened.close().await.expect("it is closed");
    assert!(matches!(other.closed().await, StoreError::Closed));

    let reading = catalog.load_table(&t).await.expect_err("it is closed");
    let writing = catalog.drop_table(&t).await.expect_err("it is closed");
    for error in [reading, writing] {
        assert_eq!((error.kind(), error.retryable()), (ErrorKind::Unexpected, false), "{error}");
        assert!(matches!(cause(&error), Some(Error::Unavailable { .. })), "{error}");
    }
    assert_sound(bucket).await;
}

#[tokio::test]
async fn dropped_catalog_closes_itself() {
    let directory = tempfile::tempdir().expect("there is room");
    let t = {
        let catalog = open_in(directory.path()).await.as_iceberg();
        let t = make_table(&catalog).await;
        set_property(&catalog, &t, ("a", "1")).await.expect("it is committed");
        t
    };
    let again = async {
        loop {
            match EmbeddedCatalog::open(settings_in(directory.path())).await {
                Ok(again) => return again,
                Err(OpenError::Lock(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(other) => panic!("{other}"),
            }
        }
    };
    let again = tokio::time::timeout(TIMEOUT, again).await.expect("it opens");
    let table = again.as_iceberg().load_table(&t).await.expect("it is there");
    assert_eq!(table.metadata().properties().get("a").map(String::as_str), Some("1"));
    again.close().await.expect("it closes");
}

#[tokio::test]
async fn second_opening_of_a_bucket_fences_the_first() {
    let bucket = bucket();
    let first = open_on(Arc::clone(&bucket)).await;
    let t = make_table(&with_any_files(&first)).await;
    let second = open_on(Arc::clone(&bucket)).await;
    let lost = tokio::time::timeout(TIMEOUT, async {
        // This write detects the fence. An idle catalog would detect the fence only with its next
        // poll.
        let late = set_property(&with_any_files(&first), &t, ("late", "1")).await;
        assert!(late.is_err(), "the fenced catalog acknowledges nothing");
        first.closed().await
    });
    assert!(matches!(lost.await.expect("the fence is detected"), StoreError::Fenced));
    let table = set_property(&with_any_files(&second), &t, ("a", "1")).await.expect("it writes");
    assert!(!table.metadata().properties().contains_key("late"));
    second.close().await.expect("it closes");
}

#[tokio::test]
async fn settings_that_a_server_rejects_are_rejected() {
    let mut settings = memory_settings();
    settings.default_warehouse = "none".to_owned();
    let wrong = EmbeddedCatalog::open(settings).await.expect_err("there is no such warehouse");
    assert!(wrong.to_string().starts_with("default_warehouse: "), "{wrong}");

    // Settings that concern only a server have no effect.
    let directory = tempfile::tempdir().expect("there is room");
    let mut settings = Settings { ..settings_in(directory.path()) };
    settings.server.listen = "0.0.0.0:1".parse().expect("an address");
    settings.authn.insecure_no_auth = true;
    let opened = EmbeddedCatalog::open(settings).await.expect("it opens no port");
    opened.close().await.expect("it closes");
}

#[tokio::test]
async fn a_state_inside_a_warehouse_is_rejected() {
    let directory = tempfile::tempdir().expect("there is room");
    let mut settings = settings_in(directory.path());
    let warehouse = settings.warehouses.get_mut("default").expect("it exists");
    warehouse.location = format!("file://{}", directory.path().display());
    let error = EmbeddedCatalog::open(settings).await.expect_err("it does not open");
    assert!(error.to_string().contains("the catalog's own state is there"), "{error}");
    assert!(!directory.path().join("state").exists(), "nothing is written");
}

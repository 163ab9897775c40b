//! Secrets stay in the configuration: they are not accepted, returned or stored, and are used only
//! for the configured endpoints.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::json;
use slateberg::app::App;
use slateberg_base::secret::Secret;
use slateberg_objects::open::{OpenError, Opener};
use slateberg_runtime::dependencies::Dependencies;

use super::{WAREHOUSES, at};
use crate::support::app::{TestApp, bucket_opener, memory_settings};
use crate::support::bucket::bucket;

const KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// The options that each URL was opened with.
type Opened = Arc<Mutex<Vec<(String, BTreeMap<String, String>)>>>;

/// Returns a catalog with the credentials `lake`, and the options that stores are opened with.
async fn with_credentials(bucket: Arc<dyn ObjectStore>) -> (TestApp, Opened) {
    let mut settings = memory_settings();
    let secrets = [
        ("aws_access_key_id", "AKIAIOSFODNN7EXAMPLE"),
        ("aws_secret_access_key", KEY),
        ("aws_endpoint", "https://s3.example.com"),
    ];
    let secrets = secrets.map(|(key, value)| (key.to_owned(), Secret::new(value)));
    settings.credentials.insert("lake".to_owned(), secrets.into());
    settings.ambient_options = [
        ("aws_secret_access_key", "the environment's own key"),
        ("aws_session_token", "the environment's own token"),
        ("aws_region", "us-east-1"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let opened = Opened::default();
    let (record, inner) = (Arc::clone(&opened), bucket_opener(bucket));
    let opener: Opener = Arc::new(move |url, options| {
        record.lock().expect("no panic").push((url.to_owned(), options.clone()));
        if url.contains("broken") {
            let key = options.get("aws_secret_access_key").cloned().unwrap_or_default();
            return Err(OpenError::new(url, format!("bad key '{key}'")));
        }
        inner(url, options)
    });
    let app = App::build(settings, Dependencies { opener, ..Dependencies::default() })
        .await
        .expect("it opens");
    (TestApp::of(app), opened)
}

#[tokio::test]
async fn named_credentials_are_used_and_not_returned() {
    let bucket = bucket();
    let (app, opened) = with_credentials(Arc::clone(&bucket)).await;
    let mut requested = at("lake", "s3://bucket/lake");
    requested["storage"]["credentials"] = json!("lake");
    requested["storage"]["options"] = json!({ "aws_region": "eu-central-1" });
    let created = app.post(WAREHOUSES, requested).await.expect(201).body;
    let with = opened.lock().expect("no panic").last().cloned().expect("it was opened").1;
    // The options of the named credentials override those of the request, and no credential comes
    // from the environment.
    assert_eq!(
        with.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>(),
        [
            ("aws_access_key_id", "AKIAIOSFODNN7EXAMPLE"),
            ("aws_endpoint", "https://s3.example.com"),
            ("aws_region", "eu-central-1"),
            ("aws_secret_access_key", KEY),
        ]
    );
    // An alias of an option in the request does not override the named credentials either.
    let mut elsewhere = at("other", "s3://bucket/other");
    elsewhere["storage"]["credentials"] = json!("lake");
    elsewhere["storage"]["options"] = json!({ "endpoint_url": "https://other.example.com" });
    app.post(WAREHOUSES, elsewhere).await.expect(201);
    let with = opened.lock().expect("no panic").last().cloned().expect("it was opened").1;
    assert_eq!(with["aws_endpoint"], "https://s3.example.com");
    assert_eq!(with.get("endpoint_url"), None);

    assert_eq!(created["storage"]["credentials"], "lake");
    let everything = app.get(WAREHOUSES).await.expect(200).body.to_string() + &created.to_string();
    assert!(!everything.contains(KEY) && !everything.contains("AKIA"), "{everything}");
    // The secrets are not in the bucket either.
    app.app.runtime.catalog.close().await.expect("it closes");
    let objects: Vec<_> = bucket.list(None).try_collect().await.expect("memory is listed");
    for object in objects {
        let bytes = bucket.get(&object.location).await.expect("it is there").bytes().await;
        let bytes = bytes.expect("memory is read");
        let found = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
        assert!(!found, "{}", object.location);
    }
}

#[tokio::test]
async fn error_of_a_store_with_a_secret_is_redacted() {
    let (app, _) = with_credentials(bucket()).await;
    let mut requested = at("lake", "s3://broken/lake");
    requested["storage"]["credentials"] = json!("lake");
    let response = app.post(WAREHOUSES, requested.clone()).await;
    let message = "cannot open s3://broken/lake: bad key '(secret)'";
    assert_eq!(response.error(), (400, "IllegalArgumentException", message));
    requested["storage"]["credentials"] = json!(null);
    let response = app.post(WAREHOUSES, requested).await;
    assert_eq!(response.message(), message, "secrets of the environment are redacted too");
}

#[tokio::test]
async fn warehouse_options_with_secrets_are_rejected() {
    let (app, opened) = with_credentials(bucket()).await;
    let before = opened.lock().expect("no panic").len();
    for (location, option) in [
        ("s3://bucket/w", "aws_secret_access_key"),
        ("s3://bucket/w", "aws_session_token"),
        ("s3://bucket/w", "aws_bucket"),
        ("s3://bucket/w", "proxy_url"),
        ("gs://bucket/w", "google_service_account_key"),
        ("gs://bucket/w", "google_base_url"),
        ("az://container/w", "azure_storage_account_key"),
        ("az://container/w", "azure_endpoint"),
    ] {
        let mut requested = at("w", location);
        requested["storage"]["options"] = json!({ option: "hunter2" });
        let response = app.post_rejected(WAREHOUSES, requested).await;
        assert!(response.message().contains("[credentials.NAME]"), "{}", response.message());
        assert!(!response.message().contains("hunter2"), "{}", response.message());
    }
    let mut requested = at("w", "az://container/w");
    requested["storage"]["options"] = json!({ "account_name": "evil.example.com/x?" });
    app.post_rejected(WAREHOUSES, requested).await;
    assert_eq!(opened.lock().expect("no panic").len(), before, "nothing was opened");
}

#[tokio::test]
async fn options_of_the_configuration_that_may_be_secrets_are_not_returned() {
    let mut settings = memory_settings();
    let lake = slateberg_config::WarehouseSettings {
        location: "s3://bucket/lake".to_owned(),
        options: [("aws_secret_access_key", KEY), ("aws_region", "eu")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..Default::default()
    };
    settings.warehouses.insert("lake".to_owned(), lake);
    let app = TestApp::with(bucket(), settings).await;
    let response_body = app.get("/management/v1/warehouses/lake").await.expect(200).body;
    assert_eq!(response_body["storage"]["options"], json!({ "aws_region": "eu" }));
}

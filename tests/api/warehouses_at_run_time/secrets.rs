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
use slateberg_runtime::seams::Seams;

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
    let app = App::build(settings, Seams { opener, ..Seams::default() }).await.expect("it opens");
    (TestApp::of(app), opened)
}

#[tokio::test]
async fn credentials_are_used_by_their_name_and_told_to_nobody() {
    let bucket = bucket();
    let (app, opened) = with_credentials(Arc::clone(&bucket)).await;
    let mut wanted = at("lake", "s3://bucket/lake");
    wanted["storage"]["credentials"] = json!("lake");
    wanted["storage"]["options"] = json!({ "aws_region": "eu-central-1" });
    let made = app.post(WAREHOUSES, wanted).await.expect(201).body;
    let with = opened.lock().expect("no panic").last().cloned().expect("it was opened").1;
    // Options of the set override those of the request, and no credential comes from the
    // environment.
    assert_eq!(
        with.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>(),
        [
            ("aws_access_key_id", "AKIAIOSFODNN7EXAMPLE"),
            ("aws_endpoint", "https://s3.example.com"),
            ("aws_region", "eu-central-1"),
            ("aws_secret_access_key", KEY),
        ]
    );
    // The set's value applies, even if the request uses an alias of the option.
    let mut elsewhere = at("other", "s3://bucket/other");
    elsewhere["storage"]["credentials"] = json!("lake");
    elsewhere["storage"]["options"] = json!({ "endpoint_url": "https://other.example.com" });
    app.post(WAREHOUSES, elsewhere).await.expect(201);
    let with = opened.lock().expect("no panic").last().cloned().expect("it was opened").1;
    assert_eq!(with["aws_endpoint"], "https://s3.example.com");
    assert_eq!(with.get("endpoint_url"), None);

    assert_eq!(made["storage"]["credentials"], "lake");
    let everything = app.get(WAREHOUSES).await.expect(200).body.to_string() + &made.to_string();
    assert!(!everything.contains(KEY) && !everything.contains("AKIA"), "{everything}");
    // The bucket does not contain them either.
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
async fn what_a_store_says_of_a_secret_is_not_repeated() {
    let (app, _) = with_credentials(bucket()).await;
    let mut wanted = at("lake", "s3://broken/lake");
    wanted["storage"]["credentials"] = json!("lake");
    let refused = app.post(WAREHOUSES, wanted.clone()).await;
    let message = "cannot open s3://broken/lake: bad key '(secret)'";
    assert_eq!(refused.error(), (400, "IllegalArgumentException", message));
    wanted["storage"]["credentials"] = json!(null);
    let refused = app.post(WAREHOUSES, wanted).await;
    assert_eq!(refused.message(), message, "the environment's are no less secret");
}

#[tokio::test]
async fn no_secret_is_taken_over_http() {
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
        let mut wanted = at("w", location);
        wanted["storage"]["options"] = json!({ option: "hunter2" });
        let refused = app.refused(WAREHOUSES, wanted).await;
        assert!(refused.message().contains("[credentials.NAME]"), "{}", refused.message());
        assert!(!refused.message().contains("hunter2"), "{}", refused.message());
    }
    let mut wanted = at("w", "az://container/w");
    wanted["storage"]["options"] = json!({ "account_name": "evil.example.com/x?" });
    app.refused(WAREHOUSES, wanted).await;
    assert_eq!(opened.lock().expect("no panic").len(), before, "nothing was opened");
}

#[tokio::test]
async fn options_of_the_configuration_that_could_be_secrets_are_not_told() {
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
    let told = app.get("/management/v1/warehouses/lake").await.expect(200).body;
    assert_eq!(told["storage"]["options"], json!({ "aws_region": "eu" }));
}

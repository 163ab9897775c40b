//! A catalog whose write-ahead log is in a separate bucket.

use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use slateberg::app::App;
use slateberg_base::progress::Progress;
use slateberg_config::Settings;
use slateberg_kms::settings::KmsKind;
use slateberg_objects::conditional::Conditional;
use slateberg_objects::open::{Opened, Opener};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::error::BuildError;
use slateberg_runtime::offline::OfflineCatalog;
use slateberg_store::fsck::walk;
use tempfile::NamedTempFile;

use crate::scene::{TABLE, set};
use crate::support::app::{TestApp, memory_settings};
use crate::support::bucket::bucket;
use crate::support::faults::{Fault, FaultStore, LOG, Verb};

const LOG_URL: &str = "memory:///fast";

/// Two buckets with fault injection.
struct Buckets {
    rest: Arc<FaultStore>,
    log: Arc<FaultStore>,
}

impl Buckets {
    fn new() -> Self {
        Self { rest: FaultStore::new(bucket()), log: FaultStore::new(bucket()) }
    }

    fn dependencies(&self) -> Dependencies {
        let (rest, log) = (Arc::clone(&self.rest), Arc::clone(&self.log));
        let opener: Opener = Arc::new(move |url, _| {
            let path = url.trim_start_matches("memory:///");
            let bucket: Arc<dyn ObjectStore> = if url.starts_with(LOG_URL) {
                Arc::clone(&log) as _
            } else {
                Arc::clone(&rest) as _
            };
            Ok(Opened {
                object_store: Conditional::around(bucket),
                path: Path::from(path),
                conditional_update: true,
                directory: None,
                is_remote: false,
            })
        });
        Dependencies { opener, ..Dependencies::default() }
    }

    async fn start(&self, settings: Settings) -> Result<TestApp, BuildError> {
        Ok(TestApp::of(App::build(settings, self.dependencies()).await?))
    }
}

fn settings() -> Settings {
    let mut settings = memory_settings();
    settings.state.wal_url = LOG_URL.to_owned();
    settings
}

async fn properties(app: &TestApp) -> usize {
    let loaded = app.get(TABLE).await.expect(200);
    let properties = loaded.body["metadata"]["properties"].as_object().cloned();
    properties.unwrap_or_default().keys().filter(|key| !key.starts_with("write.")).count()
}

#[tokio::test]
async fn commits_are_written_to_the_separate_log_and_survive() {
    commits_survive_in_the_log(&Buckets::new(), settings()).await;
}

#[tokio::test]
async fn separate_log_is_encrypted() {
    let file = NamedTempFile::new().expect("there is room");
    std::fs::write(file.path(), "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
        .expect("it is written");
    let mut sealed = settings();
    sealed.encryption.kms = KmsKind::Local;
    sealed.encryption.local_key_file = file.path().to_owned();
    for (settings, tells) in [(sealed, false), (settings(), true)] {
        let buckets = Buckets::new();
        commits_survive_in_the_log(&buckets, settings).await;
        let log = contents(&buckets.log).await;
        assert!(log.len() > 4, "commits are in the log");
        let found = log.iter().any(|bytes| bytes.windows(8).any(|window| window == b"metadata"));
        // The run without encryption shows that a plaintext log contains the string.
        assert_eq!(found, tells);
    }
}

/// Returns the contents of all objects in a bucket.
async fn contents(bucket: &Arc<FaultStore>) -> Vec<Vec<u8>> {
    let objects: Vec<_> = bucket.list(None).try_collect().await.expect("it can be listed");
    let mut contents = Vec::new();
    for object in objects {
        let found = bucket.get(&object.location).await.expect("it is there").bytes().await;
        contents.push(found.expect("it can be read").to_vec());
    }
    contents
}

async fn commits_survive_in_the_log(buckets: &Buckets, settings: Settings) {
    let app = buckets.start(settings.clone()).await.expect("it starts");
    app.create_namespace(&["ns"]).await;
    app.create_table("ns", "t").await;
    set(&app, "a").await.expect(200);
    assert_eq!(buckets.rest.count(Verb::Put, LOG), 0, "the log is in the wrong bucket");
    assert!(buckets.log.count(Verb::Put, "fast/state/wal/") > 0);
    buckets.rest.kill();
    buckets.log.kill();
    buckets.rest.lift();
    buckets.log.lift();
    // The old catalog was never closed, so the new one fences it.
    let next = buckets.start(settings.clone()).await.expect("it starts");
    assert_eq!(properties(&next).await, 1);
    set(&next, "b").await.expect(200);
    let rejection = set(&app, "c").await.status.as_u16();
    assert!([500, 503].contains(&rejection), "the fenced catalog responded with {rejection}");
    assert_eq!(properties(&next).await, 2);
    let offline = OfflineCatalog::open(&settings, &buckets.dependencies()).await.expect("it opens");
    let report = walk(&offline.store, &Progress::default()).await.expect("it walks");
    assert!(report.broken.is_empty(), "{:#?}", report.broken);
    assert_eq!(report.tables, 1);
}

#[tokio::test]
async fn start_without_the_separate_log_is_rejected() {
    let buckets = Buckets::new();
    let app = buckets.start(settings()).await.expect("it starts");
    app.create_namespace(&["ns"]).await;
    app.app.runtime.catalog.close().await.expect("it closes");
    let mut elsewhere = settings();
    elsewhere.state.wal_url = format!("{LOG_URL}/another");
    for (settings, output_text) in [
        (memory_settings(), "set state.wal_url to that location"),
        (elsewhere, "write-ahead log mismatch"),
    ] {
        let error = buckets.start(settings.clone()).await.err().expect("it is refused").to_string();
        assert!(error.contains(output_text) && error.contains(LOG_URL), "{error}");
        let opened = OfflineCatalog::open(&settings, &buckets.dependencies()).await;
        let error = opened.err().expect("fsck is refused").to_string();
        assert!(error.contains(output_text), "{error}");
    }
    buckets.start(settings()).await.expect("it starts with its log");
}

#[tokio::test]
async fn unsafe_or_missing_separate_log_is_rejected() {
    let buckets = Buckets::new();
    buckets.log.inject(Verb::Put, "", Fault::IgnoreCondition);
    let error = buckets.start(settings()).await.err().expect("it is refused");
    let BuildError::Unfit { url, .. } = &error else { panic!("{error}") };
    assert_eq!(url, LOG_URL);
    buckets.log.lift();
    buckets.log.inject(Verb::Any, "", Fault::Fail);
    let mut hurried = settings();
    hurried.state.start_seconds_max = 1;
    let error = buckets.start(hurried).await.err().expect("it is refused");
    let BuildError::Unreachable { url, .. } = &error else { panic!("{error}") };
    assert_eq!(url, LOG_URL);
}

#[tokio::test]
async fn separate_log_is_rejected_for_a_directory_and_its_options_without_a_url() {
    let directory = tempfile::tempdir().expect("there is room");
    let mut settings = settings();
    settings.state.url = String::new();
    settings.data_dir = directory.path().join("data");
    let error = App::build(settings, Dependencies::default()).await.err().expect("it is refused");
    assert!(error.to_string().starts_with("state.wal_url: "), "{error}");
    let mut options = memory_settings();
    options.state.wal_options.insert("aws_region".to_owned(), "x".to_owned());
    let error = App::build(options, Dependencies::default()).await.err().expect("it is refused");
    assert!(error.to_string().starts_with("state.wal_options: "), "{error}");
}

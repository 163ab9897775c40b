//! [`Scene`]: a catalog with the table `ns.t` on a bucket that can inject faults.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};

use slateberg_catalog::append_rebase::AppendRebase;

use crate::support::app::{TestApp, TestResponse, memory_settings};
use crate::support::bucket::bucket;
use crate::support::faults::{FaultStore, Verb};
use crate::support::fsck::assert_sound;
use crate::support::table::set_property;

/// Commit deadline, after which the outcome is unknown.
pub const DEADLINE: Duration = Duration::from_millis(600);
/// Time limit for expected events.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which an unexpected response would arrive.
pub const SHORT_WAIT: Duration = Duration::from_millis(150);

/// The table of every scene.
pub const TABLE: &str = "/v1/namespaces/ns/tables/t";

/// A catalog in the process, its bucket, and the fault injection between them.
pub struct Scene {
    /// The bucket itself.
    pub bucket: Arc<dyn ObjectStore>,
    /// The fault injection in front of the bucket.
    pub faults: Arc<FaultStore>,
    /// The catalog.
    pub app: Arc<TestApp>,
}

impl Scene {
    /// Returns a catalog with the namespace `ns` and the table `ns.t`.
    pub async fn new() -> Self {
        let scene = Self::on(bucket()).await;
        scene.app.create_namespace(&["ns"]).await;
        scene.app.create_table("ns", "t").await;
        scene
    }

    /// Returns a catalog on the bucket of an earlier one.
    pub async fn on(bucket: Arc<dyn ObjectStore>) -> Self {
        let faults = FaultStore::new(Arc::clone(&bucket));
        let app = Self::open(Arc::clone(&faults)).await;
        Self { bucket, faults, app }
    }

    /// Opens a catalog on a bucket with this fault injection.
    pub async fn open(faults: Arc<FaultStore>) -> Arc<TestApp> {
        let mut settings = memory_settings();
        settings.catalog.orphan_age_seconds_min = 0;
        settings.catalog.append_rebase = AppendRebase::All;
        settings.catalog.commit_deadline_ms =
            u64::try_from(DEADLINE.as_millis()).expect("deadlines are short");
        within(TIMEOUT, "opening", async { Arc::new(TestApp::with(faults, settings).await) }).await
    }

    /// Stops the process like a crash, and opens the same bucket again.
    pub async fn crash(self) -> Self {
        self.faults.kill();
        Self::on(self.bucket).await
    }

    /// Sets a property of `ns.t`, with its key as the value.
    pub async fn set(&self, key: &str) -> TestResponse {
        set(&self.app, key).await
    }

    /// Sets a property in the background.
    pub fn setting(&self, key: &'static str) -> tokio::task::JoinHandle<TestResponse> {
        let app = Arc::clone(&self.app);
        tokio::spawn(async move { set(&app, key).await })
    }

    /// Returns the properties of `ns.t` that the tests have set. The table must exist.
    pub async fn properties(&self) -> Vec<String> {
        let loaded = self.app.get(TABLE).await.expect(200);
        let properties = loaded.body["metadata"]["properties"].as_object().cloned();
        let keys = properties.unwrap_or_default().into_iter().map(|(key, _)| key);
        keys.filter(|key| !key.starts_with("write.")).collect()
    }

    /// Returns the table's metadata file in the bucket.
    pub async fn file_of(&self, loaded: &TestResponse) -> Option<Value> {
        self.file_at(loaded.body["metadata-location"].as_str().expect("it is not staged")).await
    }

    /// Returns the metadata file at a location in the bucket.
    pub async fn file_at(&self, location: &str) -> Option<Value> {
        let path = Path::from(location.trim_start_matches("memory:///"));
        let content = self.bucket.get(&path).await.ok()?.bytes().await.expect("memory is read");
        Some(serde_json::from_slice(&content).expect("metadata files hold JSON"))
    }

    /// Asserts that `ns.t` has exactly these properties, that its metadata file matches the
    /// response, that the whole catalog is sound, and that no file was deleted.
    pub async fn assert_is(&self, properties: &[&str]) {
        assert_eq!(self.properties().await, properties);
        let loaded = self.app.get(TABLE).await.expect(200);
        let file = self.file_of(&loaded).await;
        assert_eq!(file.as_ref(), Some(&loaded.body["metadata"]), "file and response differ");
        assert_sound(Arc::clone(&self.bucket)).await;
        let deleted = self.faults.count(Verb::Delete, "warehouse/");
        assert_eq!(deleted, 0, "no request deletes a file");
    }
}

/// Sets a property of `ns.t`, with its key as the value.
pub async fn set(app: &TestApp, key: &str) -> TestResponse {
    app.commit("ns", "t", vec![], vec![set_property(key, key)]).await
}

/// Returns the body of a request that creates a namespace.
pub fn namespace(name: &str) -> Value {
    json!({ "namespace": [name] })
}

/// Waits for `work`. Panics if it takes longer than `bound`.
pub async fn within<T>(bound: Duration, what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(bound, work).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not end within {bound:?}"),
    }
}

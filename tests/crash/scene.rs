//! [`Scene`]: a catalog with the table `ns.t` on a bucket that can be made to misbehave.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};

use crate::support::app::{Answer, TestApp, memory_settings};
use crate::support::bucket::bucket;
use crate::support::faults::{FaultStore, Verb};
use crate::support::fsck::assert_sound;
use crate::support::table::set_property;

/// How long a commit may take before its outcome counts as unknown.
pub const DEADLINE: Duration = Duration::from_millis(600);
/// How long something may take that has to happen.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough for an answer that must not come to have come.
pub const A_WHILE: Duration = Duration::from_millis(150);

/// The table of every scene.
pub const TABLE: &str = "/v1/namespaces/ns/tables/t";

/// A catalog in the process, its bucket, and the faults between the two.
pub struct Scene {
    /// The bucket itself.
    pub bucket: Arc<dyn ObjectStore>,
    /// What stands in front of it.
    pub faults: Arc<FaultStore>,
    /// The catalog.
    pub app: Arc<TestApp>,
}

impl Scene {
    /// A catalog with the namespace `ns` and in it the table `t`.
    pub async fn new() -> Self {
        let scene = Self::on(bucket()).await;
        scene.app.create_namespace(&["ns"]).await;
        scene.app.create_table("ns", "t").await;
        scene
    }

    /// A catalog on a bucket that an earlier one has used.
    pub async fn on(bucket: Arc<dyn ObjectStore>) -> Self {
        let faults = FaultStore::new(Arc::clone(&bucket));
        let app = Self::open(Arc::clone(&faults)).await;
        Self { bucket, faults, app }
    }

    /// Opens a catalog behind these faults.
    pub async fn open(faults: Arc<FaultStore>) -> Arc<TestApp> {
        let mut settings = memory_settings();
        settings.catalog.orphan_age_seconds_min = 0;
        settings.catalog.commit_deadline_ms =
            u64::try_from(DEADLINE.as_millis()).expect("deadlines are short");
        within(PATIENCE, "opening", async { Arc::new(TestApp::with(faults, settings).await) }).await
    }

    /// The process dies here and now, and another one opens the same bucket.
    pub async fn crash(self) -> Self {
        self.faults.kill();
        Self::on(self.bucket).await
    }

    /// Sets a property of `ns.t` to itself.
    pub async fn set(&self, key: &str) -> Answer {
        set(&self.app, key).await
    }

    /// Sets a property in the background.
    pub fn setting(&self, key: &'static str) -> tokio::task::JoinHandle<Answer> {
        let app = Arc::clone(&self.app);
        tokio::spawn(async move { set(&app, key).await })
    }

    /// The properties of `ns.t` that the tests have set; it has to be there.
    pub async fn properties(&self) -> Vec<String> {
        let loaded = self.app.get(TABLE).await.expect(200);
        let properties = loaded.body["metadata"]["properties"].as_object().cloned();
        let keys = properties.unwrap_or_default().into_iter().map(|(key, _)| key);
        keys.filter(|key| !key.starts_with("write.")).collect()
    }

    /// The table's metadata file, as it is in the bucket.
    pub async fn file_of(&self, loaded: &Answer) -> Option<Value> {
        self.file_at(loaded.body["metadata-location"].as_str().expect("it is not staged")).await
    }

    /// The metadata file at a location, as it is in the bucket.
    pub async fn file_at(&self, location: &str) -> Option<Value> {
        let path = Path::from(location.trim_start_matches("memory:///"));
        let content = self.bucket.get(&path).await.ok()?.bytes().await.expect("memory is read");
        Some(serde_json::from_slice(&content).expect("metadata files hold JSON"))
    }

    /// Asserts that `ns.t` has exactly these properties, that its metadata file holds what is told, that
    /// the whole catalog is sound, and that nobody has deleted a file.
    pub async fn assert_is(&self, properties: &[&str]) {
        assert_eq!(self.properties().await, properties);
        let loaded = self.app.get(TABLE).await.expect(200);
        let file = self.file_of(&loaded).await;
        assert_eq!(file.as_ref(), Some(&loaded.body["metadata"]), "the file equals the record");
        assert_sound(Arc::clone(&self.bucket)).await;
        let deleted = self.faults.count(Verb::Delete, "warehouse/");
        assert_eq!(deleted, 0, "no request deletes a file");
    }
}

/// Sets a property of `ns.t` to itself.
pub async fn set(app: &TestApp, key: &str) -> Answer {
    app.commit("ns", "t", vec![], vec![set_property(key, key)]).await
}

/// A new namespace, as the body of a request.
pub fn namespace(name: &str) -> Value {
    json!({ "namespace": [name] })
}

/// Waits for something that has to happen in time.
pub async fn within<T>(bound: Duration, what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(bound, work).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not end within {bound:?}"),
    }
}

//! The bucket of a test's catalog: in memory, or a part of a real one.
//!
//! `SLATEBERG_TEST_STORE=s3://bucket` gives every test its own prefix in that bucket, opened as by
//! the server, with credentials and endpoint from the environment (`AWS_*`, `AZURE_*`).
//! `SLATEBERG_TEST_KEY_FILE=path` encrypts every state with the key in that file, in memory or in a
//! bucket. `make stores` does both; `scripts/store-suites` lists the tests that it skips.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt};
use slateberg_config::Settings;
use slateberg_kms::settings::KmsKind;
use slateberg_objects::open::open_url;
use uuid::Uuid;

/// Variable with the URL of the bucket.
const STORE: &str = "SLATEBERG_TEST_STORE";
/// Variable with the key file for the encryption of states.
const KEY_FILE: &str = "SLATEBERG_TEST_KEY_FILE";

/// Returns an empty bucket.
pub fn bucket() -> Arc<dyn ObjectStore> {
    let Some(url) = store_url() else { return Arc::new(InMemory::new()) };
    let opened = open_url(&url, &ambient_options()).expect("the store of the tests opens");
    let prefix = opened.path.join(format!("test-{}", fresh_id().simple()));
    Arc::new(PrefixStore::new(opened.object_store, prefix))
}

/// Returns environment variables for a server process. They put its state and its warehouse into
/// the real bucket, if there is one, below a prefix named after its data directory, and encrypt the
/// state if configured.
pub fn server_environment(data_dir: &Path) -> Vec<(String, String)> {
    let set = |key: &str, value: String| (format!("SLATEBERG__{key}"), value);
    let mut environment = Vec::new();
    if let Some(file) = variable(KEY_FILE) {
        environment.push(set("ENCRYPTION__KMS", "local".to_owned()));
        environment.push(set("ENCRYPTION__LOCAL_KEY_FILE", file));
    }
    if let Some(url) = store_url() {
        let name = data_dir.file_name().expect("it has a name").to_string_lossy();
        let base = format!("{url}/server-{}", name.trim_start_matches('.'));
        environment.push(set("STATE__URL", format!("{base}/state")));
        environment.push(set("WAREHOUSES__DEFAULT__LOCATION", format!("{base}/warehouse")));
    }
    environment
}

/// Encrypts the state of these settings if configured.
pub fn encrypt_if_enabled(settings: &mut Settings) {
    if let Some(file) = variable(KEY_FILE) {
        settings.encryption.kms = KmsKind::Local;
        settings.encryption.local_key_file = PathBuf::from(file);
    }
}

/// Returns the content of a file in the warehouse of a server process.
pub async fn read_location(location: &str) -> Result<Vec<u8>, String> {
    if let Some(path) = location.strip_prefix("file://") {
        return std::fs::read(path).map_err(|error| error.to_string());
    }
    let opened = open_url(location, &ambient_options()).map_err(|error| error.to_string())?;
    let read = async { opened.object_store.get(&opened.path).await?.bytes().await };
    read.await.map(Vec::from).map_err(|error| error.to_string())
}

/// Returns the URL of the bucket in the environment.
pub fn store_url() -> Option<String> {
    variable(STORE).map(|url| url.trim_end_matches('/').to_owned())
}

/// Returns the environment's settings of object stores, as options.
pub fn ambient_options() -> BTreeMap<String, String> {
    let all = std::env::vars_os();
    let texts =
        all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let known = ["AWS_", "AZURE_", "GOOGLE_"];
    let theirs = texts.filter(|(name, _)| known.iter().any(|prefix| name.starts_with(prefix)));
    theirs.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}

/// Returns an environment variable, if it is set and not empty.
pub fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.into_string().expect("it is a text");
    Some(value).filter(|value| !value.is_empty())
}

/// Returns a unique id.
pub fn fresh_id() -> Uuid {
    Uuid::from_u128(rand::random())
}

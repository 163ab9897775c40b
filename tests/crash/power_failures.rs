//! A power failure: metadata files that were written but not synced are lost or incomplete. The next
//! start restores them, also those of superseded versions.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::local::LocalFileSystem;
use serde_json::{Value, json};

use slateberg_store::Store;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::PublicationKey;
use slateberg_store::open::StoreLocation;
use slateberg_store::read::{KeyRange, StoreRead};

use crate::client::Client;
use crate::server::{Server, assert_sound};
use crate::support::table::{append, set_property};

const TABLE: &str = "namespaces/ns/tables/t";

/// The metadata files of acknowledged versions, with their content.
#[derive(Default)]
struct Acknowledged(BTreeMap<PathBuf, Vec<u8>>);

impl Acknowledged {
    fn insert(&mut self, response: &Value) {
        let file = path_of(response["metadata-location"].as_str().expect("a location"));
        let content = fs::read(&file).expect("the file exists before the response");
        self.0.insert(file, content);
    }

    #[track_caller]
    fn assert_complete(&self) {
        for (file, content) in &self.0 {
            let found =
                fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(found == *content, "{} has other content", file.display());
        }
    }
}

/// A server with the table `ns.t`, whose first version is acknowledged.
struct Running {
    data_dir: tempfile::TempDir,
    server: Server,
    client: Client,
    acknowledged: Acknowledged,
}

impl Running {
    async fn with_table() -> Self {
        let data_dir = tempfile::tempdir().expect("there is room");
        let server = Server::start(data_dir.path());
        let client = Client::of(&server.uri);
        client.create_namespace("ns").await.expect(200);
        let mut acknowledged = Acknowledged::default();
        acknowledged.insert(&client.create_table("ns", "t").await.expect(200));
        Self { data_dir, server, client, acknowledged }
    }
}

fn path_of(location: &str) -> PathBuf {
    PathBuf::from(location.strip_prefix("file://").expect("a local warehouse"))
}

/// Returns the files of a killed server that may be unsynced, in the order of their versions.
async fn unsynced_files(data_dir: &Path) -> Vec<PathBuf> {
    let directory = data_dir.join("state");
    let location = StoreLocation {
        object_store: Arc::new(LocalFileSystem::new().with_fsync(true)),
        path: directory.to_string_lossy().trim_start_matches('/').to_owned(),
        conditional_update: false,
        directory: Some(directory),
        log: None,
        encryption: None,
        storage: Default::default(),
    };
    let store = Store::open(&location, Default::default()).await.expect("the store opens");
    let all = KeyRange::all(KeySpace::Publications);
    let markers = store.latest().scan::<PublicationKey>(&all, None).await.expect("it is read");
    let mut files = Vec::new();
    for (key, marker) in markers {
        let head = marker.head.expect("a marker of a local file has a head");
        // Without its chunks, a version cannot be restored. So its file must be synced.
        let document = store.latest().document_of_marker(key, &head).await.expect("it is read");
        files.extend(document.map(|_| path_of(&marker.metadata_location)));
    }
    store.close().await.expect("it closes");
    files
}

/// Destroys files like a power failure.
fn destroy(files: &[PathBuf]) {
    for (number, file) in files.iter().enumerate() {
        match number % 3 {
            0 => fs::remove_file(file).expect("it was there"),
            1 => fs::write(file, "").expect("it can be written"),
            _ => {
                let content = fs::read(file).expect("it was there");
                fs::write(file, &content[..content.len() / 2]).expect("it can be written");
            }
        }
    }
}

/// Starts the server after a power failure. Stops it again, in the end without markers.
async fn restart_and_stop(data_dir: &Path) {
    let server = Server::start(data_dir);
    server.terminate();
    assert_eq!(server.wait_for_exit().code(), Some(0));
    assert_eq!(unsynced_files(data_dir).await, Vec::<PathBuf>::new(), "markers after a stop");
    assert_sound(data_dir, "after a power failure");
}

#[tokio::test]
async fn metadata_files_of_superseded_versions_survive_a_power_failure() {
    let Running { data_dir, server, client, mut acknowledged } = Running::with_table().await;
    for commit in 0..10 {
        acknowledged.insert(&client.set(TABLE, &commit.to_string()).await.expect(200));
    }
    server.kill();
    let unsynced = unsynced_files(data_dir.path()).await;
    assert!(unsynced.len() > 1, "all superseded versions were synced before the kill");
    destroy(&unsynced);
    restart_and_stop(data_dir.path()).await;
    acknowledged.assert_complete();
}

#[tokio::test]
async fn metadata_files_survive_a_power_failure_after_snapshots_were_removed() {
    let Running { data_dir, server, client, mut acknowledged } = Running::with_table().await;
    let commit = async |updates: Vec<Value>| {
        let body = json!({ "requirements": [], "updates": updates });
        client.post(TABLE, &body).await.expect(200)
    };
    let snapshots = 40;
    for snapshot in 1..=snapshots {
        let parent = (snapshot > 1).then_some(snapshot - 1);
        acknowledged.insert(&commit(append(snapshot, parent, snapshot)).await);
    }
    let removed: Vec<_> = (1..snapshots).collect();
    let remove = json!({ "action": "remove-snapshots", "snapshot-ids": removed });
    acknowledged.insert(&commit(vec![remove]).await);
    acknowledged.insert(&commit(vec![set_property("a", "a")]).await);
    server.kill();
    let unsynced = unsynced_files(data_dir.path()).await;
    assert!(unsynced.len() > 1, "all versions were synced before the kill");
    assert!(unsynced.len() < 10, "a version whose snapshots were removed is not synced");
    destroy(&unsynced);
    restart_and_stop(data_dir.path()).await;
    acknowledged.assert_complete();
}

/// The sync fails because the file is deleted.
#[tokio::test]
async fn file_that_cannot_be_synced_is_written_again() {
    let Running { data_dir: _data_dir, server: _server, client, .. } = Running::with_table().await;
    // On a busy machine, the file may be synced before it is deleted.
    for attempt in 0..20 {
        let response = client.set(TABLE, &attempt.to_string()).await.expect(200);
        let file = path_of(response["metadata-location"].as_str().expect("a location"));
        let Ok(content) = fs::read(&file) else { continue };
        fs::remove_file(&file).expect("it was there");
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if fs::read(&file).is_ok_and(|written| written == content) {
                return;
            }
        }
    }
    panic!("no deleted file was written again");
}

#[tokio::test]
async fn metadata_files_survive_a_kill_and_a_later_power_failure() {
    let Running { data_dir, server, client, mut acknowledged } = Running::with_table().await;
    for commit in 0..5 {
        acknowledged.insert(&client.set(TABLE, &commit.to_string()).await.expect(200));
    }
    server.kill();
    // The second run finds the files of the first one, which are not synced, and commits more.
    let server = Server::start(data_dir.path());
    let client = Client::of(&server.uri);
    for commit in 5..10 {
        acknowledged.insert(&client.set(TABLE, &commit.to_string()).await.expect(200));
    }
    server.kill();
    destroy(&unsynced_files(data_dir.path()).await);
    restart_and_stop(data_dir.path()).await;
    acknowledged.assert_complete();
}

//! A power failure: metadata files that were written but not synced are lost or incomplete. The next
//! start restores them, also those of superseded versions. Disks whose syncs fail or hang.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Reply};
use crate::disk_faults::{EIO, ENOSPC, FaultyDisk, destroy};
use crate::server::{Server, assert_sound};
use crate::support::table::{append, set_property};

const TABLE: &str = "namespaces/ns/tables/t";
/// Time limit for a server to sync files.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which files are synced, with reserve.
const COLLECTION_TIME: Duration = Duration::from_millis(400);
/// Number of files of a warehouse that may be unsynced.
const UNSYNCED_MAX: usize = 2048;

/// The metadata files of acknowledged versions, with their content.
#[derive(Default)]
struct Acknowledged(BTreeMap<PathBuf, Vec<u8>>);

impl Acknowledged {
    fn insert(&mut self, response: &Value) {
        let file = path_of(response["metadata-location"].as_str().expect("a location"));
        let content = fs::read(&file).expect("the file exists before the response");
        self.0.insert(file, content);
    }

    /// Returns the files that exist.
    fn existing(&self) -> Vec<&PathBuf> {
        self.0.keys().filter(|file| file.exists()).collect()
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
    disk: FaultyDisk,
    server: Server,
    client: Client,
    acknowledged: Acknowledged,
}

impl Running {
    async fn with_table() -> Self {
        Self::with_settings(&[]).await
    }

    async fn with_settings(environment: &[(&str, &str)]) -> Self {
        let disk = FaultyDisk::new();
        let server = disk.start_server(environment);
        let client = Client::of(&server.uri);
        client.create_namespace("ns").await.expect(200);
        let mut acknowledged = Acknowledged::default();
        acknowledged.insert(&client.create_table("ns", "t").await.expect(200));
        Self { disk, server, client, acknowledged }
    }

    async fn set(&mut self, key: &str) {
        self.acknowledged.insert(&self.client.set(TABLE, key).await.expect(200));
    }

    /// Sets each of these numbers as a property, in a commit of its own.
    async fn set_each(&mut self, keys: Range<u32>) {
        for key in keys {
            self.set(&key.to_string()).await;
        }
    }

    async fn commit(&mut self, updates: Vec<Value>) {
        let body = json!({ "requirements": [], "updates": updates });
        self.acknowledged.insert(&self.client.post(TABLE, &body).await.expect(200));
    }

    /// Returns the acknowledged files that a power failure could destroy now.
    fn unsynced(&self) -> Vec<&PathBuf> {
        self.disk.unsynced(self.acknowledged.0.keys())
    }

    async fn wait_until_synced(&self) {
        eventually("all files are synced", async || self.unsynced().is_empty()).await;
    }

    /// Destroys all unsynced files like a power failure, and returns their number.
    fn fail_power(self) -> (FaultyDisk, Acknowledged, usize) {
        let Self { disk, server, acknowledged, .. } = self;
        server.kill();
        let unsynced = disk.unsynced(acknowledged.0.keys());
        destroy(&unsynced);
        let number = unsynced.len();
        disk.recover();
        (disk, acknowledged, number)
    }
}

/// Waits until a condition holds, but no longer than [`TIMEOUT`].
async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let since = Instant::now();
    while !condition().await {
        assert!(since.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn path_of(location: &str) -> PathBuf {
    PathBuf::from(location.strip_prefix("file://").expect("a local warehouse"))
}

/// Starts the server after a power failure, and stops it again. All files must be restored and
/// synced.
fn assert_restored(disk: &FaultyDisk, acknowledged: &Acknowledged) {
    let server = disk.start_server(&[]);
    acknowledged.assert_complete();
    server.stop();
    acknowledged.assert_complete();
    assert_eq!(disk.unsynced(acknowledged.0.keys()), Vec::<&PathBuf>::new());
    assert_sound(&disk.data_dir(), "after a power failure");
}

#[tokio::test]
async fn metadata_files_of_superseded_versions_survive_a_power_failure() {
    let mut running = Running::with_table().await;
    running.set_each(0..10).await;
    // These files are synced, and their markers are removed by the next commits.
    running.wait_until_synced().await;
    running.disk.hang();
    running.set_each(10..20).await;
    let (disk, acknowledged, destroyed) = running.fail_power();
    assert_eq!(destroyed, 10);
    assert_restored(&disk, &acknowledged);
}

#[tokio::test]
async fn metadata_files_are_synced_soon_and_before_an_orderly_stop() {
    let mut running = Running::with_table().await;
    running.set_each(0..10).await;
    running.wait_until_synced().await;
    running.set("last").await;
    let Running { disk, server, acknowledged, .. } = running;
    server.stop();
    assert_eq!(disk.unsynced(acknowledged.0.keys()), Vec::<&PathBuf>::new());
}

#[tokio::test]
async fn metadata_files_survive_a_power_failure_after_snapshots_were_removed() {
    let mut running = Running::with_table().await;
    let snapshots = 40;
    for snapshot in 1..=snapshots {
        let parent = (snapshot > 1).then_some(snapshot - 1);
        running.commit(append(snapshot, parent, snapshot)).await;
    }
    let removed: Vec<_> = (1..snapshots).collect();
    running.commit(vec![json!({ "action": "remove-snapshots", "snapshot-ids": removed })]).await;
    running.disk.hang();
    running.commit(vec![set_property("a", "a")]).await;
    let (disk, acknowledged, destroyed) = running.fail_power();
    assert!(destroyed >= 1, "the last version is not synced");
    assert!(destroyed < 10, "a version whose snapshots were removed is not synced");
    assert_restored(&disk, &acknowledged);
}

#[tokio::test]
async fn metadata_files_survive_a_kill_and_a_later_power_failure() {
    let mut running = Running::with_table().await;
    running.disk.hang();
    running.set_each(0..5).await;
    // The second run finds the files of the first one, which are not synced, and commits more.
    let Running { disk, server, acknowledged, .. } = running;
    server.kill();
    disk.recover();
    let server = disk.start_server(&[]);
    let client = Client::of(&server.uri);
    disk.hang();
    let mut running = Running { disk, server, client, acknowledged };
    running.set_each(5..10).await;
    let (disk, acknowledged, destroyed) = running.fail_power();
    assert_eq!(destroyed, 5, "the second run has synced the files of the first one");
    assert_restored(&disk, &acknowledged);
}

/// After a failed sync, Linux may regard the lost content as written, so another sync is not enough.
#[tokio::test]
async fn metadata_files_whose_sync_fails_are_written_again_while_commits_continue() {
    let mut running = Running::with_table().await;
    running.disk.fail(EIO);
    for commit in 0..10 {
        running.set(&commit.to_string()).await;
        tokio::time::sleep(COLLECTION_TIME / 10).await;
    }
    tokio::time::sleep(COLLECTION_TIME).await;
    assert!(running.unsynced().len() >= 10, "{:?}", running.unsynced());
    let metric = "slateberg_metadata_unsynced";
    let unsynced = running.client.metrics(metric).await;
    let number: Option<usize> = unsynced.split(' ').nth(1).and_then(|it| it.parse().ok());
    assert!(number >= Some(10), "{unsynced}");
    running.disk.recover();
    running.wait_until_synced().await;
    running.acknowledged.assert_complete();
    let is_zero = async || running.client.metrics(metric).await == format!("{metric} 0");
    eventually("no file is unsynced", is_zero).await;
}

/// Some file systems report only at the sync that they are full.
#[tokio::test]
async fn commits_are_rejected_while_a_sync_finds_the_disk_full() {
    let mut running = Running::with_table().await;
    running.disk.fail(ENOSPC);
    running.set("a").await;
    let since = Instant::now();
    let error = loop {
        assert!(since.elapsed() < TIMEOUT, "commits are still accepted");
        match running.client.set(TABLE, &since.elapsed().as_nanos().to_string()).await {
            Reply::Answered(503, error) => break error,
            accepted => running.acknowledged.insert(&accepted.expect(200)),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("is full"), "{message}");
    running.disk.recover();
    running.wait_until_synced().await;
    running.acknowledged.assert_complete();
    let is_accepted = async || running.client.set(TABLE, "b").await.is_acknowledged();
    eventually("commits are accepted", is_accepted).await;
}

#[tokio::test]
async fn metadata_files_whose_sync_fails_survive_a_power_failure() {
    let mut running = Running::with_table().await;
    running.disk.fail(EIO);
    running.set_each(0..10).await;
    tokio::time::sleep(2 * COLLECTION_TIME).await;
    let (disk, acknowledged, destroyed) = running.fail_power();
    assert!(destroyed >= 10, "only {destroyed} files were unsynced");
    assert_restored(&disk, &acknowledged);
}

/// The sync fails because the file is deleted.
#[tokio::test]
async fn missing_metadata_file_is_written_again() {
    let mut running = Running::with_table().await;
    // The sync of an earlier file delays the sync of the missing one.
    running.disk.hang();
    running.set("a").await;
    tokio::time::sleep(COLLECTION_TIME).await;
    running.set("b").await;
    let (file, _) = running.acknowledged.0.last_key_value().expect("a file");
    fs::remove_file(file).expect("it was there");
    running.disk.recover();
    eventually("the file is written again", async || file.exists()).await;
    running.acknowledged.assert_complete();
}

#[tokio::test]
async fn purge_leaves_no_metadata_file_of_a_sync_that_failed() {
    let mut running = Running::with_table().await;
    running.disk.fail(EIO);
    running.set("a").await;
    let purge = format!("{TABLE}?purgeRequested=true");
    running.client.send(reqwest::Method::DELETE, &purge, &Value::Null, None).await.expect(204);
    tokio::time::sleep(COLLECTION_TIME).await;
    running.disk.recover();
    let acknowledged = &running.acknowledged;
    eventually("the files are deleted", async || acknowledged.existing().is_empty()).await;
    tokio::time::sleep(2 * COLLECTION_TIME).await;
    assert_eq!(acknowledged.existing(), Vec::<&PathBuf>::new(), "written again after the purge");
}

/// Metadata files that leave the metadata log are deleted, although their syncs fail.
#[tokio::test]
async fn deleted_metadata_files_are_not_written_again() {
    let mut running = Running::with_table().await;
    let keep_one = [
        set_property("write.metadata.previous-versions-max", "1"),
        set_property("write.metadata.delete-after-commit.enabled", "true"),
    ];
    running.disk.fail(EIO);
    running.set_each(0..10).await;
    running.commit(keep_one.into()).await;
    let are_deleted = async || running.acknowledged.existing().len() <= 2;
    eventually("the files are deleted", are_deleted).await;
    // Other files are written again and again.
    tokio::time::sleep(2 * COLLECTION_TIME).await;
    let Running { disk, server, acknowledged, .. } = running;
    let kept = acknowledged.existing();
    assert_eq!(kept.len(), 2, "{kept:?}");
    server.kill();
    disk.recover();
    let server = disk.start_server(&[]);
    assert_eq!(acknowledged.existing(), kept, "the start wrote deleted files");
    server.stop();
    assert_eq!(acknowledged.existing(), kept);
}

#[tokio::test]
async fn server_stops_although_a_sync_hangs() {
    let mut running = Running::with_table().await;
    running.disk.hang();
    running.set("a").await;
    tokio::time::sleep(COLLECTION_TIME).await;
    let Running { disk, server, acknowledged, .. } = running;
    server.stop();
    destroy(&disk.unsynced(acknowledged.0.keys()));
    disk.recover();
    assert_restored(&disk, &acknowledged);
}

async fn assert_commits_are_rejected_during(fault: impl Fn(&FaultyDisk)) {
    let deadline = ("SLATEBERG__CATALOG__COMMIT_DEADLINE_MS", "2000");
    let mut running = Running::with_settings(&[deadline]).await;
    running.wait_until_synced().await;
    fault(&running.disk);
    let tables = 8;
    let commits = (0..tables).map(async |table| {
        let (client, name) = (&running.client, format!("t{table}"));
        client.create_table("ns", &name).await.expect(200);
        for commit in 1..UNSYNCED_MAX / tables {
            let table = format!("namespaces/ns/tables/{name}");
            client.set(&table, &commit.to_string()).await.expect(200);
        }
    });
    futures::future::join_all(commits).await;
    let error = running.client.set(TABLE, "a").await.expect(503);
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("does not sync metadata files"), "{message}");
    let loaded = running.client.load(TABLE).await;
    assert_eq!(loaded["metadata"]["properties"]["a"], Value::Null, "nothing was written");
    running.disk.recover();
    let is_accepted = async || running.client.set(TABLE, "a").await.is_acknowledged();
    eventually("commits are accepted", is_accepted).await;
    running.set("b").await;
    running.wait_until_synced().await;
}

#[tokio::test]
async fn commits_are_rejected_while_too_many_metadata_files_are_unsynced() {
    assert_commits_are_rejected_during(FaultyDisk::hang).await;
}

#[tokio::test]
async fn commits_are_rejected_while_too_many_syncs_of_metadata_files_fail() {
    assert_commits_are_rejected_during(|disk| disk.fail(EIO)).await;
}

//! A full disk: the server serves reads, rejects writes with the reason, and accepts them again
//! when there is space. The tests need the permission to mount a small file system.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Client, Reply};
use crate::server::{Server, assert_sound, serve_expecting_failure};

const TABLE: &str = "namespaces/ns/tables/t";
/// Size of the small file system, in bytes.
const DISK_BYTES: usize = 16 << 20;
/// Time limit for a server to detect that there is space.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for an exit, much less than the time for which a start waits for unavailable storage.
const IMMEDIATE_EXIT_MAX: Duration = Duration::from_secs(20);
/// Time for which a commit waits for space.
const DEADLINE: (&str, &str) = ("SLATEBERG__CATALOG__COMMIT_DEADLINE_MS", "1000");

/// A small file system. Dropping this unmounts it.
struct Disk {
    directory: tempfile::TempDir,
    sudo: bool,
}

impl Disk {
    /// Mounts a small file system. `None` if mounting is not permitted; this is also printed.
    fn mount(test: &str) -> Option<Self> {
        let directory = tempfile::tempdir().expect("there is room");
        for sudo in [false, true] {
            let options = format!("size={DISK_BYTES},mode=1777");
            let mut mount = command(sudo, "mount");
            mount.args(["-t", "tmpfs", "-o", &options, "slateberg-test"]).arg(directory.path());
            if mount.status().is_ok_and(|status| status.success()) {
                return Some(Self { directory, sudo });
            }
        }
        eprintln!("SKIPPED: {test}: no file system can be mounted (run as root, or with sudo)");
        None
    }

    fn data_dir(&self) -> PathBuf {
        let data_dir = self.directory.path().join("data");
        std::fs::create_dir_all(&data_dir).expect("there is room");
        data_dir
    }

    /// Uses up all free space.
    fn fill(&self) {
        let mut filler = File::create(self.filler()).expect("there is room");
        for bytes in [1 << 20, 4096, 1] {
            while filler.write_all(&vec![0; bytes]).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.filler()).expect("it was filled");
    }

    fn filler(&self) -> PathBuf {
        self.directory.path().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = command(self.sudo, "umount").arg("-l").arg(self.directory.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted", self.directory.path().display());
        }
    }
}

fn command(sudo: bool, program: &str) -> Command {
    let mut command = if sudo {
        let mut command = Command::new("sudo");
        command.args(["--non-interactive", program]);
        command
    } else {
        Command::new(program)
    };
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts a server with the table `ns.t`, whose commits wait for a second.
async fn with_table(data_dir: &Path) -> (Server, Client) {
    let server = Server::start_with(data_dir, &[DEADLINE]);
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    client.create_table("ns", "t").await.expect(200);
    client.set(TABLE, "before").await.expect(200);
    (server, client)
}

/// Sends writes until one is rejected with 503, and returns the message. Earlier writes may succeed
/// or have an unknown outcome.
async fn rejected(mut write: impl AsyncFnMut(usize) -> Reply) -> String {
    for number in 0..1000 {
        match write(number).await {
            Reply::Answered(200..=299, _) => {}
            Reply::Answered(500, body) => {
                assert_eq!(body["error"]["type"], "CommitStateUnknownException", "{body}");
            }
            Reply::Answered(503, body) => {
                return body["error"]["message"].as_str().expect("a message").to_owned();
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("no write was rejected");
}

/// Repeats a rejected write until it succeeds.
async fn accepted(mut write: impl AsyncFnMut() -> Reply) {
    let since = Instant::now();
    while !write().await.is_acknowledged() {
        assert!(since.elapsed() < TIMEOUT, "writes are rejected for good");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Sends a write that needs space only for the journal.
async fn set_long_property(client: &Client, number: usize) -> Reply {
    let body = json!({ "updates": { format!("key-{}", number % 3): "x".repeat(100_000) } });
    client.send(Method::POST, "namespaces/ns/properties", &body, None).await
}

async fn text(server: &Server, path: &str) -> String {
    let response = reqwest::get(format!("{}{path}", server.uri)).await.expect("it answers");
    assert_eq!(response.status().as_u16(), 200, "{path}");
    response.text().await.expect("it answers")
}

async fn assert_says_that_it_is_full(server: &Server, storage: &str) {
    let ready: Value = serde_json::from_str(&text(server, "/ready").await).expect("JSON");
    assert_eq!(ready["writes"], "rejected", "{ready}");
    assert!(ready["reason"].as_str().is_some_and(|it| it.contains("full")), "{ready}");
    let metrics = text(server, "/metrics").await;
    let line = format!("slateberg_storage_full{{storage=\"{storage}\"}} 1");
    assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
}

#[tokio::test]
async fn a_server_whose_disk_is_full_serves_reads_rejects_writes_and_recovers_by_itself() {
    let Some(disk) = Disk::mount("a server whose journal is on a full disk") else { return };
    let data_dir = disk.data_dir();
    let (server, client) = with_table(&data_dir).await;
    disk.fill();
    let message = rejected(async |number| set_long_property(&client, number).await).await;
    assert!(message.contains("The disk of the catalog's state is full"), "{message}");
    assert!(message.contains("nothing was written"), "{message}");
    let loaded = client.load(TABLE).await;
    assert_eq!(loaded["metadata"]["properties"]["before"], "before", "reads are served");
    assert_says_that_it_is_full(&server, "journal").await;

    disk.free();
    accepted(async || client.set(TABLE, "after").await).await;
    let ready: Value = serde_json::from_str(&text(&server, "/ready").await).expect("JSON");
    assert_eq!(ready["writes"], Value::Null, "{ready}");
    server.kill();
    assert_sound(&data_dir, "after a disk was full");
    let server = Server::start(&data_dir);
    let loaded = Client::of(&server.uri).load(TABLE).await;
    let properties = &loaded["metadata"]["properties"];
    assert!(properties["before"] == "before" && properties["after"] == "after", "{properties}");
}

#[tokio::test]
async fn warehouse_with_a_full_disk_rejects_commits_and_completes_waiting_ones_later() {
    let Some(disk) = Disk::mount("a warehouse on a full disk") else { return };
    let data_dir = tempfile::tempdir().expect("there is room");
    let warehouse = format!("file://{}", disk.data_dir().display());
    let settings_file =
        [("SLATEBERG__WAREHOUSES__DEFAULT__LOCATION", warehouse.as_str()), DEADLINE];
    let server = Server::start_with(data_dir.path(), &settings_file);
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    for name in ["t", "other"] {
        client.create_table("ns", name).await.expect(200);
    }
    disk.fill();
    let mut unknown = None;
    let message = rejected(async |number| {
        let key = format!("key-{number}");
        let table = if unknown.is_none() { TABLE } else { "namespaces/ns/tables/other" };
        let reply = client.set(table, &key).await;
        if matches!(reply, Reply::Answered(500, _)) {
            unknown = Some(key);
        }
        reply
    });
    let message = message.await;
    assert!(message.contains("The disk of the warehouse is full"), "{message}");
    assert_says_that_it_is_full(&server, "warehouse").await;
    client.load("namespaces/ns/tables/other").await;
    // Writes that need no file of the warehouse succeed.
    client.create_namespace("second").await.expect(200);

    disk.free();
    accepted(async || client.set("namespaces/ns/tables/other", "after").await).await;
    let unknown = unknown.expect("one commit has waited for space");
    accepted(async || client.get(TABLE).await).await;
    let loaded = client.load(TABLE).await;
    assert!(loaded["metadata"]["properties"][&unknown].is_string(), "{loaded}");
}

#[tokio::test]
async fn start_on_a_full_disk_fails_immediately_with_the_reason() {
    let Some(disk) = Disk::mount("a start on a full disk") else { return };
    let data_dir = disk.data_dir();
    let (server, _) = with_table(&data_dir).await;
    server.kill();
    disk.fill();
    let since = Instant::now();
    let (code, output_text) = serve_expecting_failure(&data_dir);
    assert_eq!(code, Some(1), "{output_text}");
    assert!(since.elapsed() < IMMEDIATE_EXIT_MAX, "{:?}: {output_text}", since.elapsed());
    let last = output_text.trim_end().lines().next_back().unwrap_or_default();
    assert!(last.contains("No space left on device"), "{output_text}");
    assert!(last.contains(&*data_dir.to_string_lossy()), "{output_text}");
    disk.free();
    let server = Server::start(&data_dir);
    Client::of(&server.uri).set(TABLE, "after").await.expect(200);
}

#[tokio::test]
async fn server_with_a_full_disk_shuts_down_cleanly() {
    let Some(disk) = Disk::mount("a stop on a full disk") else { return };
    let data_dir = disk.data_dir();
    let (server, client) = with_table(&data_dir).await;
    disk.fill();
    rejected(async |number| set_long_property(&client, number).await).await;
    let since = Instant::now();
    server.terminate();
    server.wait_for_exit();
    assert!(since.elapsed() < IMMEDIATE_EXIT_MAX, "{:?}", since.elapsed());
    disk.free();
    let server = Server::start(&data_dir);
    let loaded = Client::of(&server.uri).load(TABLE).await;
    assert_eq!(loaded["metadata"]["properties"]["before"], "before", "{loaded}");
}

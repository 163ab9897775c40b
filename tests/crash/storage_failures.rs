//! Unusable files of the store: the server and `fsck` fail at once, and name them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Client;
use crate::server::{Server, fsck, run, serve_expecting_failure};
use crate::support::bucket::ambient_options;

/// Time limit for an exit. It is much less than the time for which a start waits for unavailable
/// storage, and much more than a start takes.
const IMMEDIATE_EXIT_MAX: Duration = Duration::from_secs(25);

/// Returns the directory of a stopped server, and one of its sorted runs.
async fn stopped() -> (tempfile::TempDir, PathBuf) {
    let data_dir = tempfile::tempdir().expect("there is room");
    let server = Server::start(data_dir.path());
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    client.create_table("ns", "t").await.expect(200);
    server.stop();
    let runs = std::fs::read_dir(data_dir.path().join("state/compacted")).expect("it was closed");
    let runs = runs.map(|entry| entry.expect("it is listed").path());
    let run = runs.max_by_key(|run| std::fs::metadata(run).map_or(0, |it| it.len()));
    (data_dir, run.expect("the server has flushed its records"))
}

#[track_caller]
fn assert_ends_naming(data_dir: &Path, file: &Path, why: &str) {
    for run in [serve_expecting_failure, fsck] {
        let since = Instant::now();
        let (code, output_text) = run(data_dir);
        assert_eq!(code, Some(65), "{why}: {output_text}");
        let named = file.file_name().expect("it is a file").to_string_lossy();
        assert!(output_text.contains(&*named), "{why}: {output_text}");
        assert!(since.elapsed() < IMMEDIATE_EXIT_MAX, "{why}: {:?}", since.elapsed());
    }
}

#[tokio::test]
async fn truncated_sorted_run_fails_start_and_fsck_with_its_name() {
    let (data_dir, run) = stopped().await;
    let whole = std::fs::read(&run).expect("it is there");
    let length = whole.len();
    for cut in [0, 1, 4, length / 10, length / 2] {
        std::fs::write(&run, &whole[..cut]).expect("there is room");
        assert_ends_naming(data_dir.path(), &run, &format!("{cut} of {length} bytes"));
    }
    std::fs::write(&run, &whole).expect("there is room");
    drop(Server::start(data_dir.path()));
}

#[tokio::test]
async fn sorted_run_that_is_a_directory_fails_start_and_fsck_with_its_name() {
    let (data_dir, run) = stopped().await;
    std::fs::remove_file(&run).expect("it is there");
    std::fs::create_dir(&run).expect("there is room");
    assert_ends_naming(data_dir.path(), &run, "a directory");
}

#[tokio::test]
async fn a_request_that_the_warehouse_fails_is_logged_once_with_the_error_of_the_system() {
    let data_dir = tempfile::tempdir().expect("there is room");
    let server = Server::start(data_dir.path());
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    client.create_table("ns", "t").await.expect(200);
    let table = client.load("namespaces/ns/tables/t").await;
    let file = table["metadata-location"].as_str().expect("a location");
    let body = json!({ "name": "u", "metadata-location": format!("{file}/x.metadata.json") });

    let reply = client.post("namespaces/ns/register", &body).await.expect(503);

    let message = "The warehouse's object store does not answer";
    assert_eq!(reply["error"]["message"], message);
    let log = std::fs::read_to_string(data_dir.path().join("test-server.log"));
    let log = log.expect("the server has a log");
    let lines: Vec<_> = log.lines().filter(|line| line.contains("request failed")).collect();
    let [line] = lines[..] else { panic!("the failure is logged once: {log}") };
    let cause = "Not a directory (os error 20)";
    assert_eq!(line.matches(cause).count(), 1, "the line has the cause once: {line}");
    assert!(line.contains(message), "the line has the response: {line}");
}

/// Returns a local URL that refuses connections.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    format!("http://{}", listener.local_addr().expect("it is bound"))
}

#[test]
fn missing_bucket_credentials_fail_start_and_fsck_with_the_searched_sources() {
    if ambient_options().keys().any(|name| name.starts_with("aws_")) {
        eprintln!("SKIPPED: a bucket without credentials: the environment has AWS_* of its own");
        return;
    }
    let data_dir = tempfile::tempdir().expect("there is room");
    let settings = data_dir.path().join("settings.toml");
    let text = format!(
        "[state]\nurl = \"s3://bucket/state\"\n[state.options]\naws_region = \"x\"\n\
         aws_metadata_endpoint = \"{}\"\n",
        nowhere()
    );
    std::fs::write(&settings, text).expect("there is room");
    let settings = settings.to_string_lossy();
    for (subcommand, arguments) in
        [("serve", &["--insecure-no-auth", "--listen", "127.0.0.1:0"][..]), ("fsck", &[])]
    {
        let since = Instant::now();
        let arguments = [&["--config", &*settings][..], arguments].concat();
        let (code, output_text) = run(data_dir.path(), subcommand, &arguments);
        assert_eq!(code, Some(1), "{subcommand}: {output_text}");
        let last = output_text.trim_end().lines().next_back().unwrap_or_default();
        for part in ["no credentials for s3://bucket/state", "aws_access_key_id", "web identity"] {
            assert!(last.contains(part), "{subcommand}: {part}: {output_text}");
        }
        assert!(since.elapsed() < IMMEDIATE_EXIT_MAX, "{subcommand}: {:?}", since.elapsed());
    }
}

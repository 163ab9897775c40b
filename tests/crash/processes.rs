//! Start, stop and locking: one server per directory, which stops gracefully on a signal.

use std::path::Path;
use std::time::Duration;

use crate::client::{Client, Reply};
use crate::server::{Server, assert_sound, fsck, serve_expecting_failure};

const TABLE: &str = "namespaces/ns/tables/t";

/// Starts a server with the table `ns.t`.
async fn with_table(data_dir: &Path) -> (Server, Client) {
    let server = Server::start(data_dir);
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    client.create_table("ns", "t").await.expect(200);
    (server, client)
}

#[tokio::test]
async fn directory_in_use_is_not_opened_by_other_processes() {
    let data_dir = tempfile::tempdir().expect("there is room");
    let (server, client) = with_table(data_dir.path()).await;
    let (code, output_text) = fsck(data_dir.path());
    assert_eq!(code, Some(75), "{output_text}");
    assert!(output_text.contains("in use"), "{output_text}");
    let (code, output_text) = serve_expecting_failure(data_dir.path());
    assert_eq!(code, Some(75), "{output_text}");
    assert!(output_text.contains("in use"), "{output_text}");
    client.set(TABLE, "a").await.expect(200);
    server.kill();
    // The lock is released with the process, even after a kill.
    assert_sound(data_dir.path(), "after a kill");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_server_completes_requests_in_progress() {
    const WRITERS: usize = 6;
    let data_dir = tempfile::tempdir().expect("there is room");
    let (server, client) = with_table(data_dir.path()).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for commit in 0.. {
                    let key = format!("{writer}-{commit}");
                    match client.set(TABLE, &key).await {
                        Reply::Answered(200, _) => acknowledged.push(key),
                        Reply::Answered(status, body) => panic!("{status}: {body}"),
                        // A request on an accepted connection always gets a response, so this
                        // request was sent after the listener had closed.
                        Reply::Lost => return (acknowledged, key),
                    }
                }
                unreachable!("there is always a next commit")
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.terminate();
    let mut acknowledged = Vec::new();
    let mut turned_away = Vec::new();
    for writer in writers {
        let (keys, last) = writer.await.expect("no panic");
        acknowledged.extend(keys);
        turned_away.push(last);
    }
    let status = server.wait_for_exit();
    assert_eq!(status.code(), Some(0), "the exit code of a stopped server");
    assert!(acknowledged.len() > WRITERS, "too few commits before the stop");
    assert_sound(data_dir.path(), "after an orderly stop");
    let server = Server::start(data_dir.path());
    let loaded = Client::of(&server.uri).load(TABLE).await;
    let properties = &loaded["metadata"]["properties"];
    for key in &acknowledged {
        assert!(properties.get(key).is_some(), "{key} was acknowledged and is lost");
    }
    for key in &turned_away {
        assert!(properties.get(key).is_none(), "{key} was applied, but its client got no response");
    }
}

#[tokio::test]
async fn stopped_server_leaves_no_pending_work() {
    let data_dir = tempfile::tempdir().expect("there is room");
    for start in 0..3 {
        let server = Server::start(data_dir.path());
        let client = Client::of(&server.uri);
        if start == 0 {
            client.create_namespace("ns").await.expect(200);
            client.create_table("ns", "t").await.expect(200);
        }
        client.set(TABLE, &format!("start-{start}")).await.expect(200);
        server.stop();
    }
    let log = std::fs::read_to_string(data_dir.path().join("test-server.log")).expect("a log");
    assert!(!log.contains("metadata files that an earlier run had not written"), "{log}");
    assert_sound(data_dir.path(), "after three orderly stops");
}

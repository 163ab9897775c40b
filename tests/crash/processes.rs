//! Start, stop and locking: one server per directory, which stops gracefully on a signal.

use std::path::Path;
use std::time::Duration;

use crate::client::{Client, Reply};
use crate::server::{Server, assert_sound, fsck, serve_in_vain};

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
async fn a_directory_in_use_is_left_alone_by_others() {
    let data_dir = tempfile::tempdir().expect("there is room");
    let (server, client) = with_table(data_dir.path()).await;
    let (code, said) = fsck(data_dir.path());
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("in use"), "{said}");
    let (code, said) = serve_in_vain(data_dir.path());
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("in use"), "{said}");
    client.set(TABLE, "a").await.expect(200);
    server.kill();
    // The lock is released with the process, even after a kill.
    assert_sound(data_dir.path(), "after a kill");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_stop_answers_what_is_under_way() {
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
                        // Accepted requests always get a response, so this one was sent after the
                        // listener had closed.
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
    let status = server.ended();
    assert_eq!(status.code(), Some(0), "the server ends well");
    assert!(acknowledged.len() > WRITERS, "the writers got somewhere");
    assert_sound(data_dir.path(), "after an orderly stop");
    let server = Server::start(data_dir.path());
    let loaded = Client::of(&server.uri).load(TABLE).await;
    let properties = &loaded["metadata"]["properties"];
    for key in &acknowledged {
        assert!(properties.get(key).is_some(), "{key} was acknowledged");
    }
    for key in &turned_away {
        assert!(properties.get(key).is_none(), "{key} was done, and its client not told");
    }
}

#[tokio::test]
async fn a_stopped_server_leaves_nothing_to_finish() {
    let data_dir = tempfile::tempdir().expect("there is room");
    for start in 0..3 {
        let server = Server::start(data_dir.path());
        let client = Client::of(&server.uri);
        if start == 0 {
            client.create_namespace("ns").await.expect(200);
            client.create_table("ns", "t").await.expect(200);
        }
        client.set(TABLE, &format!("start-{start}")).await.expect(200);
        server.terminate();
        assert_eq!(server.ended().code(), Some(0));
    }
    let log = std::fs::read_to_string(data_dir.path().join("test-server.log")).expect("a log");
    assert!(!log.contains("completed publications of an earlier run"), "{log}");
    assert_sound(data_dir.path(), "after three orderly stops");
}

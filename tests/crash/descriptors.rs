//! Connections that use up the file descriptors of the real binary, whose store needs some of them.

use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Client;
use crate::server::{Server, assert_sound};

/// Opens connections that send nothing. Connections that the system does not accept within a second
/// count too: a server at its limit ignores them.
fn silent_connections(server: &Server, count: usize) -> Vec<TcpStream> {
    let address = server.uri.strip_prefix("http://").expect("it is not encrypted");
    let address = address.parse().expect("an address");
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok();
    (0..count).filter_map(connect).collect()
}

fn log_of(data_dir: &Path) -> String {
    std::fs::read_to_string(data_dir.join("test-server.log")).unwrap_or_default()
}

/// Waits until the server's log contains this message.
fn wait_for_log(data_dir: &Path, message: &str) {
    let since = Instant::now();
    while !log_of(data_dir).contains(message) {
        assert!(since.elapsed() < Duration::from_secs(60), "{}", log_of(data_dir));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_leave_file_descriptors_for_commits() {
    let data_dir = tempfile::tempdir().expect("there is room");
    let server = Server::start_with_open_files(data_dir.path(), 256, &[]);
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    let strangers = silent_connections(&server, 400);
    assert!(strangers.len() > 64, "{}", strangers.len());
    wait_for_log(data_dir.path(), "server.connections_max connections are open");
    client.create_table("ns", "t").await.expect(200);
    client.set("namespaces/ns/tables/t", "key").await.expect(200);
    drop(strangers);
    // The load needs a new connection.
    Client::of(&server.uri).load("namespaces/ns/tables/t").await;
    server.stop();
    assert_sound(data_dir.path(), "after silent connections");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journal_waits_for_a_file_descriptor_and_the_server_continues() {
    let data_dir = tempfile::tempdir().expect("there is room");
    // The limit of connections exceeds that of descriptors, and silent connections stay open long.
    let environment = [
        ("SLATEBERG__SERVER__CONNECTIONS_MAX", "10000"),
        ("SLATEBERG__SERVER__HEADER_SECONDS_MAX", "600"),
        // Memtables cannot be flushed either, and must not fill up before the segment.
        ("SLATEBERG__STORE__UNFLUSHED_BYTES_MAX", "134217728"),
    ];
    let server = Server::start_with_open_files(data_dir.path(), 256, &environment);
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    let strangers = silent_connections(&server, 400);
    wait_for_log(data_dir.path(), "cannot accept a connection");
    // The journal starts another segment after 64 MiB.
    let filling = tokio::spawn(async move {
        for number in 0..160 {
            let text = format!("{number}{}", "x".repeat(500_000));
            let body = json!({ "updates": { "text": text } });
            // Writes are rejected while the journal waits.
            while client.post("namespaces/ns/properties", &body).await.done_or(&[503]) != Some(true)
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        client
    });
    wait_for_log(data_dir.path(), "the journal cannot be written");
    drop(strangers);
    let client = filling.await.expect("every change is acknowledged");
    client.create_table("ns", "t").await.expect(200);
    server.stop();
    assert_sound(data_dir.path(), "after a shortage of descriptors");
}

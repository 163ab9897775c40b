//! The journal of a killed server: a truncated write is harmless, and acknowledged writes either
//! exist or prevent the start.

use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::server::{Server, assert_sound, fsck, serve_in_vain};

const TABLE: &str = "namespaces/ns/tables/t";

/// Fills a directory by a server that creates the table `ns.t`, sets these properties, and is
/// killed.
async fn killed(data_dir: &Path, keys: &[&str]) {
    let server = Server::start(data_dir);
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    client.create_table("ns", "t").await.expect(200);
    for key in keys {
        client.set(TABLE, key).await.expect(200);
    }
    server.kill();
}

/// Returns the last segment of the killed server, with its content.
fn last_segment(data_dir: &Path) -> (PathBuf, Vec<u8>) {
    let entries = std::fs::read_dir(data_dir.join("state/journal")).expect("there is a journal");
    let paths = entries.flatten().map(|entry| entry.path());
    let segments = paths.filter(|path| path.extension().is_some_and(|it| it == "segment"));
    let last = segments.max().expect("the server was not stopped in order");
    let bytes = std::fs::read(&last).expect("it can be read");
    (last, bytes)
}

#[tokio::test]
async fn a_frame_that_was_cut_off_is_left_out_and_what_came_before_it_stands() {
    let data_dir = tempfile::tempdir().expect("there is room");
    killed(data_dir.path(), &["a", "b"]).await;
    let (segment, bytes) = last_segment(data_dir.path());
    let torn = [&bytes[..], &bytes[..40]].concat();
    std::fs::write(&segment, torn).expect("it can be written");
    assert_sound(data_dir.path(), "over a frame that was cut off");
    let server = Server::start(data_dir.path());
    let client = Client::of(&server.uri);
    let loaded = client.load(TABLE).await;
    let properties = &loaded["metadata"]["properties"];
    assert!(properties["a"].is_string() && properties["b"].is_string(), "{properties}");
    client.set(TABLE, "c").await.expect(200);
    server.kill();
    let server = Server::start(data_dir.path());
    let loaded = Client::of(&server.uri).load(TABLE).await;
    assert!(loaded["metadata"]["properties"]["c"].is_string(), "written behind the cut");
    server.kill();
    assert_sound(data_dir.path(), "after all of it");
}

#[tokio::test]
async fn a_damaged_journal_keeps_the_server_from_starting_and_is_left_as_it_is() {
    let data_dir = tempfile::tempdir().expect("there is room");
    killed(data_dir.path(), &["a", "b"]).await;
    let (segment, mut bytes) = last_segment(data_dir.path());
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, &bytes).expect("it can be written");
    for (code, said) in [serve_in_vain(data_dir.path()), fsck(data_dir.path())] {
        assert_eq!(code, Some(65), "{said}");
        assert!(said.contains("is damaged: frame"), "{said}");
        assert!(said.contains(&*segment.to_string_lossy()), "{said}");
    }
    assert_eq!(std::fs::read(&segment).expect("it is there"), bytes, "nothing was cut off");
    // Restore the segment from a copy.
    bytes[middle] ^= 1;
    std::fs::write(&segment, &bytes).expect("it can be written");
    let server = Server::start(data_dir.path());
    Client::of(&server.uri).set(TABLE, "c").await.expect(200);
}

//! The journal of a killed server. A truncated write is harmless, and a server never starts without
//! the acknowledged writes.

use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::damage::frame_ends;
use crate::server::{Server, assert_sound, fsck, serve_expecting_failure};

const TABLE: &str = "namespaces/ns/tables/t";

/// Fills a directory: a server creates the table `ns.t`, sets these properties, and is killed.
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

/// Returns the last segment of the killed server, with its frames.
fn last_segment(data_dir: &Path) -> (PathBuf, Vec<u8>) {
    let entries = std::fs::read_dir(data_dir.join("state/journal")).expect("there is a journal");
    let paths = entries.flatten().map(|entry| entry.path());
    let segments = paths.filter(|path| path.extension().is_some_and(|it| it == "segment"));
    let last = segments.max().expect("the server was not stopped in order");
    let mut bytes = std::fs::read(&last).expect("it can be read");
    bytes.truncate(*frame_ends(&bytes).last().expect("it contains frames"));
    (last, bytes)
}

#[tokio::test]
async fn truncated_journal_frame_is_ignored_and_earlier_frames_are_replayed() {
    let data_dir = tempfile::tempdir().expect("there is room");
    killed(data_dir.path(), &["a", "b"]).await;
    let (segment, bytes) = last_segment(data_dir.path());
    let torn = [&bytes[..], &bytes[..40]].concat();
    std::fs::write(&segment, torn).expect("it can be written");
    assert_sound(data_dir.path(), "with a truncated frame");
    let server = Server::start(data_dir.path());
    let client = Client::of(&server.uri);
    let loaded = client.load(TABLE).await;
    let properties = &loaded["metadata"]["properties"];
    assert!(properties["a"].is_string() && properties["b"].is_string(), "{properties}");
    client.set(TABLE, "c").await.expect(200);
    server.kill();
    let server = Server::start(data_dir.path());
    let loaded = Client::of(&server.uri).load(TABLE).await;
    assert!(loaded["metadata"]["properties"]["c"].is_string(), "written after a truncated frame");
    server.kill();
    assert_sound(data_dir.path(), "after a write behind a truncated frame");
}

#[tokio::test]
async fn damaged_journal_fails_the_start_and_is_left_unchanged() {
    let data_dir = tempfile::tempdir().expect("there is room");
    killed(data_dir.path(), &["a", "b"]).await;
    let (segment, mut bytes) = last_segment(data_dir.path());
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, &bytes).expect("it can be written");
    for (code, output_text) in [serve_expecting_failure(data_dir.path()), fsck(data_dir.path())] {
        assert_eq!(code, Some(65), "{output_text}");
        assert!(output_text.contains("is damaged: frame"), "{output_text}");
        assert!(output_text.contains(&*segment.to_string_lossy()), "{output_text}");
    }
    assert_eq!(std::fs::read(&segment).expect("it is there"), bytes, "the segment was changed");
    // Flips the bit back, as if the segment were restored from a copy.
    bytes[middle] ^= 1;
    std::fs::write(&segment, &bytes).expect("it can be written");
    let server = Server::start(data_dir.path());
    Client::of(&server.uri).set(TABLE, "c").await.expect(200);
}

//! Deliberately broken stores: `slateberg fsck` reports the problems and sets its exit code.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use slateberg_model::ident::TabularKind;
use slateberg_store::codec::{Document, Value};
use slateberg_store::keys::{GrantKey, Key, MetadataKey, TabularKey, TabularNameKey};
use slateberg_store::records::GrantRecord;
use slatedb::Db;
use slatedb::object_store::local::LocalFileSystem;
use uuid::Uuid;

use crate::client::Client;
use crate::server::{Server, assert_sound, fsck};

/// Returns a directory with the table `ns.t` and no running server, and the table's metadata file.
async fn data_dir_with_table() -> (tempfile::TempDir, PathBuf) {
    let data_dir = tempfile::tempdir().expect("there is room");
    let server = Server::start(data_dir.path());
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    client.create_table("ns", "t").await.expect(200);
    let loaded = client.load("namespaces/ns/tables/t").await;
    let location = loaded["metadata-location"].as_str().expect("a location");
    let file = PathBuf::from(location.strip_prefix("file://").expect("a local warehouse"));
    server.stop();
    assert_sound(data_dir.path(), "before anything is broken");
    (data_dir, file)
}

#[track_caller]
fn assert_broken(data_dir: &Path, finding: &str) {
    let (code, output_text) = fsck(data_dir);
    assert_eq!(code, Some(65), "{output_text}");
    assert!(output_text.contains(finding), "expected {finding:?} in: {output_text}");
}

/// Writes into the store of a stopped server.
async fn write_record(data_dir: &Path, key: &[u8], value: Option<&[u8]>) {
    let directory = data_dir.join("state");
    let object_store = LocalFileSystem::new_with_prefix(directory).expect("the directory is there");
    let db = Db::open("", Arc::new(object_store)).await.expect("the store opens");
    let written = match value {
        Some(value) => db.put(key, value).await,
        None => db.delete(key).await,
    };
    written.expect("it is written").await_durable().await.expect("it is durable");
    db.close().await.expect("the store closes");
}

#[tokio::test]
async fn fsck_finds_a_missing_metadata_file() {
    let (data_dir, file) = data_dir_with_table().await;
    std::fs::remove_file(&file).expect("it was there");
    assert_broken(data_dir.path(), "Failed to open input stream");
}

#[tokio::test]
async fn fsck_finds_an_altered_metadata_file() {
    let (data_dir, file) = data_dir_with_table().await;
    let altered = std::fs::read_to_string(&file).expect("it is there").replace("\"id\"", "\"ID\"");
    std::fs::write(&file, altered).expect("it can be written");
    assert_broken(data_dir.path(), "differs from its record");
}

#[tokio::test]
async fn fsck_finds_an_unreadable_record() {
    let (data_dir, _) = data_dir_with_table().await;
    let key = TabularKey(Uuid::from_u128(1)).encode();
    write_record(data_dir.path(), &key, Some(b"\x01not json")).await;
    assert_broken(data_dir.path(), "corrupt record");
}

#[tokio::test]
async fn fsck_finds_a_name_without_a_table() {
    let (data_dir, _) = data_dir_with_table().await;
    let (kind, namespace) = (TabularKind::Table, Uuid::from_u128(1));
    let key = TabularNameKey { kind, namespace, name: "ghost".to_owned() }.encode();
    let value = format!("\x01{{\"id\":\"{}\"}}", Uuid::from_u128(2));
    write_record(data_dir.path(), &key, Some(value.as_bytes())).await;
    assert_broken(data_dir.path(), "points to");
}

#[tokio::test]
async fn fsck_finds_metadata_without_a_name() {
    let (data_dir, _) = data_dir_with_table().await;
    let key = MetadataKey(Uuid::from_u128(1)).encode();
    let document = Document { version: 1, text: "{}".into() }.head().encode();
    write_record(data_dir.path(), &key, Some(&document)).await;
    assert_broken(data_dir.path(), "belongs to no table or view");
}

#[tokio::test]
async fn fsck_finds_a_grant_without_a_revision() {
    let (data_dir, _) = data_dir_with_table().await;
    let grant = GrantRecord {
        id: Uuid::from_u128(1),
        template: "grant-own".to_owned(),
        grantee: "role:intruder".to_owned(),
        resource: "warehouse:default".to_owned(),
        created_ms: 0,
        created_by: "nobody".to_owned(),
    };
    let key = GrantKey(grant.id).encode();
    write_record(data_dir.path(), &key, Some(&grant.encode())).await;
    assert_broken(data_dir.path(), "differ from the result of the policy log");
}

#[tokio::test]
async fn fsck_finds_a_key_of_an_unknown_key_space() {
    let (data_dir, _) = data_dir_with_table().await;
    write_record(data_dir.path(), b"\xeestranger", Some(b"x")).await;
    assert_broken(data_dir.path(), "unknown space 0xee");
}

#[tokio::test]
async fn fsck_finds_a_store_without_a_format_version() {
    let (data_dir, _) = data_dir_with_table().await;
    write_record(data_dir.path(), b"\x01", None).await;
    assert_broken(data_dir.path(), "no format record");
}

#[test]
fn fsck_of_a_directory_without_a_catalog_fails() {
    let data_dir = tempfile::tempdir().expect("there is room");
    let (code, output_text) = fsck(data_dir.path());
    assert_eq!(code, Some(78), "{output_text}");
    assert!(output_text.contains("no catalog in"), "{output_text}");
}

//! An encrypted catalog in a local directory: killed, moved, and tampered with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::damage::frame_ends;
use crate::server::{Server, assert_sound, fsck, serve_expecting_failure};

const TABLE: &str = "namespaces/telltale_ns/tables/telltale_table";
const KEYS: [&str; 2] = [
    "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIzNDU=",
];

/// Configures encryption with this wrapping key in the directory of a server.
fn encrypt(data_dir: &Path, key: &str) {
    let (file, config) = (data_dir.join("key"), data_dir.join("config"));
    std::fs::write(&file, key).expect("there is room");
    std::fs::create_dir_all(&config).expect("there is room");
    let settings =
        format!("[encryption]\nkms = \"local\"\nlocal_key_file = \"{}\"\n", file.display());
    std::fs::write(config.join("encryption.toml"), settings).expect("there is room");
}

/// Fills a directory: an encrypted server creates a table, sets these properties, and is killed.
async fn killed(data_dir: &Path, properties: &[&str]) {
    encrypt(data_dir, KEYS[0]);
    let server = Server::start(data_dir);
    let client = Client::of(&server.uri);
    client.create_namespace("telltale_ns").await.expect(200);
    client.create_table("telltale_ns", "telltale_table").await.expect(200);
    for property in properties {
        client.set(TABLE, property).await.expect(200);
    }
    server.kill();
}

/// Returns all files of the state.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).expect("it can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.append(&mut files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).expect("it can be read"));
        }
    }
    found
}

#[track_caller]
fn assert_tells_nothing(data_dir: &Path) {
    for (path, bytes) in files(&data_dir.join("state")) {
        for telltale in [&b"telltale"[..], b"schema", b"struct", b"file:///"] {
            let holds = bytes.windows(telltale.len()).any(|window| window == telltale);
            assert!(!holds, "{} holds {telltale:?}", path.display());
        }
    }
}

#[tokio::test]
async fn journal_of_an_encrypted_catalog_is_encrypted_and_replayed() {
    let data_dir = tempfile::tempdir().expect("there is room");
    killed(data_dir.path(), &["telltale_a", "telltale_b"]).await;
    assert_tells_nothing(data_dir.path());
    assert_sound(data_dir.path(), "after a kill");
    let server = Server::start(data_dir.path());
    let client = Client::of(&server.uri);
    let loaded = client.load(TABLE).await;
    let properties = &loaded["metadata"]["properties"];
    assert!(properties["telltale_b"].is_string(), "{properties}");
    client.set(TABLE, "telltale_c").await.expect(200);
    server.stop();
    assert_tells_nothing(data_dir.path());
    assert_sound(data_dir.path(), "after an orderly stop");
}

#[tokio::test]
async fn rotations_under_load_and_kills_lose_nothing() {
    let data_dir = tempfile::tempdir().expect("there is room");
    killed(data_dir.path(), &[]).await;
    let mut acknowledged = Vec::new();
    for round in 0..4 {
        let server = Server::start(data_dir.path());
        let (client, rotator) = (Client::of(&server.uri), Client::of(&server.uri));
        let rotating = tokio::spawn(async move {
            // When the server is killed, this loop ends.
            let url = "../management/v1/encryption/rotate";
            while rotator.post(url, &serde_json::json!({})).await.is_acknowledged() {}
        });
        for number in 0..8 {
            let key = format!("telltale_{round}_{number}");
            client.set(TABLE, &key).await.expect(200);
            acknowledged.push(key);
        }
        server.kill();
        rotating.await.expect("no panic");
    }
    assert_tells_nothing(data_dir.path());
    assert_sound(data_dir.path(), "after kills in the middle of rotations");
    let server = Server::start(data_dir.path());
    let loaded = Client::of(&server.uri).load(TABLE).await;
    for key in &acknowledged {
        assert!(loaded["metadata"]["properties"][key].is_string(), "{key} was acknowledged");
    }
    server.kill();
}

#[tokio::test]
async fn command_line_shows_and_changes_data_keys() {
    let data_dir = tempfile::tempdir().expect("there is room");
    encrypt(data_dir.path(), KEYS[0]);
    let server = Server::start(data_dir.path());
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_slateberg"));
        command.arg("encryption").args(arguments).args(["--url", &server.uri]);
        let output = command.current_dir(data_dir.path()).output().expect("it can be started");
        let output_text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&output_text).into_owned())
    };
    let (code, output_text) = run(&["status"]);
    assert_eq!(code, Some(0), "{output_text}");
    assert!(output_text.contains("1 (active)") && output_text.contains("local"), "{output_text}");
    let (code, output_text) = run(&["rotate"]);
    assert_eq!(code, Some(0), "{output_text}");
    assert!(
        output_text.contains("2 (active)") && output_text.contains("revision 2"),
        "{output_text}"
    );
    std::fs::write(data_dir.path().join("key"), KEYS.join("\n")).expect("there is room");
    let (code, output_text) = run(&["rewrap", "--output", "json"]);
    assert_eq!(code, Some(0), "{output_text}");
    assert!(output_text.contains("\"revision\": 3"), "{output_text}");
    let (code, output_text) = run(&["rewrap", "--wrapping-key", "nothing"]);
    assert_eq!(code, Some(1), "{output_text}");
    assert!(output_text.contains("there is no key nothing in it"), "{output_text}");
    server.stop();
}

#[tokio::test]
async fn tampered_file_fails_the_start_and_is_left_unchanged() {
    let data_dir = tempfile::tempdir().expect("there is room");
    killed(data_dir.path(), &["a", "b"]).await;
    let whole = files(&data_dir.path().join("state"));
    for kind in ["ring.json", ".manifest", ".segment"] {
        let mut touched = whole.iter().filter(|(path, _)| path.to_string_lossy().ends_with(kind));
        let (path, bytes) = touched.next_back().unwrap_or_else(|| panic!("no file of kind {kind}"));
        let mut flipped = bytes.clone();
        let length = if kind == ".segment" {
            *frame_ends(bytes).last().expect("it contains frames")
        } else {
            bytes.len()
        };
        flipped[length / 3] ^= 1;
        std::fs::write(path, &flipped).expect("it can be written");
        let (code, output_text) = serve_expecting_failure(data_dir.path());
        assert_eq!(code, Some(65), "{kind}: {output_text}");
        assert!(output_text.contains("damaged"), "{kind}: {output_text}");
        let (code, output_text) = fsck(data_dir.path());
        assert_eq!(code, Some(65), "{kind}: {output_text}");
        assert_eq!(std::fs::read(path).expect("it is there"), flipped, "{kind} was changed");
        std::fs::write(path, bytes).expect("it can be written");
        // A start with a damaged log may write a manifest, because SlateDB writes it before it
        // reads the log.
        let left = files(&data_dir.path().join("state"));
        assert!(kind == ".segment" || left == whole, "{kind}: a rejected start wrote something");
    }
    let whole = files(&data_dir.path().join("state"));
    encrypt(data_dir.path(), KEYS[1]);
    let (code, output_text) = serve_expecting_failure(data_dir.path());
    assert_eq!(code, Some(1), "{output_text}");
    assert!(output_text.contains("is wrapped with key"), "{output_text}");
    std::fs::remove_dir_all(data_dir.path().join("config")).expect("it is there");
    let (code, output_text) = serve_expecting_failure(data_dir.path());
    assert_eq!(code, Some(1), "{output_text}");
    assert!(output_text.contains("the store is encrypted"), "{output_text}");
    assert_eq!(files(&data_dir.path().join("state")), whole, "a rejected start wrote something");
    encrypt(data_dir.path(), KEYS[0]);
    assert_sound(data_dir.path(), "with the original key and files");
}

#[tokio::test]
async fn plaintext_directory_is_rejected_if_encryption_is_configured() {
    let data_dir = tempfile::tempdir().expect("there is room");
    let server = Server::start(data_dir.path());
    Client::of(&server.uri).create_namespace("ns").await.expect(200);
    server.kill();
    encrypt(data_dir.path(), KEYS[0]);
    let (code, output_text) = serve_expecting_failure(data_dir.path());
    assert_eq!(code, Some(1), "{output_text}");
    assert!(output_text.contains("the store is not encrypted"), "{output_text}");
    std::fs::remove_dir_all(data_dir.path().join("config")).expect("it is there");
    assert_sound(data_dir.path(), "without encryption in the settings");
}

//! Checkpoints of a server under load, and restores and clones that are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::client::{Client, Reply};
use crate::server::{Server, assert_sound, run, run_and_kill};
use crate::support::env_numbers::{number_from_env, seed};

const WRITERS: usize = 4;
/// Number of checkpoints under load, and of killed restores and clones.
const ROUNDS: u64 = 6;
/// Time from the start of a restore or clone until it is killed, in milliseconds.
const KILL_AFTER_MS: std::ops::Range<u64> = 0..400;

/// The tables in an export: their names, and the properties that the tests have set.
type Tables = BTreeMap<String, BTreeSet<String>>;

/// Returns the tables at a checkpoint, or the current ones.
fn tables(data_dir: &Path, checkpoint: Option<&str>) -> Tables {
    let mut arguments = vec!["-"];
    arguments.extend(checkpoint.iter().flat_map(|name| ["--checkpoint", name]));
    let (code, output_text) = run(data_dir, "export", &arguments);
    assert_eq!(code, Some(0), "{output_text}");
    let lines = output_text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let tables = lines.filter(|line| line["type"] == "table");
    tables
        .map(|line| {
            let metadata = line["metadata"].as_str().expect("a text");
            let metadata: Value = serde_json::from_str(metadata).expect("JSON");
            let properties = metadata["properties"].as_object().cloned().unwrap_or_default();
            let set = properties.into_iter().filter(|(key, value)| *value == key.as_str());
            let name = format!("{}.{}", line["namespace"], line["name"]);
            (name, set.map(|(key, _)| key).collect())
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoint_under_load_contains_every_commit_acknowledged_before() {
    let rounds = number_from_env("SLATEBERG_CRASH_ROUNDS", ROUNDS);
    let data_dir = tempfile::tempdir().expect("there is room");
    let server = Server::start(data_dir.path());
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    let acknowledged: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        client.create_table("ns", &format!("t{writer}")).await.expect(200);
        let (client, acknowledged) = (client.clone(), Arc::clone(&acknowledged));
        writers.push(tokio::spawn(async move {
            for commit in 0.. {
                let key = format!("{writer}-{commit}");
                match client.set(&format!("namespaces/ns/tables/t{writer}"), &key).await {
                    Reply::Answered(200, _) => {
                        acknowledged.lock().expect("no panic").push((writer, key));
                    }
                    Reply::Answered(status, body) => panic!("{status}: {body}"),
                    Reply::Lost => return,
                }
            }
        }));
    }
    let mut kept = Vec::new();
    for round in 0..rounds {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let before = acknowledged.lock().expect("no panic").clone();
        let name = format!("c{round}");
        client.checkpoint(&name).await.expect(201);
        kept.push((name, before));
    }
    // The first checkpoint is read while the server writes, and all checkpoints are read after the
    // kill.
    let (name, before) = &kept[0];
    assert_holds(&tables(data_dir.path(), Some(name)), before, name);
    server.kill();
    for writer in writers {
        writer.await.expect("every commit was acknowledged or lost with the server");
    }
    for (name, before) in &kept {
        assert_holds(&tables(data_dir.path(), Some(name)), before, name);
    }
    assert!(kept.iter().any(|(_, before)| before.len() > WRITERS), "too few commits in time");
    assert_sound(data_dir.path(), "after checkpoints under load");
}

fn assert_holds(tables: &Tables, acknowledged: &[(usize, String)], name: &str) {
    for (writer, key) in acknowledged {
        let keys = &tables[&format!("[\"ns\"].\"t{writer}\"")];
        assert!(keys.contains(key), "checkpoint {name} has lost {key}");
    }
}

/// Starts a server whose catalog has a table, and a checkpoint that contains the table.
async fn with_checkpoint(at: &Path) -> Server {
    let server = Server::start(at);
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    client.create_table("ns", "t").await.expect(200);
    client.checkpoint("old").await.expect(201);
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_restore_is_atomic() {
    let rounds = number_from_env("SLATEBERG_CRASH_ROUNDS", ROUNDS);
    let seed = seed("SLATEBERG_CRASH_SEED");
    eprintln!("seed {seed}, {rounds} rounds");
    let mut rng = StdRng::seed_from_u64(seed);
    let data_dir = tempfile::tempdir().expect("there is room");
    let at = data_dir.path();
    let server = with_checkpoint(at).await;
    server.kill();
    let old = tables(at, Some("old"));
    let mut happened = 0;
    for round in 0..rounds {
        let server = Server::start(at);
        let client = Client::of(&server.uri);
        client.set("namespaces/ns/tables/t", &format!("round-{round}")).await.expect(200);
        client.create_table("ns", &format!("later-{round}")).await.expect(200);
        // After the kill, the last records are only in the log. The restore has to replay them.
        server.kill();
        let new = tables(at, None);
        assert_ne!(old, new);
        let after = Duration::from_millis(rng.random_range(KILL_AFTER_MS));
        run_and_kill(at, "restore", &["--to", "old", "--yes"], after);
        let found = tables(at, None);
        assert!(found == old || found == new, "round {round}: {found:?}");
        happened += u64::from(found == old);
        let server = Server::start(at);
        drop(server);
        assert_sound(at, "after a restore that was killed");
    }
    eprintln!("{happened} of {rounds} restores took effect before their kill");
    let (code, output_text) = run(at, "restore", &["--to", "old", "--yes"]);
    assert_eq!(code, Some(0), "{output_text}");
    assert_eq!(tables(at, None), old);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_clone_keeps_its_parent_intact_and_completes_when_repeated() {
    let rounds = number_from_env("SLATEBERG_CRASH_ROUNDS", ROUNDS);
    let seed = seed("SLATEBERG_CRASH_SEED");
    eprintln!("seed {seed}, {rounds} rounds");
    let mut rng = StdRng::seed_from_u64(seed);
    let data_dir = tempfile::tempdir().expect("there is room");
    let at = data_dir.path();
    let server = with_checkpoint(at).await;
    let client = Client::of(&server.uri);
    client.set("namespaces/ns/tables/t", "later").await.expect(200);
    server.kill();
    let (old, now) = (tables(at, Some("old")), tables(at, None));
    for round in 0..rounds {
        let clone = at.join(format!("clone-{round}"));
        let to = clone.to_str().expect("it is UTF-8").to_owned();
        // Half of the clones are of the current state instead of the checkpoint. A retry continues
        // with the state of the first attempt.
        let of: &[&str] = if round % 2 == 0 { &["--checkpoint", "old"] } else { &[] };
        let arguments = [&["--to", to.as_str()], of].concat();
        let after = Duration::from_millis(rng.random_range(KILL_AFTER_MS));
        run_and_kill(at, "clone", &arguments, after);
        assert_sound(at, "after a clone that was killed");
        let (code, output_text) = run(at, "clone", &arguments);
        // The clone may have been complete before the kill.
        let is_done = output_text.contains("the location is not empty");
        assert!(code == Some(0) || is_done, "round {round}: {output_text}");
        let expected = if of.is_empty() { &now } else { &old };
        assert_eq!(&tables(&clone, None), expected, "round {round}");
        let server = Server::start(&clone);
        Client::of(&server.uri).create_namespace("tried").await.expect(200);
        server.kill();
    }
    assert_eq!((tables(at, Some("old")), tables(at, None)), (old, now));
}

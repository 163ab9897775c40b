//! Drops and undrops under `kill -9`: a table or namespace either exists or is dropped, as the last
//! acknowledged request left it, with all of its metadata or contents.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Client, Reply};
use crate::server::{Server, assert_sound};
use crate::support::env_numbers::seed;
use crate::support::view::create_view;

const ROUNDS: usize = 8;
const TABLES: usize = 4;
const DROPPED: &str = "../management/v1/dropped";
/// Time from the start of the load until the kill, in milliseconds.
const KILL_AFTER_MS: std::ops::Range<u64> = 20..200;

/// The state of a table that a client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Exists,
    /// The last response was lost.
    Either,
}

fn path(table: usize) -> String {
    format!("namespaces/ns/tables/t{table}")
}

/// Drops and restores a table until the server dies. Returns its state and the number of commits.
async fn drop_and_undrop(client: Client, table: usize, mut commits: u64) -> (Known, u64) {
    let request = json!({ "resource": format!("table:default/ns/t{table}") });
    loop {
        let key = format!("k{commits}");
        if !client.set(&path(table), &key).await.is_acknowledged() {
            return (Known::Exists, commits);
        }
        commits += 1;
        match client.send(Method::DELETE, &path(table), &Value::Null, None).await {
            Reply::Lost => return (Known::Either, commits),
            reply => reply.expect(204),
        };
        match client.post(&format!("{DROPPED}/undrop"), &request).await {
            Reply::Lost => return (Known::Either, commits),
            reply => reply.expect(200),
        };
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_server_loses_no_table_that_is_dropped_and_restored() {
    let seed = seed("SLATEBERG_CRASH_SEED");
    let mut rng = StdRng::seed_from_u64(seed);
    let data_dir = tempfile::tempdir().expect("there is room");
    let mut acknowledged = [0; TABLES];
    for round in 0..ROUNDS {
        let server = Server::start(data_dir.path());
        let client = Client::of(&server.uri);
        if round == 0 {
            client.create_namespace("ns").await.expect(200);
            for table in 0..TABLES {
                client.create_table("ns", &format!("t{table}")).await.expect(200);
            }
        }
        let workers: Vec<_> = (0..TABLES)
            .map(|table| tokio::spawn(drop_and_undrop(client.clone(), table, acknowledged[table])))
            .collect();
        let after_ms = rng.random_range(KILL_AFTER_MS);
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        server.kill();
        let mut known = Vec::new();
        for (table, worker) in workers.into_iter().enumerate() {
            let (state, commits) = worker.await.expect("the worker got only expected responses");
            known.push(state);
            acknowledged[table] = commits;
        }
        assert_sound(data_dir.path(), &format!("after round {round} of seed {seed}"));
        let server = Server::start(data_dir.path());
        let client = Client::of(&server.uri);
        check(&client, &known, &acknowledged, &format!("in round {round} of seed {seed}")).await;
        server.kill();
    }
    let commits: u64 = acknowledged.iter().sum();
    assert!(commits > 20, "too few drops before the kills: {commits}");
}

/// Checks the state of all tables, and restores the dropped ones.
async fn check(client: &Client, known: &[Known], acknowledged: &[u64], what: &str) {
    let listed = client.get(DROPPED).await.expect(200);
    let listed = listed["dropped"].as_array().expect("a list");
    for (table, known) in known.iter().enumerate() {
        let resource = format!("table:default/ns/t{table}");
        let dropped = listed.iter().filter(|it| it["resource"] == resource).count();
        let exists = client.exists(&path(table)).await;
        assert_eq!(dropped + usize::from(exists), 1, "t{table} {what}");
        match known {
            Known::Exists => assert!(exists, "t{table} {what}"),
            Known::Either => {}
        }
        if !exists {
            let request = json!({ "resource": resource });
            client.post(&format!("{DROPPED}/undrop"), &request).await.expect(200);
        }
        let loaded = client.load(&path(table)).await;
        let properties = loaded["metadata"]["properties"].as_object().expect("an object");
        for commit in 0..acknowledged[table] {
            assert!(properties.contains_key(&format!("k{commit}")), "t{table} {what}: k{commit}");
        }
    }
}

/// Everything in the namespace `tree`, which is dropped recursively.
const TREE: [&str; 5] = [
    "namespaces/tree",
    "namespaces/tree%1Fbelow",
    "namespaces/tree/tables/t",
    "namespaces/tree%1Fbelow/tables/t",
    "namespaces/tree/views/v",
];

async fn create_tree(client: &Client) {
    for levels in [json!(["tree"]), json!(["tree", "below"])] {
        client.post("namespaces", &json!({ "namespace": levels })).await.expect(200);
    }
    for namespace in ["tree", "tree%1Fbelow"] {
        client.create_table(namespace, "t").await.expect(200);
    }
    client.post("namespaces/tree/views", &create_view("v")).await.expect(200);
}

async fn undrop_tree(client: &Client) -> Reply {
    let request = json!({ "resource": "namespace:default/tree" });
    client.post(&format!("{DROPPED}/undrop"), &request).await
}

/// Drops and restores the namespace `tree` until the server dies. Returns the number of
/// acknowledged drops, and whether the namespace exists, if this is known.
async fn drop_and_undrop_tree(client: Client) -> (u64, Option<bool>) {
    let request = json!({ "resource": "namespace:default/tree", "dry-run": false });
    for drops in 0.. {
        match client.post("../management/v1/namespaces/drop", &request).await {
            Reply::Lost => return (drops, None),
            reply => reply.expect(200),
        };
        if client.get(TREE[0]).await.done_or(&[404]).is_none() {
            return (drops + 1, Some(false));
        }
        match undrop_tree(&client).await {
            Reply::Lost => return (drops + 1, None),
            reply => reply.expect(200),
        };
        if client.get(TREE[0]).await.done_or(&[404]).is_none() {
            return (drops + 1, Some(true));
        }
    }
    unreachable!("the server is killed")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_server_drops_and_restores_a_namespace_with_all_of_its_contents_or_not_at_all() {
    let seed = seed("SLATEBERG_CRASH_SEED");
    let mut rng = StdRng::seed_from_u64(seed);
    let data_dir = tempfile::tempdir().expect("there is room");
    let mut drops = 0;
    for round in 0..ROUNDS {
        let what = format!("in round {round} of seed {seed}");
        let server = Server::start(data_dir.path());
        let client = Client::of(&server.uri);
        if round == 0 {
            create_tree(&client).await;
        }
        let worker = tokio::spawn(drop_and_undrop_tree(client));
        tokio::time::sleep(Duration::from_millis(rng.random_range(KILL_AFTER_MS))).await;
        server.kill();
        let (dropped, expected) = worker.await.expect("the worker got only expected responses");
        drops += dropped;
        assert_sound(data_dir.path(), &format!("after the kill {what}"));
        let server = Server::start(data_dir.path());
        let client = Client::of(&server.uri);
        let mut existing = Vec::new();
        for path in TREE {
            existing.push(client.exists(path).await);
        }
        assert!(
            existing.iter().all(|it| *it == existing[0]),
            "only some exist {what}: {existing:?}"
        );
        assert!(expected.is_none_or(|expected| expected == existing[0]), "{what}");
        if !existing[0] {
            undrop_tree(&client).await.expect(200);
        }
        server.kill();
    }
    assert!(drops > 20, "too few drops before the kills: {drops}");
}

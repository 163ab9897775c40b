//! Many clients commit to few tables: no update is lost or applied twice, transactions are atomic,
//! and there is a serial order.
//!
//! Each commit appends its own snapshot, so that a table's snapshots show the order of its commits.
//! The tables have format version 1, which accepts snapshots in any order of their sequence
//! numbers: a commit without a requirement is never rejected.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::chain_checker::{Operation, RunResult, Step, TABLES};
use super::requests::{TIMEOUT, catalog, snapshot_ids};
use crate::support::app::TestApp;
use crate::support::env_numbers::{number_from_env, seed};
use crate::support::fsck::findings;
use crate::support::table::{create_table, main_is};

/// Default number of histories.
const SEEDS: u64 = 240;
/// Number of concurrent histories.
const CONCURRENT_RUNS: usize = 6;
const CLIENTS: std::ops::RangeInclusive<usize> = 8..=16;
const OPS_PER_CLIENT: usize = 5;
fn path(table: usize) -> String {
    format!("/v1/namespaces/ns/tables/t{table}")
}

fn appending(id: i64) -> Value {
    let snapshot = json!({
        "snapshot-id": id,
        "timestamp-ms": 1_700_000_000_000_i64,
        "manifest-list": format!("memory:///warehouse/lists/{id}.avro"),
        "summary": { "operation": "append" },
        "schema-id": 0,
    });
    json!([
        { "action": "add-snapshot", "snapshot": snapshot },
        { "action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id },
    ])
}

/// The catalog of all clients, and their common clock.
struct Course {
    app: Arc<TestApp>,
    clock: AtomicU64,
}

impl Course {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Runs one client from its first request to its last.
    async fn run(self: Arc<Self>, client: usize, mut rng: StdRng) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut known: HashMap<usize, Option<i64>> = HashMap::new();
        for step in 0..OPS_PER_CLIENT {
            let id = i64::try_from(client * OPS_PER_CLIENT + step + 1).expect("courses are short");
            let table = rng.random_range(0..TABLES);
            let started = self.tick();
            let operation = match rng.random_range(0..10) {
                0..3 => self.read(table).await,
                3..5 => self.append(table, id, None).await,
                5..8 => {
                    let required = known.get(&table).copied().flatten();
                    self.append(table, id, Some(required)).await
                }
                _ => self.transact(vec![table, (table + 1) % TABLES], id).await,
            };
            let ended = self.tick();
            if let Operation::Read { table, seen } | Operation::Append { table, seen, .. } =
                &operation
            {
                known.insert(*table, seen.last().copied());
            }
            steps.push(Step { started, ended, operation });
        }
        steps
    }

    async fn read(&self, table: usize) -> Operation {
        let loaded = self.app.get(&path(table)).await.expect(200);
        Operation::Read { table, seen: snapshot_ids(&loaded.body["metadata"]) }
    }

    async fn append(&self, table: usize, id: i64, required: Option<Option<i64>>) -> Operation {
        let requirements: Vec<_> = required.map(main_is).into_iter().collect();
        let body = json!({ "requirements": requirements, "updates": appending(id) });
        let answer = self.app.post(&path(table), body).await;
        if let (409, Some(required)) = (answer.status.as_u16(), required) {
            return Operation::Rejected { table, id, required };
        }
        let seen = snapshot_ids(&answer.expect(200).body["metadata"]);
        Operation::Append { table, id, required, seen }
    }

    async fn transact(&self, tables: Vec<usize>, id: i64) -> Operation {
        let change = |table: &usize| {
            let identifier = json!({ "namespace": ["ns"], "name": format!("t{table}") });
            json!({ "identifier": identifier, "requirements": [], "updates": appending(id) })
        };
        let changes: Vec<_> = tables.iter().map(change).collect();
        let body = json!({ "table-changes": changes });
        self.app.post("/v1/transactions/commit", body).await.expect(204);
        Operation::Transact { tables, id }
    }
}

async fn outcome_of(seed: u64) -> RunResult {
    let mut rng = StdRng::seed_from_u64(seed);
    let (app, bucket) = catalog(rng.random_bool(0.5)).await;
    app.create_namespace(&["ns"]).await;
    for table in 0..TABLES {
        let mut body = create_table(&format!("t{table}"));
        body["properties"] = json!({ "format-version": "1" });
        app.post("/v1/namespaces/ns/tables", body).await.expect(200);
    }
    let course = Arc::new(Course { app: Arc::clone(&app), clock: AtomicU64::new(0) });
    let clients: Vec<_> = (0..rng.random_range(CLIENTS))
        .map(|client| {
            let rng = StdRng::seed_from_u64(rng.random());
            tokio::spawn(Arc::clone(&course).run(client, rng))
        })
        .collect();
    let mut steps = Vec::new();
    for client in clients {
        steps.extend(client.await.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
    }
    let mut chains = Vec::new();
    for table in 0..TABLES {
        let loaded = app.get(&path(table)).await.expect(200);
        chains.push(snapshot_ids(&loaded.body["metadata"]));
    }
    let findings = findings(bucket).await;
    assert!(findings.is_empty(), "seed {seed}: {findings:#?}");
    app.app.runtime.catalog.close().await.expect("the store closes");
    RunResult { steps, chains }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_commits_to_few_tables_have_a_serial_order() {
    let first = seed("SLATEBERG_ISOLATION_SEED");
    let seeds = number_from_env("SLATEBERG_ISOLATION_SEEDS", SEEDS);
    let mut outcomes = futures::stream::iter(first..first + seeds)
        .map(|seed| async move {
            let work = tokio::spawn(tokio::time::timeout(TIMEOUT, outcome_of(seed)));
            let outcome = work.await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            (seed, outcome.unwrap_or_else(|_| panic!("seed {seed} hangs")))
        })
        .buffer_unordered(CONCURRENT_RUNS);
    let (mut commits, mut refusals) = (0, 0);
    while let Some((seed, outcome)) = outcomes.next().await {
        outcome.check().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        commits += outcome.steps.iter().filter(|step| !step.operation.writes().is_empty()).count();
        let is_refusal = |step: &&Step| matches!(step.operation, Operation::Rejected { .. });
        refusals += outcome.steps.iter().filter(is_refusal).count();
    }
    eprintln!("seeds {first}..{}: {commits} commits, {refusals} refusals", first + seeds);
}

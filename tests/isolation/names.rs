//! All operations on few names: the responses have a serial order.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::history::{Event, History, Listing};
use super::model::{Name, Namespace, Op, Outcome};
use super::requests::{TIMEOUT, catalog, perform};
use super::search::is_linearizable;
use crate::support::app::TestApp;
use crate::support::env_numbers::{number_from_env, seed};
use crate::support::fsck::findings;

/// Default number of histories.
const SEEDS: u64 = 1000;
/// Number of concurrent histories.
const CONCURRENT_RUNS: usize = 6;
const CLIENTS: usize = 6;
const OPS_PER_CLIENT: usize = 6;

const A: Namespace = &["a"];
const B: Namespace = &["b"];
const NESTED: Namespace = &["a", "c"];
const NAMESPACES: [Namespace; 3] = [A, B, NESTED];
const NAMES: [Name; 5] = [(A, "t"), (A, "u"), (B, "t"), (B, "u"), (NESTED, "t")];

/// The preferred operations of a history's clients.
#[derive(Debug, Clone, Copy)]
enum OperationMix {
    Everything,
    /// Namespaces are created and dropped while clients create and drop tables in them.
    Namespaces,
    /// Most operations are commits to tables, which are also renamed and dropped.
    Commits,
}

impl OperationMix {
    fn of(seed: u64) -> Self {
        [Self::Everything, Self::Namespaces, Self::Commits][(seed % 3) as usize]
    }

    /// Returns the weight of each kind of operation, in this order: create, drop and read
    /// namespaces; create, drop, rename, read and change tables.
    fn weights(self) -> [u32; 8] {
        match self {
            Self::Everything => [2, 2, 4, 3, 2, 3, 4, 6],
            Self::Namespaces => [5, 6, 5, 5, 4, 3, 2, 1],
            Self::Commits => [1, 0, 1, 3, 3, 4, 5, 12],
        }
    }
}

/// A client, and the snapshots of each table that it read last.
struct Client {
    number: usize,
    rng: StdRng,
    seen: HashMap<Name, Vec<i64>>,
    mix: OperationMix,
}

impl Client {
    fn next(&mut self, step: usize) -> Op {
        let unique = self.number * OPS_PER_CLIENT + step + 1;
        let rng = &mut self.rng;
        let namespace = *NAMESPACES.choose(rng).expect("there are some");
        let names =
            if matches!(self.mix, OperationMix::Commits) { &NAMES[..3] } else { &NAMES[..] };
        let name = *names.choose(rng).expect("there are some");
        let other = *names.choose(rng).expect("there are some");
        let kinds: Vec<_> = self.mix.weights().into_iter().enumerate().collect();
        let kind = kinds.choose_weighted(rng, |it| it.1).expect("weights are positive").0;
        let property = u32::try_from(unique).expect("histories are short");
        match (kind, rng.random_range(0..4)) {
            (0, _) => Op::CreateNamespace(namespace),
            (1, _) => Op::DropNamespace(namespace),
            (2, 0) => Op::NamespaceExists(namespace),
            (2, 1) => Op::Describe(namespace, property),
            (2, 2) => Op::LoadNamespace(namespace),
            (2, _) => Op::ListTables(namespace),
            (3, _) => Op::CreateTable(name),
            (4, _) => Op::DropTable(name),
            (5, _) => Op::Rename(name, other),
            (6, 0) => Op::Exists(name),
            (6, _) => Op::Load(name),
            (_, 0) => Op::Set(name, property),
            (_, 1) if other != name => {
                Op::Transact { tables: vec![name, other], property, parent: self.parent(name).0 }
            }
            _ => {
                let (parent, sequence_number) = self.parent(name);
                let id = i64::try_from(unique).expect("histories are short");
                Op::Append { table: name, id, parent, sequence_number }
            }
        }
    }

    /// Returns the end of the main branch as this client read it last, and the next sequence
    /// number.
    fn parent(&self, name: Name) -> (Option<i64>, i64) {
        let seen = self.seen.get(&name).map_or(&[][..], Vec::as_slice);
        (seen.last().copied(), i64::try_from(seen.len()).expect("histories are short") + 1)
    }

    fn learn(&mut self, op: &Op, outcome: &Outcome) {
        let name = match op {
            Op::CreateTable(name) | Op::Load(name) | Op::Set(name, _) => *name,
            Op::Append { table, .. } => *table,
            _ => return,
        };
        if let Outcome::Table(table) = outcome {
            self.seen.insert(name, table.snapshots.clone());
        }
    }

    async fn run(mut self, app: Arc<TestApp>, history: Arc<History>) {
        for step in 0..OPS_PER_CLIENT {
            let op = self.next(step);
            let outcome = record(&app, &history, self.number, op.clone()).await;
            self.learn(&op, &outcome);
        }
    }
}

async fn record(app: &TestApp, history: &History, client: usize, op: Op) -> Outcome {
    let called = history.tick();
    let outcome = perform(app, &op).await;
    history.answered(client, op, outcome.clone(), called);
    outcome
}

/// Runs the clients of a seed, reads the final state, and checks the store.
async fn history_of(seed: u64) -> Vec<Event> {
    let mut rng = StdRng::seed_from_u64(seed);
    let (app, bucket) = catalog(rng.random_bool(0.7)).await;
    let history = Arc::new(History::default());
    let prepared = [Op::CreateNamespace(A), Op::CreateNamespace(B), Op::CreateTable((A, "t"))];
    for op in prepared {
        record(&app, &history, CLIENTS, op).await;
    }
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let rng = StdRng::seed_from_u64(rng.random());
            let client = Client { number, rng, seen: HashMap::new(), mix: OperationMix::of(seed) };
            tokio::spawn(client.run(Arc::clone(&app), Arc::clone(&history)))
        })
        .collect();
    for client in clients {
        client.await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    let listings = NAMESPACES.map(Op::ListTables).into_iter();
    let namespaces = NAMESPACES.map(Op::LoadNamespace);
    for op in listings.chain(namespaces).chain(NAMES.map(Op::Load)) {
        record(&app, &history, CLIENTS, op).await;
    }
    let findings = findings(bucket).await;
    assert!(findings.is_empty(), "seed {seed}: {findings:#?}\n{}", Listing(&history.events()));
    app.app.runtime.catalog.close().await.expect("the store closes");
    history.events()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_have_a_serial_order() {
    let first = seed("SLATEBERG_ISOLATION_SEED");
    let seeds = number_from_env("SLATEBERG_ISOLATION_SEEDS", SEEDS);
    let mut histories = futures::stream::iter(first..first + seeds)
        .map(|seed| async move {
            let work = tokio::spawn(tokio::time::timeout(TIMEOUT, history_of(seed)));
            let events = work.await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            (seed, events.unwrap_or_else(|_| panic!("seed {seed} hangs")))
        })
        .buffer_unordered(CONCURRENT_RUNS);
    let mut changes = 0;
    while let Some((seed, events)) = histories.next().await {
        assert!(is_linearizable(&events), "seed {seed} has no serial order:\n{}", Listing(&events));
        let is_change = |it: &&Event| matches!(it.outcome, Outcome::Done | Outcome::Table(_));
        changes += events.iter().filter(is_change).count();
    }
    eprintln!("seeds {first}..{}: {changes} operations went well", first + seeds);
}

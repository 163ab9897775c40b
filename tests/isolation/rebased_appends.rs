//! Writers with stale states append to one table that rebases appends, while others overwrite it:
//! each acknowledged commit is in the table once, and no append is rebased over an overwrite.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::support::app::TestApp;
use crate::support::appends::LoadedTable;
use crate::support::env_numbers::seed;

const HISTORIES: u64 = 12;
const WRITERS: u64 = 12;
const COMMITS_PER_WRITER: usize = 8;

/// Outcomes of one writer: the snapshot ids of its acknowledged and of its refused commits.
#[derive(Default)]
struct Outcomes {
    acknowledged: Vec<i64>,
    refused: Vec<i64>,
}

/// Commits with states that may be stale. Every fourth commit is an overwrite.
async fn write(app: Arc<TestApp>, ids: Arc<AtomicI64>, mut rng: StdRng) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let mut table = LoadedTable::load(&app).await;
    for _ in 0..COMMITS_PER_WRITER {
        if rng.random_bool(0.3) {
            table = LoadedTable::load(&app).await;
        }
        let id = ids.fetch_add(1, Ordering::SeqCst);
        let mut commit = table.append(&app, id).await;
        let is_overwrite = rng.random_bool(0.25);
        if is_overwrite {
            commit.updates[0]["snapshot"]["summary"]["operation"] = "overwrite".into();
        }
        let response = commit.commit(&app).await;
        match response.status.as_u16() {
            200 => outcomes.acknowledged.push(id),
            409 => {
                outcomes.refused.push(id);
                table = LoadedTable::load(&app).await;
            }
            _ => panic!("{}", response.body),
        }
    }
    outcomes
}

/// Checks that the snapshots form one line, that each has exactly the manifests of the snapshots up
/// to it, and that no overwrite is between a rebased append and the snapshot on which the writer
/// based it. Returns the snapshot ids.
async fn check(app: &TestApp) -> BTreeSet<i64> {
    let table = LoadedTable::load(app).await;
    let (mut parent, mut manifests) = (None, BTreeSet::new());
    let mut line: Vec<(i64, &str)> = Vec::new();
    for (number, snapshot) in (1..).zip(table.snapshots()) {
        let id = snapshot["snapshot-id"].as_i64().expect("an id");
        assert_eq!(snapshot["parent-snapshot-id"].as_i64(), parent, "{snapshot}");
        assert_eq!(snapshot["sequence-number"], number, "{snapshot}");
        manifests.insert(id);
        let found = table.manifests(app, snapshot).await;
        let added: BTreeSet<_> = found.iter().map(|manifest| manifest.added_snapshot_id).collect();
        assert_eq!((found.len(), &added), (manifests.len(), &manifests), "{snapshot}");
        let operation = snapshot["summary"]["operation"].as_str().expect("an operation");
        if let Value::String(base) = &snapshot["summary"]["slateberg.rebased-from"] {
            assert_eq!(operation, "append");
            let is_base = |(id, _): &(i64, &str)| id.to_string() == *base;
            let since = line.iter().rev().take_while(|it| !is_base(it));
            assert!(since.clone().all(|(_, operation)| *operation == "append"), "{snapshot}");
        }
        line.push((id, operation));
        parent = Some(id);
    }
    line.into_iter().map(|(id, _)| id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_append_is_in_the_table_once_and_no_refused_one_is() {
    for history in 0..HISTORIES {
        let seed = seed("SLATEBERG_ISOLATION_SEED").wrapping_add(history);
        let version = if history % 2 == 0 { 2 } else { 3 };
        let app = Arc::new(TestApp::rebasing("all", Some("all"), version).await);
        let ids = Arc::new(AtomicI64::new(1));
        let writers = (0..WRITERS).map(|writer| {
            let rng = StdRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(writer));
            tokio::spawn(write(Arc::clone(&app), Arc::clone(&ids), rng))
        });
        let outcomes = join_all(writers).await.into_iter().map(|it| it.expect("no panic"));
        let outcomes: Vec<_> = outcomes.collect();
        let found = check(&app).await;
        let acknowledged: BTreeSet<_> =
            outcomes.iter().flat_map(|it| it.acknowledged.clone()).collect();
        assert_eq!(found, acknowledged, "seed {seed}");
        let rebased = LoadedTable::load(&app).await;
        let is_rebased = |it: &&Value| it["summary"]["slateberg.rebased-from"].is_string();
        let rebased = rebased.snapshots().iter().filter(is_rebased).count();
        assert!(rebased > 0, "seed {seed}: no append was rebased");
    }
}

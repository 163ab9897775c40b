//! Writers append to one table all the time, with stale and with new states. Another writer
//! deletes: each of its deletes succeeds after a few tries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::app::TestApp;
use crate::support::appends::LoadedTable;
use crate::support::env_numbers::seed;

const WRITERS: u64 = 8;
const DELETES: usize = 5;
/// Maximum number of tries of a delete. Java clients try five times by default.
const TRIES_MAX: usize = 5;
/// Time between the load and the commit of a delete. Many appends are committed in this time.
const WORK: Duration = Duration::from_millis(40);

/// Appends until `done`. Returns the snapshot ids.
async fn append(
    app: Arc<TestApp>,
    ids: Arc<AtomicI64>,
    done: Arc<AtomicBool>,
    mut rng: StdRng,
) -> Vec<i64> {
    let mut acknowledged = Vec::new();
    let mut table = LoadedTable::load(&app).await;
    while !done.load(Ordering::SeqCst) {
        if rng.random_bool(0.3) {
            table = LoadedTable::load(&app).await;
        }
        let id = ids.fetch_add(1, Ordering::SeqCst);
        let response = table.append(&app, id).await.commit(&app).await;
        match response.status.as_u16() {
            200 => acknowledged.push(id),
            409 => table = LoadedTable::load(&app).await,
            _ => panic!("{}", response.body),
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..4))).await;
    }
    acknowledged
}

/// Deletes once. Returns the number of tries.
async fn delete(app: &TestApp, ids: &AtomicI64) -> usize {
    for tries in 1..=TRIES_MAX {
        let table = LoadedTable::load(app).await;
        let mut commit = table.append(app, ids.fetch_add(1, Ordering::SeqCst)).await;
        commit.updates[0]["snapshot"]["summary"]["operation"] = "delete".into();
        tokio::time::sleep(WORK).await;
        let response = commit.commit(app).await;
        match response.status.as_u16() {
            200 => return tries,
            409 => {}
            _ => panic!("{}", response.body),
        }
    }
    panic!("the delete failed {TRIES_MAX} times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletes_succeed_while_others_append() {
    let seed = seed("SLATEBERG_ISOLATION_SEED");
    let app = Arc::new(TestApp::rebasing("all", Some("all"), 2).await);
    let (ids, done) = (Arc::new(AtomicI64::new(1)), Arc::new(AtomicBool::new(false)));
    let writers = (0..WRITERS).map(|writer| {
        let rng = StdRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(writer));
        tokio::spawn(append(Arc::clone(&app), Arc::clone(&ids), Arc::clone(&done), rng))
    });
    let writers: Vec<_> = writers.collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut tries = Vec::new();
    for _ in 0..DELETES {
        tries.push(delete(&app, &ids).await);
    }
    done.store(true, Ordering::SeqCst);
    let appended: Vec<_> =
        join_all(writers).await.into_iter().map(|it| it.expect("no panic")).collect();
    assert!(appended.iter().all(|ids| !ids.is_empty()), "each writer appends");
    let table = LoadedTable::load(&app).await;
    assert_eq!(table.snapshots().len(), appended.iter().map(Vec::len).sum::<usize>() + DELETES);
    eprintln!("seed {seed}: tries {tries:?}, {} appends", table.snapshots().len() - DELETES);
}

//! Checkpoints beside garbage collection, compactions and the journal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use slatedb::config::{GarbageCollectorDirectoryOptions, GarbageCollectorOptions};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::memory::InMemory;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::authz::action::Maintain;
use crate::authz::permit::{Permit, Task};
use crate::store::keys::WarehouseKey;
use crate::store::read::Read;
use crate::store::settings::Settings;

/// How long a compaction is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

fn in_memory() -> Place {
    Place {
        object_store: Arc::new(InMemory::new()) as Arc<dyn ObjectStore>,
        path: "state".to_owned(),
        conditional_update: true,
        directory: None,
        log: None,
        encryption: None,
    }
}

fn in_directory(directory: &TempDir) -> Place {
    let path = directory.path().join("state");
    Place {
        object_store: Arc::new(LocalFileSystem::new().with_fsync(true)),
        path: path.to_string_lossy().trim_start_matches('/').to_owned(),
        conditional_update: false,
        directory: Some(path),
        ..in_memory()
    }
}

fn permit() -> Permit<Maintain> {
    Permit::for_task(Task::Restore)
}

async fn open(place: &Place) -> Store {
    Store::open(place, Settings::default()).await.expect("the store opens")
}

async fn write(store: &Store, name: &str) {
    let written = store.ensure_warehouse(&permit(), name, "memory:///", Uuid::nil(), 0).await;
    written.expect("it is durable");
}

async fn keep(store: &Store, name: &str) -> Checkpoint {
    let wanted = NewCheckpoint { name: Some(name.to_owned()), lifetime: None };
    match store.create_checkpoint(&permit(), &wanted, 0).await.expect("it is made") {
        Made::Checkpoint(made) => made,
        other => panic!("{other:?}"),
    }
}

async fn has(store: &impl Read, name: &str) -> bool {
    store.get(&WarehouseKey(name.to_owned())).await.expect("it is read").is_some()
}

/// Collects all garbage, whatever its age.
async fn collect(place: &Place) {
    let at_once = GarbageCollectorDirectoryOptions {
        interval: None,
        min_age: Duration::ZERO,
        dry_run: false,
    };
    let options = GarbageCollectorOptions {
        manifest_options: Some(at_once),
        compacted_options: Some(at_once),
        wal_options: Some(at_once),
        ..GarbageCollectorOptions::default()
    };
    admin(place).run_gc_once(options).await.expect("garbage is collected");
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_collection_passes_by_what_a_checkpoint_needs() {
    let place = in_memory();
    let store = open(&place).await;
    write(&store, "before").await;
    let kept = keep(&store, "mine").await;
    // Enough sorted runs for a compaction, which writes all of them anew.
    for run in 0..8 {
        write(&store, &format!("after-{run}")).await;
        store.flush().await.expect("it is flushed");
    }
    let since = Instant::now();
    while store.db.manifest().compacted().is_empty() {
        assert!(since.elapsed() < PATIENCE, "no compaction came");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    collect(&place).await;
    let then = store.at_checkpoint(kept.id).await.expect("it is there");
    assert!(has(&then, "before").await && !has(&then, "after-0").await);
    assert!(has(&store.durable(), "after-0").await);
    // It survives the store, too.
    store.close().await.expect("it closes");
    let store = open(&place).await;
    collect(&place).await;
    assert_eq!(store.checkpoints(0).await.expect("they are listed"), std::slice::from_ref(&kept));
    let then = store.at_checkpoint(kept.id).await.expect("it is there");
    assert!(has(&then, "before").await);
    assert!(store.delete_checkpoint(&permit(), kept.id).await.expect("it is deleted"));
    assert!(!store.delete_checkpoint(&permit(), kept.id).await.expect("it is gone"));
    assert_eq!(store.checkpoints(0).await.expect("they are listed"), []);
    assert!(store.at_checkpoint(kept.id).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_needs_no_journal() {
    let directory = tempfile::tempdir().expect("there is room");
    let place = in_directory(&directory);
    let store = open(&place).await;
    write(&store, "before").await;
    let kept = keep(&store, "mine").await;
    write(&store, "after").await;
    // Beside the writer, which has the journal.
    let then = Store::open_checkpoint(&place, kept.id).await.expect("it opens");
    assert!(has(&then, "before").await && !has(&then, "after").await);
    store.close().await.expect("it closes");
    let journal = std::fs::read_dir(directory.path().join("state/journal")).expect("a journal");
    let segments = journal.flatten().filter(|entry| entry.path().extension().is_some());
    assert_eq!(segments.count(), 0, "an orderly stop leaves none");
    let then = Store::open_checkpoint(&place, kept.id).await.expect("it opens");
    assert!(has(&then, "before").await && !has(&then, "after").await);
    let store = open(&place).await;
    assert!(has(&store.durable(), "after").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_time_is_over_is_not_told() {
    let store = open(&in_memory()).await;
    let wanted = NewCheckpoint { name: None, lifetime: Some(Duration::from_secs(60)) };
    let made = store.create_checkpoint(&permit(), &wanted, 0).await.expect("it is made");
    let Made::Checkpoint(made) = made else { panic!("{made:?}") };
    let ends = made.expires_ms.expect("it ends");
    assert!(made.created_ms < ends && ends <= made.created_ms + 60_000);
    assert_eq!(store.checkpoints(ends - 1).await.expect("they are listed"), [made]);
    assert_eq!(store.checkpoints(ends).await.expect("they are listed"), []);
}

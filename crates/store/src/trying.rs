//! Test support for the store: locations, a record that distinguishes states, and immediate
//! compactions and garbage collections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use slatedb::config::{CloseOptions, GarbageCollectorDirectoryOptions, GarbageCollectorOptions};
use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::memory::InMemory;
use tempfile::TempDir;
use uuid::Uuid;

use super::Store;
use super::checkpoints::admin;
use super::encryption::{Missing, unlock};
use super::keys::WarehouseKey;
use super::location::Place;
use super::read::Read;
use super::settings::Settings;
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::{Permit, Task};

/// Timeout of a compaction.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a location in a bucket.
pub(super) fn place(bucket: &Arc<InMemory>, path: &str) -> Place {
    Place {
        object_store: Arc::clone(bucket) as _,
        path: path.to_owned(),
        conditional_update: true,
        directory: None,
        log: None,
        encryption: None,
        storage: Default::default(),
    }
}

/// Returns a location in a new bucket.
pub(crate) fn in_memory() -> Place {
    place(&Arc::new(InMemory::new()), "state")
}

/// Returns a location in a directory, with a journal.
pub(super) fn in_directory(directory: &TempDir) -> Place {
    let path = directory.path().join("state");
    Place {
        object_store: Arc::new(LocalFileSystem::new().with_fsync(true)),
        path: path.to_string_lossy().trim_start_matches('/').to_owned(),
        conditional_update: false,
        directory: Some(path),
        ..in_memory()
    }
}

/// Returns the permit of tests.
pub(crate) fn permit() -> Permit<Maintain> {
    Permit::for_task(Task::Restore)
}

/// Opens the store at a location.
pub(crate) async fn open(place: &Place) -> Store {
    Store::open(place, Settings::default()).await.expect("the store opens")
}

/// Writes a record with this name, and waits until it is durable.
pub(super) async fn write(store: &Store, name: &str) {
    let written = store.ensure_warehouse(&permit(), name, "memory:///", Uuid::nil(), 0).await;
    written.expect("it is durable");
}

/// Whether the record with this name exists.
pub(super) async fn has(store: &impl Read, name: &str) -> bool {
    store.get(&WarehouseKey(name.to_owned())).await.expect("it is read").is_some()
}

/// Asserts that the records with these names exist.
pub(super) async fn assert_holds(store: &impl Read, names: &[&str]) {
    for name in names {
        assert!(has(store, name).await, "{name} is lost");
    }
}

/// Stops like a crash: the log is not flushed to sorted runs.
pub(super) async fn crash(store: Store) {
    let options = CloseOptions { flush_type: None };
    store.db.close_with_options(options).await.expect("it closes");
}

/// Writes the records `run-0` to `run-7` until a compaction has merged all sorted runs.
pub(super) async fn compact(store: &Store) {
    for run in 0..8 {
        write(store, &format!("run-{run}")).await;
        store.flush().await.expect("it is flushed");
    }
    let since = Instant::now();
    while store.db.manifest().compacted().is_empty() {
        assert!(since.elapsed() < PATIENCE, "no compaction came");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Collects all garbage, regardless of its age, including files that compactions pin.
pub(super) async fn collect(place: &Place) {
    let (place, _) = &unlock(place, Missing::Refuse).await.expect("its keys are there");
    for pinned in admin(place).list_checkpoints(None).await.expect("they are listed") {
        if pinned.name.is_none() {
            admin(place).delete_checkpoint(pinned.id).await.expect("it is deleted");
        }
    }
    let at_once = GarbageCollectorDirectoryOptions {
        interval: None,
        min_age: Duration::ZERO,
        dry_run: false,
    };
    let options = GarbageCollectorOptions {
        manifest_options: Some(at_once),
        compacted_options: Some(at_once),
        wal_options: Some(at_once),
        detach_options: None,
        ..GarbageCollectorOptions::default()
    };
    admin(place).run_gc_once(options).await.expect("garbage is collected");
}

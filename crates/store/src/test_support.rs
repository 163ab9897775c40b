//! Test support for the store: creates locations, writes records that distinguish states, and runs
//! compactions and garbage collections immediately.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slatedb::config::{CloseOptions, GarbageCollectorDirectoryOptions, GarbageCollectorOptions};
use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::memory::InMemory;
use tempfile::{NamedTempFile, TempDir};
use uuid::Uuid;

use super::Store;
use super::change_action::ChangeAction;
use super::changes::Change;
use super::checkpoints::admin;
use super::encryption::{IfMissing, unlock};
use super::keys::WarehouseKey;
use super::location::{Encryption, StoreLocation};
use super::read::StoreRead;
use super::settings::Settings;
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::clock::SystemClock;
use slateberg_base::ids::RandomIds;
use slateberg_kms::local::LocalKms;

/// Timeout of a compaction.
const COMPACTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a location in a bucket.
pub(super) fn location(bucket: &Arc<InMemory>, path: &str) -> StoreLocation {
    StoreLocation {
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
pub(crate) fn in_memory() -> StoreLocation {
    location(&Arc::new(InMemory::new()), "state")
}

/// Returns the location of an encrypted store, with the file of its wrapping key.
pub(crate) fn encrypted(location: StoreLocation) -> (StoreLocation, NamedTempFile) {
    let mut file = NamedTempFile::new().expect("there is room");
    writeln!(file, "{}=", "A".repeat(43)).expect("there is room");
    let encryption = Encryption {
        kms: Arc::new(LocalKms::open(file.path()).expect("it is a key file")),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        shared: None,
    };
    (StoreLocation { encryption: Some(encryption), ..location }, file)
}

/// Returns a location in a directory, with a journal.
pub(super) fn in_directory(directory: &TempDir) -> StoreLocation {
    let path = directory.path().join("state");
    StoreLocation {
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
pub(crate) async fn open(location: &StoreLocation) -> Store {
    Store::open(location, Settings::default()).await.expect("the store opens")
}

/// Returns a change of an object with this name.
pub(super) fn change(name: &str) -> Change {
    Change {
        at_ms: 0,
        action: ChangeAction::CommitTable.into(),
        principal: "p".to_owned(),
        warehouse: Uuid::nil(),
        subject: Uuid::nil(),
        name: name.to_owned(),
        version_before: None,
        version_after: None,
        allowed: None,
        origin: None,
        resource: None,
        group: None,
    }
}

/// Writes a record with this name, and waits until it is durable.
pub(super) async fn write(store: &Store, name: &str) {
    let written = store.ensure_warehouse(&permit(), name, "memory:///", Uuid::nil(), 0).await;
    written.expect("it is durable");
}

/// Whether the record with this name exists.
pub(super) async fn has(store: &impl StoreRead, name: &str) -> bool {
    store.get(&WarehouseKey(name.to_owned())).await.expect("the store is readable").is_some()
}

/// Asserts that the records with these names exist.
pub(super) async fn assert_holds(store: &impl StoreRead, names: &[&str]) {
    for name in names {
        assert!(has(store, name).await, "{name} is lost");
    }
}

/// Stops the store as a crash does: without a flush of the log to sorted runs.
pub(super) async fn crash(store: Store) {
    let options = CloseOptions { flush_type: None };
    store.db.close_with_options(options).await.expect("the store closes");
}

/// Writes the records `run-0` to `run-7`, and waits until a compaction has merged sorted runs.
pub(super) async fn compact(store: &Store) {
    for run in 0..8 {
        write(store, &format!("run-{run}")).await;
        store.flush().await.expect("it is flushed");
    }
    let started = Instant::now();
    while store.db.manifest().compacted().is_empty() {
        assert!(started.elapsed() < COMPACTION_TIMEOUT, "no compaction has run");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Collects all garbage regardless of its age, even files that compactions pin.
pub(super) async fn collect(location: &StoreLocation) {
    let (location, _) = &unlock(location, IfMissing::Reject).await.expect("its keys are there");
    for pinned in admin(location).list_checkpoints(None).await.expect("the checkpoints are listed")
    {
        if pinned.name.is_none() {
            admin(location).delete_checkpoint(pinned.id).await.expect("the checkpoint is deleted");
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
    admin(location).run_gc_once(options).await.expect("garbage is collected");
}

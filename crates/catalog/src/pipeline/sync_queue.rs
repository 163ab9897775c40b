//! [`SyncQueue`]: metadata files on local file systems that are written but not synced.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use uuid::Uuid;

use slateberg_objects::local::LocalFile;
use slateberg_store::unsynced::UnsyncedVersion;

/// Number of files of one warehouse in the queue at which further commits wait.
const FILES_MAX: usize = 2048;

/// Files that wait for a sync, by warehouse. Each warehouse may be on another disk, and none waits
/// for another one.
#[derive(Default)]
pub(super) struct SyncQueue {
    warehouses: Mutex<Warehouses>,
    /// Notified when files were taken out of the queue, and when a warehouse has none left.
    taken: watch::Sender<()>,
}

/// The files of each warehouse. An entry exists as long as a task syncs the files of the warehouse.
type Warehouses = HashMap<Uuid, Vec<UnsyncedFile>>;

/// The metadata file of a version, which is written but not synced.
pub(super) struct UnsyncedFile {
    pub(super) version: UnsyncedVersion,
    pub(super) location: String,
    pub(super) file: LocalFile,
}

/// The right and duty to sync the files of a warehouse. If this value is dropped because of a panic,
/// the next file gets another one.
pub(super) struct SyncTurn<'a> {
    queue: &'a SyncQueue,
    warehouse: Uuid,
}

impl SyncQueue {
    fn lock(&self) -> MutexGuard<'_, Warehouses> {
        self.warehouses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer files of the warehouse are in the queue than the maximum.
    pub(super) async fn wait_for_room(&self, warehouse: Uuid) {
        let count = |warehouses: &Warehouses| warehouses.get(&warehouse).map_or(0, Vec::len);
        self.wait(|warehouses| count(warehouses) < FILES_MAX).await;
    }

    /// Waits until all files are synced or being written again.
    pub(super) async fn wait_empty(&self) {
        self.wait(HashMap::is_empty).await;
    }

    async fn wait(&self, is_done: impl Fn(&Warehouses) -> bool) {
        let mut taken = self.taken.subscribe();
        while !is_done(&self.lock()) {
            // The sender is a member of `self`, so it is not dropped.
            let _ = taken.changed().await;
        }
    }

    /// Adds a file. Returns whether a task has to be started that syncs the files of the warehouse.
    pub(super) fn add(&self, warehouse: Uuid, file: UnsyncedFile) -> bool {
        let mut warehouses = self.lock();
        let is_served = warehouses.contains_key(&warehouse);
        warehouses.entry(warehouse).or_default().push(file);
        !is_served
    }

    /// Begins to sync the files of a warehouse.
    pub(super) fn turn(&self, warehouse: Uuid) -> SyncTurn<'_> {
        SyncTurn { queue: self, warehouse }
    }
}

impl SyncTurn<'_> {
    /// Takes the files out of the queue. Returns `None` if there are none. The turn has then ended.
    pub(super) fn take(&self) -> Option<Vec<UnsyncedFile>> {
        let mut warehouses = self.queue.lock();
        let files = std::mem::take(warehouses.get_mut(&self.warehouse)?);
        if files.is_empty() {
            warehouses.remove(&self.warehouse);
        }
        drop(warehouses);
        self.queue.taken.send_replace(());
        (!files.is_empty()).then_some(files)
    }
}

impl Drop for SyncTurn<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.queue.lock().remove(&self.warehouse);
            self.queue.taken.send_replace(());
        }
    }
}

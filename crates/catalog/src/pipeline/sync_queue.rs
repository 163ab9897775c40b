//! [`SyncQueue`]: metadata files on local file systems that are written but not synced.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use slateberg_objects::local::LocalFile;
use slateberg_store::unsynced::UnsyncedVersion;

/// Maximum number of unsynced files of one warehouse. Further commits wait.
const FILES_MAX: u32 = 2048;

/// Maximum number of files of one warehouse that are written again at the same time. If a disk does
/// not respond, each of them blocks a thread.
const REWRITES_MAX: usize = 4;

/// Files that wait for a sync, by warehouse. Each warehouse may be on another disk, and none waits
/// for another one.
#[derive(Default)]
pub(super) struct SyncQueue(Mutex<HashMap<Uuid, WarehouseQueue>>);

struct WarehouseQueue {
    /// Has one permit for each further file that may be unsynced.
    room: Arc<Semaphore>,
    /// Has one permit for each further file that may be written again.
    rewrites: Arc<Semaphore>,
    /// Files for the next sync.
    waiting: Vec<UnsyncedFile>,
    /// Whether a task syncs the files of the warehouse.
    is_served: bool,
}

/// Room for the files of a change, until all of them are synced.
pub(super) type Room = Arc<OwnedSemaphorePermit>;

/// The metadata file of a version, which is written but not synced.
pub(super) struct UnsyncedFile {
    pub(super) version: UnsyncedVersion,
    pub(super) location: String,
    pub(super) file: LocalFile,
    /// Is held until the file is synced.
    pub(super) room: Option<Room>,
}

/// The right and duty to sync the files of a warehouse. If this value is dropped because of a panic,
/// the next file gets another one.
pub(super) struct SyncTurn<'a> {
    queue: &'a SyncQueue,
    warehouse: Uuid,
}

impl Default for WarehouseQueue {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(FILES_MAX as usize));
        let rewrites = Arc::new(Semaphore::new(REWRITES_MAX));
        Self { room, rewrites, waiting: Vec::new(), is_served: false }
    }
}

impl SyncQueue {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, WarehouseQueue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until this number of files can be written without exceeding the maximum of unsynced
    /// files of the warehouse.
    pub(super) async fn room(&self, warehouse: Uuid, files: usize) -> Option<Room> {
        let files = u32::try_from(files).unwrap_or(FILES_MAX).min(FILES_MAX);
        let room = Arc::clone(&self.lock().entry(warehouse).or_default().room);
        // The semaphore is never closed.
        room.acquire_many_owned(files).await.ok().map(Arc::new)
    }

    /// Waits until all files are synced.
    pub(super) async fn wait_empty(&self) {
        let rooms: Vec<_> =
            self.lock().values().map(|warehouse| Arc::clone(&warehouse.room)).collect();
        for room in rooms {
            let _all = room.acquire_many(FILES_MAX).await;
        }
    }

    /// Waits until a file may be written again, which ends when the returned value is dropped.
    pub(super) async fn rewrite(&self, warehouse: Uuid) -> Option<OwnedSemaphorePermit> {
        let rewrites = Arc::clone(&self.lock().entry(warehouse).or_default().rewrites);
        // The semaphore is never closed.
        rewrites.acquire_owned().await.ok()
    }

    /// Adds a file. Returns whether a task has to be started that syncs the files of the warehouse.
    pub(super) fn add(&self, warehouse: Uuid, file: UnsyncedFile) -> bool {
        let mut warehouses = self.lock();
        let queue = warehouses.entry(warehouse).or_default();
        queue.waiting.push(file);
        !std::mem::replace(&mut queue.is_served, true)
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
        let queue = warehouses.entry(self.warehouse).or_default();
        let files = std::mem::take(&mut queue.waiting);
        queue.is_served = !files.is_empty();
        queue.is_served.then_some(files)
    }
}

impl Drop for SyncTurn<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.queue.lock().entry(self.warehouse).or_default().is_served = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn commits_wait_while_the_maximum_of_files_is_unsynced() {
        let (queue, warehouse) = (SyncQueue::default(), Uuid::from_u128(1));
        let room = async |warehouse, files| {
            let soon = Duration::from_secs(1);
            tokio::time::timeout(soon, queue.room(warehouse, files)).await.ok().flatten()
        };
        let first = room(warehouse, FILES_MAX as usize - 1).await.expect("there is room");
        let second = room(warehouse, 1).await.expect("there is room for one more");
        assert!(room(warehouse, 1).await.is_none(), "too many files are unsynced");
        assert!(room(Uuid::from_u128(2), 1).await.is_some(), "another warehouse has room");
        drop(second);
        assert!(room(warehouse, 2).await.is_none());
        assert!(room(warehouse, 1).await.is_some());
        drop(first);
        let all = room(warehouse, 2 * FILES_MAX as usize).await;
        assert!(all.is_some(), "a change of more files than the maximum waits for all others");
    }
}

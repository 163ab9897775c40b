//! [`SyncQueue`]: files on local file systems that are written but not synced.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::file::WarehouseFile;
use slateberg_store::unsynced::UnsyncedVersions;

/// Number of versions in the queue at which further commits wait.
const VERSIONS_MAX: usize = 2048;

/// Files that wait for a sync.
#[derive(Default)]
pub(super) struct SyncQueue {
    queue: Mutex<Queue>,
    /// Notified when the queue was emptied.
    emptied: watch::Sender<()>,
}

#[derive(Default)]
struct Queue {
    versions: Vec<Written>,
    /// Whether a task is running that syncs the queue.
    is_served: bool,
}

/// Versions with files that are written but not synced.
pub(super) struct Written {
    pub(super) versions: UnsyncedVersions,
    pub(super) files: Vec<UnsyncedFile>,
}

/// A file that is written but not synced.
pub(super) struct UnsyncedFile {
    pub(super) path: PathBuf,
    pub(super) file: WarehouseFile,
}

impl SyncQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If one of these files is to be synced later, waits until fewer versions are in the queue than
    /// the maximum.
    pub(super) async fn wait_for_room(&self, files: &[WarehouseFile]) {
        if !files.iter().any(WarehouseFile::is_synced_later) {
            return;
        }
        let mut emptied = self.emptied.subscribe();
        while self.lock().versions.len() >= VERSIONS_MAX {
            // The sender is a member of `self`, so it is not dropped.
            let _ = emptied.changed().await;
        }
    }

    /// Adds versions to the queue. Returns whether a task has to be started that syncs it.
    pub(super) fn add(&self, written: Written) -> bool {
        let mut queue = self.lock();
        queue.versions.push(written);
        !std::mem::replace(&mut queue.is_served, true)
    }

    /// Takes everything out of the queue. If it is empty, the calling task has to end.
    pub(super) fn take(&self) -> Vec<Written> {
        let mut queue = self.lock();
        let versions = std::mem::take(&mut queue.versions);
        queue.is_served = !versions.is_empty();
        drop(queue);
        self.emptied.send_replace(());
        versions
    }
}

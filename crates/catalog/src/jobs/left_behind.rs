//! Files that a rebase leaves behind, and new manifests that it may leave behind.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use slateberg_store::keys::AbandonedKey;

/// Files that a change of a table leaves behind.
#[derive(Debug, Default)]
pub(crate) struct LeftBehind {
    /// Manifest lists of clients.
    pub(crate) manifest_lists: Vec<String>,
    /// Manifests that clients have merged in vain.
    pub(crate) manifests: Vec<String>,
    /// Records of new manifests. The change uses these manifests, so it removes the records.
    pub(crate) used: Vec<AbandonedKey>,
}

/// New manifests that the server has written for commits that have not ended. No job deletes them,
/// whatever the clock says.
#[derive(Default)]
pub(super) struct PendingManifests(Mutex<HashSet<String>>);

/// New manifests of a commit. Until this is dropped, no job deletes them.
pub(crate) struct NewManifests {
    pending: Arc<PendingManifests>,
    paths: Vec<String>,
    /// The record of the manifests. `None` if this catalog is a clone, which deletes no files.
    pub(crate) record: Option<AbandonedKey>,
}

impl LeftBehind {
    /// Adds the files of another change.
    pub(crate) fn append(&mut self, other: Self) {
        self.manifest_lists.extend(other.manifest_lists);
        self.manifests.extend(other.manifests);
        self.used.extend(other.used);
    }
}

impl PendingManifests {
    /// Whether a commit in progress may use one of these manifests.
    pub(super) fn contains_any(&self, manifests: &[String]) -> bool {
        let pending = self.lock();
        manifests.iter().any(|manifest| pending.contains(manifest))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NewManifests {
    /// Begins a commit with these manifests. They have no record yet.
    pub(super) fn new(pending: &Arc<PendingManifests>, paths: Vec<String>) -> Self {
        pending.lock().extend(paths.iter().cloned());
        Self { pending: Arc::clone(pending), paths, record: None }
    }
}

impl Drop for NewManifests {
    fn drop(&mut self) {
        let mut pending = self.pending.lock();
        self.paths.iter().for_each(|path| _ = pending.remove(path));
    }
}

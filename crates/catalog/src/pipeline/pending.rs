//! [`PendingPublications`]: accepted versions of tables and views that are not durable yet, or
//! whose metadata file is not published yet.
//!
//! If a reader sees such a version in the durable records, it waits until the metadata file exists.
//! So there is a file for the `metadata-location` in every response.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::{Error, Result};
use slateberg_store::keys::PublicationKey;

/// All pending versions.
#[derive(Clone, Default)]
pub(crate) struct PendingPublications {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    versions: Mutex<HashMap<PublicationKey, watch::Receiver<()>>>,
    /// Number of pending versions. If it is 0, readers take no lock. It is incremented before a
    /// version is written, and so before any reader can see that version.
    count: AtomicUsize,
}

/// Versions that one change registered. Dropping this value wakes the readers that wait for these
/// versions.
pub(crate) struct PendingPublication {
    keys: Vec<PublicationKey>,
    all: PendingPublications,
    _arrival: watch::Sender<()>,
}

impl PendingPublications {
    /// Registers versions. Must be called before the transaction that writes them.
    pub(crate) fn register(&self, keys: Vec<PublicationKey>) -> PendingPublication {
        let (arrival, watcher) = watch::channel(());
        let mut versions = self.inner.lock();
        versions.extend(keys.iter().map(|key| (*key, watcher.clone())));
        self.inner.count.store(versions.len(), Ordering::Release);
        drop(versions);
        PendingPublication { keys, all: self.clone(), _arrival: arrival }
    }

    /// Waits until the version is published, for at most `deadline`.
    pub(crate) async fn wait(&self, key: PublicationKey, deadline: Duration) -> Result<()> {
        if self.inner.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let watcher = self.inner.lock().get(&key).cloned();
        let Some(mut watcher) = watcher else { return Ok(()) };
        // The sender never sends. The receiver wakes when the sender is dropped.
        match timeout(deadline, watcher.changed()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::unavailable(
                "The newest metadata is not published yet",
                "metadata file is still being written",
            )),
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, HashMap<PublicationKey, watch::Receiver<()>>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingPublication {
    /// Returns the registered versions.
    pub(crate) fn keys(&self) -> &[PublicationKey] {
        &self.keys
    }
}

impl Drop for PendingPublication {
    fn drop(&mut self) {
        let inner = &self.all.inner;
        let mut versions = inner.lock();
        for key in &self.keys {
            versions.remove(key);
        }
        inner.count.store(versions.len(), Ordering::Release);
    }
}

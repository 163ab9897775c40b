//! New versions that are on their way: accepted, and not yet both durable and published.
//!
//! A reader that meets one in the durable records waits until its metadata file is there, so that
//! nobody is ever handed a `metadata-location` that does not exist.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::{Error, Result};
use slateberg_store::keys::PublicationKey;

/// All versions on their way.
#[derive(Clone, Default)]
pub struct Flights {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    under_way: Mutex<HashMap<PublicationKey, watch::Receiver<()>>>,
    /// How many of them there are: readers of a catalog that nobody changes need no lock. It is raised before
    /// a version is written, and so before anybody can read that version.
    count: AtomicUsize,
}

/// Versions that were registered as one; dropping this says that they have arrived, or never will.
pub struct Flight {
    keys: Vec<PublicationKey>,
    flights: Flights,
    _arrival: watch::Sender<()>,
}

impl Flights {
    /// Registers versions, before the transaction that writes them commits.
    pub fn register(&self, keys: Vec<PublicationKey>) -> Flight {
        let (arrival, watcher) = watch::channel(());
        let mut under_way = self.inner.lock();
        under_way.extend(keys.iter().map(|key| (*key, watcher.clone())));
        self.inner.count.store(under_way.len(), Ordering::Release);
        drop(under_way);
        Flight { keys, flights: self.clone(), _arrival: arrival }
    }

    /// Returns once the version is not on its way any more.
    pub async fn arrived(&self, key: PublicationKey, deadline: Duration) -> Result<()> {
        if self.inner.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let watcher = self.inner.lock().get(&key).cloned();
        let Some(mut watcher) = watcher else { return Ok(()) };
        // The sender never sends: that it is dropped is the message.
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
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    /// What was registered.
    pub fn keys(&self) -> &[PublicationKey] {
        &self.keys
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let inner = &self.flights.inner;
        let mut under_way = inner.lock();
        for key in &self.keys {
            under_way.remove(key);
        }
        inner.count.store(under_way.len(), Ordering::Release);
    }
}

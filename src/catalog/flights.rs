//! New versions that are on their way: accepted, and not yet both durable and published.
//!
//! A reader that meets one in the durable records waits until its metadata file is there, so that
//! nobody is ever handed a `metadata-location` that does not exist.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::{Error, Result};
use crate::store::keys::PublicationKey;

/// All versions on their way.
#[derive(Clone, Default)]
pub struct Flights {
    under_way: Arc<Mutex<HashMap<PublicationKey, watch::Receiver<()>>>>,
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
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.extend(keys.iter().map(|key| (*key, watcher.clone())));
        drop(under_way);
        Flight { keys, flights: self.clone(), _arrival: arrival }
    }

    /// Returns once the version is not on its way any more.
    pub async fn arrived(&self, key: PublicationKey, deadline: Duration) -> Result<()> {
        let watcher = {
            let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
            under_way.get(&key).cloned()
        };
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

impl Flight {
    /// What was registered.
    pub fn keys(&self) -> &[PublicationKey] {
        &self.keys
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut under_way = self.flights.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        for key in &self.keys {
            under_way.remove(key);
        }
    }
}

//! [`SerialLock`]: a lock with a timeout, which serializes changes of the same kind.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use super::{Error, Result};

/// A lock for changes of the same kind.
#[derive(Clone, Default)]
pub(super) struct SerialLock(Arc<Mutex<()>>);

/// The guard of the lock. Dropping it releases the lock.
pub(super) struct SerialGuard {
    _guard: OwnedMutexGuard<()>,
}

impl SerialLock {
    /// Takes the lock. If the wait takes longer than `at_most`, errors with `Unavailable` and the
    /// message `busy`.
    pub(super) async fn wait(&self, at_most: Duration, busy: &str) -> Result<SerialGuard> {
        let turn = timeout(at_most, Arc::clone(&self.0).lock_owned()).await;
        let turn = turn.map_err(|late| Error::unavailable(busy, late))?;
        Ok(SerialGuard { _guard: turn })
    }
}

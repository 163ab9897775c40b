//! [`SerialLock`]: a lock with a timeout, which serializes changes of the same kind.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use super::{Error, Result};

/// A lock that changes of the same kind take.
#[derive(Clone, Default)]
pub(super) struct SerialLock(Arc<Mutex<()>>);

/// The lock guard; dropping this releases the lock.
pub(super) struct SerialGuard {
    _guard: OwnedMutexGuard<()>,
}

impl SerialLock {
    /// Takes the lock. Waits at most `at_most`, and on expiry returns `Unavailable` with the
    /// message `busy`.
    pub(super) async fn wait(&self, at_most: Duration, busy: &str) -> Result<SerialGuard> {
        let turn = timeout(at_most, Arc::clone(&self.0).lock_owned()).await;
        let turn = turn.map_err(|late| Error::unavailable(busy, late))?;
        Ok(SerialGuard { _guard: turn })
    }
}

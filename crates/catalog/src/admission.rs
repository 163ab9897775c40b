//! [`Admission`]: limits how many requests do expensive work at the same time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Result};

/// Maximum time that a request waits for its turn.
const ADMISSION_TIME: Duration = Duration::from_secs(5);

/// The requests that do some expensive work at the same time. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Admission(Arc<Semaphore>);

impl Admission {
    /// Admits this many requests, and at least one.
    pub(crate) fn new(parallel_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(parallel_max.clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// Waits until a request may begin. The request ends when the permit is dropped. Errors with
    /// `busy` if the wait takes too long.
    pub(crate) async fn admit(&self, busy: impl FnOnce() -> Error) -> Result<OwnedSemaphorePermit> {
        let waiting = Arc::clone(&self.0).acquire_owned();
        match tokio::time::timeout(ADMISSION_TIME, waiting).await {
            Ok(permit) => permit.map_err(Error::internal),
            Err(_) => Err(busy()),
        }
    }
}

//! [`Compute`]: limits for concurrent plans, and threads for their evaluation.
//!
//! Commits must not wait for plans. So plans leave one core free if the machine has several cores,
//! and their threads have a low priority.

use std::num::NonZero;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::admission::Admission;
use crate::{Error, Operation, Result};
use slateberg_base::background;
use slateberg_base::slots::{self, SlotsPerKey};

/// The limits of plans.
pub(super) struct Compute {
    /// Requests that are planned concurrently.
    requests: Admission,
    /// Threads that read manifests and evaluate filters.
    threads: Arc<Semaphore>,
    /// Requests of each principal.
    principals: SlotsPerKey<String>,
}

/// A slot for planning one request. Dropping it releases the slot.
pub(super) struct Slot {
    _request: OwnedSemaphorePermit,
    _principal: Option<slots::Slot<String>>,
}

impl Compute {
    pub(super) fn new(plans_parallel_max: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            requests: Admission::new(plans_parallel_max),
            threads: Arc::new(Semaphore::new(cores.saturating_sub(1).max(1))),
            // One principal cannot use all slots.
            principals: SlotsPerKey::new(plans_parallel_max.div_ceil(2)),
        }
    }

    /// Waits until a request may begin. Errors if too many requests are being planned already.
    /// Requests have no principal only on a server without authentication. Such requests have no
    /// limit per principal.
    pub(super) async fn admit(&self, operation: &Operation) -> Result<Slot> {
        let busy = |cause| Error::unavailable("Too many scans are planned at the same time", cause);
        let _principal = match operation.owner() {
            Some(id) => {
                Some(self.principals.try_take(id).ok_or_else(|| busy("of this principal"))?)
            }
            None => None,
        };
        let _request = self.requests.admit(|| busy("of all principals")).await?;
        Ok(Slot { _request, _principal })
    }

    /// Runs work on a thread of low priority.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.threads).acquire_owned().await.map_err(Error::internal)?;
        let work = move || {
            let result = work();
            drop(permit);
            result
        };
        background::run(work).await.map_err(Error::internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principal_cannot_use_all_slots() {
        let compute = Compute::new(4);
        let slots = [(); 3].map(|()| compute.principals.try_take("a".to_owned()));
        assert_eq!(slots.map(|slot| slot.is_some()), [true, true, false], "half of the slots");
    }
}

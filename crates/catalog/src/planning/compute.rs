//! [`Compute`]: limits for concurrent plans, and threads for their evaluation.
//!
//! Commits must not wait for plans. So plans leave one core free if the machine has several cores.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Operation, Result};

/// Maximum time that a request waits for a slot.
const ADMISSION_TIME: Duration = Duration::from_secs(5);

/// The limits of plans.
pub(super) struct Compute {
    /// Requests that are planned concurrently.
    requests: Arc<Semaphore>,
    /// Threads that read manifests and evaluate filters.
    threads: Arc<Semaphore>,
    /// Requests of each principal.
    principals: Arc<Mutex<HashMap<Option<String>, usize>>>,
    per_principal_max: usize,
}

/// A slot for planning one request. Dropping it releases the slot.
pub(super) struct Slot {
    _request: OwnedSemaphorePermit,
    _principal: PrincipalSlot,
}

/// A request of a principal, counted until it is dropped.
struct PrincipalSlot {
    principal: Option<String>,
    principals: Arc<Mutex<HashMap<Option<String>, usize>>>,
}

impl Compute {
    pub(super) fn new(plans_parallel_max: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            requests: Arc::new(Semaphore::new(plans_parallel_max.clamp(1, Semaphore::MAX_PERMITS))),
            threads: Arc::new(Semaphore::new(cores.saturating_sub(1).max(1))),
            principals: Arc::default(),
            // One principal cannot use all slots.
            per_principal_max: plans_parallel_max.div_ceil(2),
        }
    }

    /// Waits until a request may begin. Errors if too many requests are being planned already.
    pub(super) async fn admit(&self, operation: &Operation) -> Result<Slot> {
        let busy = |cause| Error::unavailable("Too many scans are planned at the same time", cause);
        let principal = operation.owner();
        let _principal = self.count(principal).ok_or_else(|| busy("of this principal"))?;
        let waiting = Arc::clone(&self.requests).acquire_owned();
        match tokio::time::timeout(ADMISSION_TIME, waiting).await {
            Ok(Ok(_request)) => Ok(Slot { _request, _principal }),
            Ok(Err(_)) | Err(_) => Err(busy("of all principals")),
        }
    }

    /// Counts a request of a principal. `None` if the principal has too many requests already.
    /// Requests have no principal only on a server without authentication. Such requests have no
    /// limit per principal.
    fn count(&self, principal: Option<String>) -> Option<PrincipalSlot> {
        let mut all = self.principals.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(principal.clone()).or_default();
        if principal.is_some() && *count >= self.per_principal_max {
            return None;
        }
        *count += 1;
        drop(all);
        Some(PrincipalSlot { principal, principals: Arc::clone(&self.principals) })
    }

    /// Runs work on a thread for blocking work.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.threads).acquire_owned().await.map_err(Error::internal)?;
        let running = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(permit);
            result
        });
        running.await.map_err(Error::internal)
    }
}

impl Drop for PrincipalSlot {
    fn drop(&mut self) {
        let mut all = self.principals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.principal) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                all.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn principal_cannot_use_all_slots() {
        let compute = Compute::new(4);
        let first = compute.count(principal("a"));
        let second = compute.count(principal("a"));
        assert!(first.is_some() && second.is_some());
        assert!(compute.count(principal("a")).is_none(), "half of the slots are taken");
        assert!(compute.count(principal("b")).is_some());
        drop(first);
        assert!(compute.count(principal("a")).is_some(), "a slot is free again");
        drop(second);
        assert!(compute.principals.lock().expect("no panic").is_empty());
    }
}

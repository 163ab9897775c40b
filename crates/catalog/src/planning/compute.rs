//! [`Compute`]: limits for concurrent plans, and threads for their evaluation.
//!
//! Commits must not wait for plans. So plans leave one core free if the machine has several cores,
//! and their threads have a low priority.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::admission::Admission;
use crate::{Error, Operation, Result};
use slateberg_base::background::BackgroundThreads;
use slateberg_base::slots::{self, SlotsPerKey};
use slateberg_telemetry::collection::Collection;

/// The limits of plans.
pub(super) struct Compute {
    /// Requests that are planned concurrently.
    requests: Admission,
    /// Threads that read manifests and evaluate filters.
    threads: BackgroundThreads,
    /// Limits the number of threads that work.
    working: Arc<Semaphore>,
    /// Requests of each principal.
    principals: SlotsPerKey<String>,
    /// Memory for responses, in units of [`RESPONSE_UNIT_BYTES`].
    responses: Arc<Semaphore>,
    response_units_max: u32,
}

/// Size of a unit of memory for responses, in bytes.
const RESPONSE_UNIT_BYTES: u64 = 1 << 10;
/// Maximum time for which a response waits for memory.
const RESPONSE_WAIT: Duration = Duration::from_secs(10);

/// A response and its reserved memory, which becomes free when the client has read the response.
struct HeldResponse {
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for HeldResponse {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A slot for planning one request. Dropping it releases the slot.
pub(super) struct Slot {
    _request: OwnedSemaphorePermit,
    _principal: Option<slots::Slot<String>>,
}

impl Compute {
    pub(super) fn new(plans_parallel_max: usize, response_bytes_max: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let units_max = (response_bytes_max / RESPONSE_UNIT_BYTES).max(1);
        let response_units_max = u32::try_from(units_max).unwrap_or(u32::MAX);
        Self {
            requests: Admission::new(plans_parallel_max),
            threads: BackgroundThreads::default(),
            working: Arc::new(Semaphore::new(cores.saturating_sub(1).max(1))),
            // One principal cannot use all slots.
            principals: SlotsPerKey::new(plans_parallel_max.div_ceil(2)),
            responses: Arc::new(Semaphore::new(response_units_max as usize)),
            response_units_max,
        }
    }

    /// Renders a response of about this size. Waits for memory, and errors if clients do not read
    /// earlier responses in time. A response that is larger than all memory for responses waits
    /// until there is no other.
    pub(super) async fn render(
        &self,
        bytes_expected: u64,
        render: impl FnOnce() -> Vec<u8> + Send + 'static,
    ) -> Result<Bytes> {
        let units = bytes_expected.div_ceil(RESPONSE_UNIT_BYTES);
        let units = u32::try_from(units).unwrap_or(u32::MAX).min(self.response_units_max);
        let waiting = Arc::clone(&self.responses).acquire_many_owned(units);
        let room = timeout(RESPONSE_WAIT, waiting).await.map_err(|_| {
            let message = "Clients have not read earlier scan plans. Retry later";
            Error::unavailable(message, "catalog.plan_bytes_max")
        })?;
        let room = room.map_err(Error::internal)?;
        let bytes = self.run(render).await?;
        Ok(Bytes::from_owner(HeldResponse { bytes, _room: room }))
    }

    /// Collects the metrics of the responses.
    pub(super) fn collect(&self, into: &mut Collection) {
        let units = u64::from(self.response_units_max) - self.responses.available_permits() as u64;
        let help = "Reserved memory of scan plans that clients have not read yet.";
        let bytes = (units * RESPONSE_UNIT_BYTES) as f64;
        into.gauge("slateberg.plan.responses", "By", help, Vec::new(), bytes);
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
        let permit = Arc::clone(&self.working).acquire_owned().await.map_err(Error::internal)?;
        let work = move || {
            let result = work();
            drop(permit);
            result
        };
        self.threads.run(work).await.map_err(Error::internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind as ErrorKind;

    #[test]
    fn principal_cannot_use_all_slots() {
        let compute = Compute::new(4, 1 << 20);
        let slots = [(); 3].map(|()| compute.principals.try_take("a".to_owned()));
        assert_eq!(slots.map(|slot| slot.is_some()), [true, true, false], "half of the slots");
    }

    #[tokio::test(start_paused = true)]
    async fn response_waits_until_earlier_ones_are_read() {
        let compute = Compute::new(4, 10 << 10);
        let first = compute.render(8 << 10, || vec![1]).await.expect("there is room");
        let part = first.slice(..1);
        drop(first);
        let second = compute.render(8 << 10, || vec![2]).await;
        assert_eq!(second.expect_err("a part is not sent").kind(), ErrorKind::Unavailable);
        let small = compute.render(2 << 10, || vec![3]).await.expect("there is room");
        drop((part, small));
        compute.render(1 << 30, || vec![4]).await.expect("a large response can be the only one");
    }
}

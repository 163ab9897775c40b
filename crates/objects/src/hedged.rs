//! [`Hedged`]: an object store that sends a slow put a second time, and returns the first success.
//!
//! A few puts to a bucket take many times longer than the others. SlateDB puts the objects of its
//! log one after the other, so one slow put delays all commits that wait for the log. A second put
//! usually takes the usual time. [`timing`] determines when it is sent, and limits how often.
//!
//! Only puts on the condition that the object does not exist (`If-None-Match`) are sent again. Both
//! puts have the same content and metadata.
//!
//! **At most one put creates the object.** If one of them succeeds, the object is durable, and the
//! other put is cancelled. If the store executes the cancelled put anyway, it is rejected because
//! the object exists.
//!
//! **`AlreadyExists` does not state whose object exists.** It may be the object of the other put,
//! whose response is late. This ambiguity is the same as after a retry of a put whose response was
//! lost, so the callers resolve it already. The store never compares the contents, because two
//! writers of the log can put equal contents: an object with which a writer fences its predecessor
//! is empty. Instead, SlateDB marks each put with a unique id in the metadata of the object, and
//! looks for its own id. A metadata file or manifest list has a new UUID in its name, and its
//! writer compares the content. A probe would fail, but the store of a probe is new, and the first
//! puts of a store are never sent again.
//!
//! **A late put cannot restore a deleted object that matters.** If the store executes a cancelled
//! put after the deletion of the object, the object exists again. This requires that the deletion
//! is faster than a request in the network. A request of this process ends after 5 seconds by
//! default (the option `timeout` of the store), and a cancelled put is not retried. Garbage
//! collection deletes objects of the log and manifests only after 5 minutes. Even if such an object
//! existed again, it would be harmless: its number is below that of the oldest object that is still
//! needed, so that no start, no replica and no fence uses it, and the next garbage collection
//! deletes it. A metadata file may be deleted soon after it was created, but its name is never used
//! again, so that a restored file is an orphan. The same can happen without second puts, if a put
//! times out and is retried.

mod timing;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use object_store::path::Path;
use object_store::{Error, ObjectStore, PutMode, PutOptions, PutPayload, PutResult, Result};
use tokio::time::{Instant, timeout};

use self::timing::HedgeTiming;
use super::forward::forward_all_but_put;
use super::open::{Opened, Opener};
use slateberg_telemetry::requests::HedgedPuts;

/// Maximum size of a put that is sent again. The duration of larger puts depends on their size.
const BYTES_MAX: usize = 1 << 20;

/// Maximum time for the other put after one has failed. Afterwards, the caller retries.
const OTHER_WAIT_MAX: Duration = Duration::from_secs(1);

/// An object store that sends slow puts again.
struct Hedged {
    inner: Arc<dyn ObjectStore>,
    timing: Mutex<HedgeTiming>,
    puts: Arc<HedgedPuts>,
    whom: &'static str,
}

/// Wraps a store in a network. `whom` is the name of the store in metrics.
pub fn hedged(
    inner: Arc<dyn ObjectStore>,
    puts: &Arc<HedgedPuts>,
    whom: &'static str,
) -> Arc<dyn ObjectStore> {
    Arc::new(Hedged { inner, timing: Mutex::default(), puts: Arc::clone(puts), whom })
}

/// Wraps an opener so that puts to the stores in a network are hedged.
pub fn hedged_opener(inner: Opener, puts: Arc<HedgedPuts>, whom: &'static str) -> Opener {
    Arc::new(move |url, options| {
        let opened = inner(url, options)?;
        if !opened.is_remote {
            return Ok(opened);
        }
        let object_store = hedged(opened.object_store, &puts, whom);
        Ok(Opened { object_store, ..opened })
    })
}

impl Hedged {
    fn timing(&self) -> MutexGuard<'_, HedgeTiming> {
        self.timing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an object with one or two puts.
    async fn create(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let began = Instant::now();
        let put = || self.inner.put_opts(location, payload.clone(), options.clone());
        let delay = self.timing().delay();
        let created = match delay {
            None => put().await,
            Some(delay) => {
                let mut first = put();
                match timeout(delay, &mut first).await {
                    Ok(created) => created,
                    Err(_) if self.timing().spend() => self.first_of(first, put()).await,
                    Err(_) => first.await,
                }
            }
        };
        if created.is_ok() {
            self.timing().record(began.elapsed());
        }
        created
    }

    /// Returns the first response that states whether the object exists, or else the last error.
    async fn first_of(
        &self,
        first: BoxFuture<'_, Result<PutResult>>,
        second: BoxFuture<'_, Result<PutResult>>,
    ) -> Result<PutResult> {
        let (ended, other, names) = match select(first, second).await {
            Either::Left((ended, second)) => (ended, second, ["first", "second"]),
            Either::Right((ended, first)) => (ended, first, ["second", "first"]),
        };
        if is_conclusive(&ended) {
            self.puts.ended(self.whom, names[0]);
            return ended;
        }
        // The put that failed may have created the object nevertheless. The other put then returns
        // `AlreadyExists`, so this error is better than the failure.
        let ended = timeout(OTHER_WAIT_MAX, other).await.unwrap_or(ended);
        self.puts.ended(self.whom, if is_conclusive(&ended) { names[1] } else { "none" });
        ended
    }
}

/// Whether a response states that the object exists.
fn is_conclusive(put: &Result<PutResult>) -> bool {
    matches!(put, Ok(_) | Err(Error::AlreadyExists { .. }))
}

forward_all_but_put!(Hedged);

impl Hedged {
    async fn put_or_forward(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        if matches!(options.mode, PutMode::Create) && payload.content_length() <= BYTES_MAX {
            return self.create(location, payload, options).await;
        }
        self.inner.put_opts(location, payload, options).await
    }
}

#[cfg(test)]
mod tests;

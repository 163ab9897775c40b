//! Admission: how much may be under way at the same time.
//!
//! A request takes a place before any work is done, and room for its body once it is known who sends it:
//! what nobody answers for must not keep others out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use slateberg_config::server::Settings;

/// Bodies are counted in units of this many bytes.
const UNIT_BYTES: usize = 1024;

/// One in so many places is for those who have not said who they are.
const STRANGERS_PART: usize = 8;

/// What may be under way at the same time.
pub struct Admission {
    /// Under way now. Nobody ever waits for room, so that this needs no queue of those who do.
    requests: AtomicUsize,
    requests_max: usize,
    /// Those among them that nobody in particular sends, with a body that is still to come.
    strangers: Arc<Semaphore>,
    body_units: Arc<Semaphore>,
}

/// The place of one request. It is free again when this is dropped.
pub struct Place<'a>(&'a AtomicUsize);

/// There is no room.
#[derive(Debug)]
pub struct Full;

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl From<TryAcquireError> for Full {
    fn from(_: TryAcquireError) -> Self {
        Self
    }
}

impl Admission {
    /// Admission within these bounds.
    pub fn new(settings: &Settings) -> Self {
        // One body of the largest size always fits, or no such request could ever be answered.
        let bodies_bytes = settings.bodies_bytes_max.max(settings.body_bytes_max);
        let body_units = (bodies_bytes / UNIT_BYTES + 1).min(Semaphore::MAX_PERMITS);
        let strangers_max = settings.requests_in_flight_max.div_ceil(STRANGERS_PART);
        Self {
            requests: AtomicUsize::new(0),
            requests_max: settings.requests_in_flight_max,
            strangers: Arc::new(Semaphore::new(strangers_max.min(Semaphore::MAX_PERMITS))),
            body_units: Arc::new(Semaphore::new(body_units)),
        }
    }

    /// The place of a request, to be held until the answer is made.
    pub fn admit(&self) -> Result<Place<'_>, Full> {
        let place = Place(&self.requests);
        let before = self.requests.fetch_add(1, Ordering::Relaxed);
        if before < self.requests_max { Ok(place) } else { Err(Full) }
    }

    /// The further place of a request that nobody in particular sends, until its body is there: however
    /// many such bodies are waited for, the others are answered.
    pub fn stranger(&self) -> Result<OwnedSemaphorePermit, Full> {
        Ok(Arc::clone(&self.strangers).try_acquire_owned()?)
    }

    /// Room for the body of a request of which no more than this is read, to be held until nothing of it is
    /// needed any more.
    pub fn body(
        &self,
        request: &Request,
        bytes_max: usize,
    ) -> Result<Arc<OwnedSemaphorePermit>, Full> {
        let bytes = announced(request.headers()).map_or(bytes_max, |length| length.min(bytes_max));
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        Ok(Arc::new(Arc::clone(&self.body_units).try_acquire_many_owned(units)?))
    }
}

/// Whether a request has a body that is read.
pub fn has_body(request: &Request) -> bool {
    let asks = matches!(*request.method(), Method::GET | Method::HEAD);
    !asks && !request.body().is_end_stream()
}

/// How long a request's body is, if its head says so.
pub fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

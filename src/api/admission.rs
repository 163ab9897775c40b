//! Admission: bounds on concurrent requests.
//!
//! A permit in this module is a slot for one request, not a permit for an action. A request takes a
//! permit before any work is done. Memory for its body is reserved only after authentication, so
//! that unauthenticated requests cannot use up the memory that authenticated clients need.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use slateberg_config::server::Settings;

/// Body memory that one permit of `body_units` represents, in bytes.
const UNIT_BYTES: usize = 1024;

/// Divisor of the maximum number of requests. The quotient is the maximum number of unauthenticated
/// requests whose body has not arrived yet.
const UNAUTHENTICATED_DIVISOR: usize = 8;

/// The permits for requests and for the memory of their bodies.
pub struct Admission {
    /// Requests in progress. A counter suffices, because a request never waits for a permit.
    requests: AtomicUsize,
    requests_max: usize,
    /// Permits for unauthenticated requests whose body has not arrived yet.
    unauthenticated: Arc<Semaphore>,
    body_units: Arc<Semaphore>,
}

/// The permit of one request. Dropping it releases the permit.
pub struct RequestPermit<'a>(&'a AtomicUsize);

/// All permits are taken.
#[derive(Debug)]
pub struct AtCapacity;

impl Drop for RequestPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl From<TryAcquireError> for AtCapacity {
    fn from(_: TryAcquireError) -> Self {
        Self
    }
}

impl Admission {
    /// Creates the permits that these settings allow.
    pub fn new(settings: &Settings) -> Self {
        // One body of the largest size must always fit. Otherwise such a request could never
        // succeed.
        let bodies_bytes = settings.bodies_bytes_max.max(settings.body_bytes_max);
        let body_units = (bodies_bytes / UNIT_BYTES + 1).min(Semaphore::MAX_PERMITS);
        let unauthenticated_max = settings.requests_in_flight_max.div_ceil(UNAUTHENTICATED_DIVISOR);
        Self {
            requests: AtomicUsize::new(0),
            requests_max: settings.requests_in_flight_max,
            unauthenticated: Arc::new(Semaphore::new(
                unauthenticated_max.min(Semaphore::MAX_PERMITS),
            )),
            body_units: Arc::new(Semaphore::new(body_units)),
        }
    }

    /// Takes the permit of a request. It must be held until the handler has responded.
    pub fn admit(&self) -> Result<RequestPermit<'_>, AtCapacity> {
        let permit = RequestPermit(&self.requests);
        let before = self.requests.fetch_add(1, Ordering::Relaxed);
        if before < self.requests_max { Ok(permit) } else { Err(AtCapacity) }
    }

    /// Takes the additional permit that an unauthenticated request needs. The permit must be held
    /// until the body has arrived. These permits limit how many unauthenticated requests can wait
    /// for their bodies, so that authenticated requests are still served.
    pub fn admit_unauthenticated(&self) -> Result<OwnedSemaphorePermit, AtCapacity> {
        Ok(Arc::clone(&self.unauthenticated).try_acquire_owned()?)
    }

    /// Reserves memory for the body of a request. `bytes_max` is the maximum length of a body that
    /// the server reads. The reservation must be held while any part of the body is in use.
    pub fn body(
        &self,
        request: &Request,
        bytes_max: usize,
    ) -> Result<Arc<OwnedSemaphorePermit>, AtCapacity> {
        let bytes =
            content_length(request.headers()).map_or(bytes_max, |length| length.min(bytes_max));
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        Ok(Arc::new(Arc::clone(&self.body_units).try_acquire_many_owned(units)?))
    }
}

/// Whether a request has a body that the server reads.
pub fn has_body(request: &Request) -> bool {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    !is_read && !request.body().is_end_stream()
}

/// The length of a request's body, if its header announces one.
pub fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

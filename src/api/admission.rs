//! Admission: how much may be under way at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::Request;
use axum::http::{Method, header};
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

use super::settings::Settings;

/// Bodies are counted in units of this many bytes.
const UNIT_BYTES: usize = 1024;

/// What may be under way at the same time.
pub struct Admission {
    /// Under way now. Nobody ever waits for room, so that this needs no queue of those who do.
    requests: AtomicUsize,
    requests_max: usize,
    body_units: Semaphore,
    body_bytes_max: usize,
}

/// The room that a request takes.
pub struct Room<'a> {
    _request: Place<'a>,
    _body: Option<SemaphorePermit<'a>>,
}

/// The place of one request. It is free again when this is dropped.
struct Place<'a>(&'a AtomicUsize);

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
        Self {
            requests: AtomicUsize::new(0),
            requests_max: settings.requests_in_flight_max,
            body_units: Semaphore::new(body_units),
            body_bytes_max: settings.body_bytes_max,
        }
    }

    /// Room for a request and its body, to be held until the answer is made.
    pub fn admit(&self, request: &Request) -> Result<Room<'_>, Full> {
        let bytes = self.body_bytes(request).min(self.body_bytes_max);
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let request = self.place().ok_or(Full)?;
        let body = (units > 0).then(|| self.body_units.try_acquire_many(units)).transpose()?;
        Ok(Room { _request: request, _body: body })
    }

    fn place(&self) -> Option<Place<'_>> {
        let place = Place(&self.requests);
        let before = self.requests.fetch_add(1, Ordering::Relaxed);
        (before < self.requests_max).then_some(place)
    }

    /// How long a request's body is: what it announces, or the most that is read where it announces
    /// nothing.
    fn body_bytes(&self, request: &Request) -> usize {
        let announced = request.headers().get(header::CONTENT_LENGTH);
        match announced.and_then(|length| length.to_str().ok()?.parse().ok()) {
            Some(length) => length,
            None if matches!(*request.method(), Method::GET | Method::HEAD | Method::DELETE) => 0,
            None => self.body_bytes_max,
        }
    }
}

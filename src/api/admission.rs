//! Admission: how much may be under way at the same time.

use axum::extract::Request;
use axum::http::{Method, header};
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

use super::settings::Settings;

/// Bodies are counted in units of this many bytes.
const UNIT_BYTES: usize = 1024;

/// What may be under way at the same time.
pub struct Admission {
    requests: Semaphore,
    body_units: Semaphore,
    body_bytes_max: usize,
}

/// The room that a request takes.
pub struct Room<'a> {
    _request: SemaphorePermit<'a>,
    _body: Option<SemaphorePermit<'a>>,
}

impl Admission {
    /// Admission within these bounds.
    pub fn new(settings: &Settings) -> Self {
        // One body of the largest size always fits, or no such request could ever be answered.
        let bodies_bytes = settings.bodies_bytes_max.max(settings.body_bytes_max);
        let body_units = (bodies_bytes / UNIT_BYTES + 1).min(Semaphore::MAX_PERMITS);
        Self {
            requests: Semaphore::new(settings.requests_in_flight_max),
            body_units: Semaphore::new(body_units),
            body_bytes_max: settings.body_bytes_max,
        }
    }

    /// Room for a request and its body, to be held until the answer is made.
    pub fn admit(&self, request: &Request) -> Result<Room<'_>, TryAcquireError> {
        let bytes = self.body_bytes(request).min(self.body_bytes_max);
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let request = self.requests.try_acquire()?;
        let body = (units > 0).then(|| self.body_units.try_acquire_many(units)).transpose()?;
        Ok(Room { _request: request, _body: body })
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

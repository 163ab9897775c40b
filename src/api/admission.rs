//! Admission: requests are turned away while too much is under way, before any work is done.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

use super::error::ApiError;
use super::settings::Settings;
use crate::catalog;

/// Bodies are counted in units of this many bytes.
const UNIT_BYTES: usize = 1024;

/// What may be under way at the same time.
pub struct Admission {
    requests: Semaphore,
    body_units: Semaphore,
    body_bytes_max: usize,
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

    /// Room for a request and its body, which is held until the answer is made.
    fn admit(
        &self,
        request: &Request,
    ) -> Result<(SemaphorePermit<'_>, SemaphorePermit<'_>), TryAcquireError> {
        let bytes = self.body_bytes(request).min(self.body_bytes_max);
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        Ok((self.requests.try_acquire()?, self.body_units.try_acquire_many(units)?))
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

/// Turns a request away, or lets it pass.
pub async fn shed_load(
    State(admission): State<Arc<Admission>>,
    request: Request,
    next: Next,
) -> Response {
    match admission.admit(&request) {
        Ok(_room) => next.run(request).await,
        Err(_) => {
            let full = catalog::Error::unavailable("Too many requests", "admission is full");
            ApiError::from(full).into_response()
        }
    }
}

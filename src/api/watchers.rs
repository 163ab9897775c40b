//! [`Watchers`]: bounds on concurrent watches, and the events that they share. Watches last long, so
//! they do not count as requests in flight.

use std::sync::Arc;

use axum::http::{HeaderName, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::encoded_events::EncodedEvents;
use super::error::ApiError;
use slateberg_base::slots::{Slot, SlotsPerKey};
use slateberg_catalog as catalog;
use slateberg_config::server::Settings;
use slateberg_model::principal::Principal;
use slateberg_telemetry::collection::Collection;

/// The header with a position in the change feed. A watch that begins at this position misses no
/// change after the response.
pub const POSITION: HeaderName = HeaderName::from_static("slateberg-position");

/// The watches in progress. Cheap to clone.
#[derive(Clone)]
pub struct Watchers {
    permits: Arc<Semaphore>,
    watchers_max: usize,
    principals: SlotsPerKey<String>,
    per_principal_max: usize,
    /// The events that the watches send.
    pub events: Arc<EncodedEvents>,
}

/// The permit of one watch. Dropping it releases the permit.
pub struct WatcherPermit {
    _permit: OwnedSemaphorePermit,
    _principal: Option<Slot<String>>,
}

impl Watchers {
    /// Creates the permits that these settings allow.
    pub fn new(settings: &Settings) -> Self {
        let watchers_max = settings.watchers_max.min(Semaphore::MAX_PERMITS);
        let per_principal_max = settings.watchers_per_principal_max;
        Self {
            permits: Arc::new(Semaphore::new(watchers_max)),
            watchers_max,
            principals: SlotsPerKey::new(per_principal_max),
            per_principal_max,
            events: Arc::default(),
        }
    }

    /// Adds the number of watches to the collection.
    pub fn collect(&self, into: &mut Collection) {
        let help = "Watches of the change feed that are in progress.";
        let all = (self.watchers_max - self.permits.available_permits()) as f64;
        into.gauge("slateberg.watchers", "{watch}", help, Vec::new(), all);
    }

    /// Takes the permit of a watch. The limit per principal applies to identified callers.
    pub fn admit(&self, principal: &Principal) -> Result<WatcherPermit, ApiError> {
        let too_many = || catalog::Error::unavailable("Too many watches", "at watchers_max");
        let _permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| too_many())?;
        let _principal = match principal {
            Principal::Identified(identity) => Some(
                self.principals.try_take(identity.id.clone()).ok_or_else(|| self.rejection())?,
            ),
            Principal::Anonymous | Principal::Task(_) => None,
        };
        Ok(WatcherPermit { _permit, _principal })
    }

    fn rejection(&self) -> ApiError {
        let message = format!(
            "Too many watches of this principal: at most {} at a time",
            self.per_principal_max
        );
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "SlowDownException", message)
    }
}

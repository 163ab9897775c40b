//! [`Watchers`]: bounds on concurrent watches. They last long, so they do not count as requests in
//! flight.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::{HeaderName, StatusCode};

use super::error::ApiError;
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
    counts: Arc<Mutex<Counts>>,
    watchers_max: usize,
    per_principal_max: usize,
}

#[derive(Default)]
struct Counts {
    all: usize,
    by_principal: HashMap<String, usize>,
}

/// The permit of one watch. Dropping it releases the permit.
pub struct WatcherPermit {
    counts: Arc<Mutex<Counts>>,
    principal: Option<String>,
}

impl Watchers {
    /// Creates the permits that these settings allow.
    pub fn new(settings: &Settings) -> Self {
        Self {
            counts: Arc::default(),
            watchers_max: settings.watchers_max,
            per_principal_max: settings.watchers_per_principal_max,
        }
    }

    /// Adds the number of watches to the collection.
    pub fn collect(&self, into: &mut Collection) {
        let help = "Watches of the change feed that are in progress.";
        let all = lock(&self.counts).all as f64;
        into.gauge("slateberg.watchers", "{watch}", help, Vec::new(), all);
    }

    /// Takes the permit of a watch. The limit per principal applies to identified callers.
    pub fn admit(&self, principal: &Principal) -> Result<WatcherPermit, ApiError> {
        let mut counts = lock(&self.counts);
        if counts.all >= self.watchers_max {
            return Err(catalog::Error::unavailable("Too many watches", "at watchers_max").into());
        }
        let principal = match principal {
            Principal::Identified(identity) => Some(identity.id.clone()),
            Principal::Anonymous | Principal::Task(_) => None,
        };
        if let Some(id) = &principal {
            let own = counts.by_principal.entry(id.clone()).or_default();
            if *own >= self.per_principal_max {
                let message = format!(
                    "Too many watches of this principal: at most {} at a time",
                    self.per_principal_max
                );
                let status = StatusCode::TOO_MANY_REQUESTS;
                return Err(ApiError::new(status, "SlowDownException", message));
            }
            *own += 1;
        }
        counts.all += 1;
        Ok(WatcherPermit { counts: Arc::clone(&self.counts), principal })
    }
}

impl Drop for WatcherPermit {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        counts.all -= 1;
        if let Some(id) = &self.principal
            && let Some(own) = counts.by_principal.get_mut(id)
        {
            *own -= 1;
            if *own == 0 {
                counts.by_principal.remove(id);
            }
        }
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

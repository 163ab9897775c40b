//! What every handler can reach.

use std::sync::Arc;

use super::settings::Settings;
use crate::catalog::Catalog;
use crate::telemetry::counters::Counters;

/// State of the router. Cheap to clone.
#[derive(Clone)]
pub struct ApiState {
    /// The use cases.
    pub catalog: Catalog,
    /// Bounds of requests.
    pub settings: Arc<Settings>,
    /// What is counted.
    pub counters: Arc<Counters>,
}

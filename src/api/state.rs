//! What every handler can reach.

use std::sync::Arc;

use super::answers::Answers;
use super::settings::Settings;
use crate::authn::Authenticator;
use crate::catalog::Catalog;
use crate::telemetry::counters::Counters;

/// State of the router. Cheap to clone.
#[derive(Clone)]
pub struct ApiState {
    /// The use cases.
    pub catalog: Catalog,
    /// Who may come in.
    pub authn: Authenticator,
    /// Bounds of requests.
    pub settings: Arc<Settings>,
    /// Answers that are ready.
    pub answers: Arc<Answers>,
    /// What is counted.
    pub counters: Arc<Counters>,
}

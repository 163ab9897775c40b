//! The shared state of all handlers.

use std::ops::Deref;
use std::sync::Arc;

use super::cluster::ClusterControl;
use super::delegation::DelegationCache;
use super::observe::Observer;
use super::rejection_log::RejectionLog;
use super::response_cache::ResponseCache;
use super::shutdown::ShutdownFlag;
use super::watchers::Watchers;
use super::webhooks::WebhookTester;
use slateberg_authn::Authenticator;
use slateberg_catalog::Catalog;
use slateberg_config::server::Settings;
use slateberg_telemetry::counters::Counters;
use slateberg_telemetry::registry::Registry;

/// The router's state. It is a single pointer because each request clones it several times.
#[derive(Clone)]
pub struct ApiState(Arc<Parts>);

/// The parts of the state.
pub struct Parts {
    /// The catalog.
    pub catalog: Catalog,
    /// Authentication.
    pub authn: Authenticator,
    /// The settings of the server.
    pub settings: Settings,
    /// The cache of complete responses.
    pub response_cache: Arc<ResponseCache>,
    /// The cache of file-access configurations.
    pub delegation: Arc<DelegationCache>,
    /// Records telemetry of requests.
    pub observer: Arc<Observer>,
    /// The log of rejected credentials.
    pub rejections: RejectionLog,
    /// Counters of the API.
    pub counters: Arc<Counters>,
    /// The registry of all metrics.
    pub registry: Arc<Registry>,
    /// Whether the server is shutting down.
    pub shutdown: Arc<ShutdownFlag>,
    /// The watches in progress.
    pub watchers: Watchers,
    /// The cluster of which this process is the writer.
    pub cluster: Option<Arc<dyn ClusterControl>>,
    /// Sends test events to the receivers of webhooks.
    pub webhooks: Arc<dyn WebhookTester>,
}

impl ApiState {
    /// Shares these parts.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for ApiState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

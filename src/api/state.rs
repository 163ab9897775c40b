//! What every handler can reach.

use std::ops::Deref;
use std::sync::Arc;

use super::access_log::AccessLog;
use super::answers::Answers;
use super::files::FilesKept;
use super::leaving::Leaving;
use super::rejection_log::RejectionLog;
use slateberg_authn::Authenticator;
use slateberg_catalog::Catalog;
use slateberg_config::server::Settings;
use slateberg_telemetry::counters::Counters;
use slateberg_telemetry::registry::Registry;
use slateberg_telemetry::settings::Ratio;

/// State of the router. Each request clones it several times over, on every core: so that it is one pointer.
#[derive(Clone)]
pub struct ApiState(Arc<Parts>);

/// What the state is made of.
pub struct Parts {
    /// The use cases.
    pub catalog: Catalog,
    /// Who may come in.
    pub authn: Authenticator,
    /// Bounds of requests.
    pub settings: Settings,
    /// Answers that are ready.
    pub answers: Arc<Answers>,
    /// What clients were told lately of how to get at files.
    pub files: FilesKept,
    /// Which requests are logged.
    pub access_log: AccessLog,
    /// Limits the log lines of rejected credentials.
    pub rejections: RejectionLog,
    /// What is counted.
    pub counters: Arc<Counters>,
    /// What is measured.
    pub registry: Arc<Registry>,
    /// The share of requests that are traced, if traces are exported.
    pub traced: Option<Ratio>,
    /// Whether the server is about to stop.
    pub leaving: Arc<Leaving>,
    /// By which scheme the server is asked.
    pub scheme: &'static str,
}

impl ApiState {
    /// The state that is made of these.
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

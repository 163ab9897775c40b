//! An open catalog and its HTTP routes.

use std::sync::Arc;

use super::webhooks::Sender;
use crate::api::access_log::AccessLog;
use crate::api::cluster::ClusterControl;
use crate::api::delegation::DelegationCache;
use crate::api::observe::Observer;
use crate::api::rejection_log::RejectionLog;
use crate::api::response_cache::ResponseCache;
use crate::api::router::{self, Routers, routers};
use crate::api::service::PortService;
use crate::api::shutdown::ShutdownFlag;
use crate::api::state::{self, ApiState};
use crate::api::watchers::Watchers;
use slateberg_base::version::VERSION;
use slateberg_config::Settings;
use slateberg_runtime::Runtime;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::error::BuildError;
use slateberg_telemetry::collection::{Collection, attributes};

/// The commit from which the server program was built, set by `build.rs`.
pub const COMMIT: &str = env!("SLATEBERG_COMMIT");

/// An open catalog with the state that its HTTP routes share.
pub struct App {
    /// The open catalog and its background components.
    pub runtime: Runtime,
    pub(super) response_cache: Arc<ResponseCache>,
    delegation: Arc<DelegationCache>,
    watchers: Watchers,
    /// Records telemetry of requests.
    pub(super) observer: Arc<Observer>,
    /// Sends requests to the receivers of webhooks.
    pub(super) webhook_sender: Arc<Sender>,
    /// The cluster of which this process is the writer.
    pub(super) cluster: Option<Arc<dyn ClusterControl>>,
    /// Whether the server is shutting down.
    pub(super) shutdown: Arc<ShutdownFlag>,
}

impl App {
    /// Opens the catalog of these settings (see [`Runtime::open`]).
    pub async fn build(settings: Settings, dependencies: Dependencies) -> Result<Self, BuildError> {
        let observer = Arc::new(observer(&settings));
        Self::observed(settings, dependencies, observer).await
    }

    /// Opens the catalog. The observer records telemetry of its requests.
    pub(super) async fn observed(
        settings: Settings,
        dependencies: Dependencies,
        observer: Arc<Observer>,
    ) -> Result<Self, BuildError> {
        let runtime = Runtime::open(settings, dependencies).await?;
        let response_cache = Arc::new(ResponseCache::new(&runtime.settings.server));
        let source = Arc::clone(&response_cache);
        runtime.measures.registry.register("answers", move |into| {
            source.usage().collect(into, "answer", "Responses to loadTable");
        });
        let delegation = Arc::new(DelegationCache::new(&runtime.settings.server));
        let source = Arc::clone(&delegation);
        runtime.measures.registry.register("delegation", move |into| {
            source.usage().collect(into, "delegation", "File-access configurations of tables");
        });
        let watchers = Watchers::new(&runtime.settings.server);
        let source = watchers.clone();
        runtime.measures.registry.register("watchers", move |into| source.collect(into));
        let source = Arc::clone(&observer);
        runtime.measures.registry.register("http", move |into| source.collect(into));
        runtime.measures.registry.register("build", collect_build);
        let webhook_sender = Arc::new(Sender::new(runtime.catalog.clone()));
        let (cluster, shutdown) = (None, Arc::default());
        Ok(Self {
            runtime,
            response_cache,
            delegation,
            watchers,
            observer,
            webhook_sender,
            cluster,
            shutdown,
        })
    }

    /// The routes of the port for clients: all routes, if there is no management port.
    pub fn router(&self) -> PortService {
        self.routers().clients
    }

    /// The routes of each port.
    pub fn routers(&self) -> Routers {
        let Runtime { catalog, authn, settings, measures, .. } = &self.runtime;
        routers(ApiState::new(state::Parts {
            catalog: catalog.clone(),
            response_cache: Arc::clone(&self.response_cache),
            delegation: Arc::clone(&self.delegation),
            authn: authn.clone(),
            settings: settings.server.clone(),
            observer: Arc::clone(&self.observer),
            rejections: RejectionLog::default(),
            counters: Arc::clone(&measures.counters),
            registry: Arc::clone(&measures.registry),
            shutdown: Arc::clone(&self.shutdown),
            watchers: self.watchers.clone(),
            cluster: self.cluster.clone(),
            webhooks: Arc::clone(&self.webhook_sender) as _,
        }))
    }
}

/// Creates the observer of a server with these settings.
pub(super) fn observer(settings: &Settings) -> Observer {
    let scheme = if settings.server.tls.is_on() { "https" } else { "http" };
    let otlp = &settings.telemetry.otlp;
    let traced = otlp.traces_url().map(|_| otlp.sample_ratio);
    router::observer(scheme, traced, AccessLog::new(&settings.log))
}

fn collect_build(into: &mut Collection) {
    let build = attributes([("version", VERSION), ("commit", COMMIT)]);
    let help = "The version and commit of this build; the value is always 1.";
    into.gauge("slateberg.build_info", "1", help, build, 1.0);
}

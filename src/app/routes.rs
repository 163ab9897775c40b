//! An open catalog and its HTTP routes.

use std::sync::Arc;

use crate::api::access_log::AccessLog;
use crate::api::answers::Answers;
use crate::api::files::FilesKept;
use crate::api::guard::Guarded;
use crate::api::leaving::Leaving;
use crate::api::rejection_log::RejectionLog;
use crate::api::router::{Routers, routers};
use crate::api::state::{self, ApiState};
use slateberg_base::version::VERSION;
use slateberg_config::Settings;
use slateberg_runtime::Runtime;
use slateberg_runtime::error::BuildError;
use slateberg_runtime::seams::Seams;
use slateberg_telemetry::collection::{Collection, attributes};

/// The commit from which the server program was built, set by `build.rs`.
pub const COMMIT: &str = env!("SLATEBERG_COMMIT");

/// A catalog, ready to serve.
pub struct App {
    /// The open catalog and its background components.
    pub runtime: Runtime,
    answers: Arc<Answers>,
    /// Whether the server is shutting down.
    pub(super) leaving: Arc<Leaving>,
}

impl App {
    /// Opens the catalog of these settings (see [`Runtime::open`]).
    pub async fn build(settings: Settings, seams: Seams) -> Result<Self, BuildError> {
        let runtime = Runtime::open(settings, seams).await?;
        let answers = Arc::new(Answers::new(&runtime.settings.server));
        let cached = Arc::clone(&answers);
        runtime.measures.registry.register("answers", move |into| {
            cached.usage().collect(into, "answer", "Answers to loadTable");
        });
        runtime.measures.registry.register("build", collect_build);
        Ok(Self { runtime, answers, leaving: Arc::default() })
    }

    /// The routes of the port for clients: all routes, if there is no management port.
    pub fn router(&self) -> Guarded {
        self.routers().clients
    }

    /// The routes of each port.
    pub fn routers(&self) -> Routers {
        let Runtime { catalog, authn, settings, measures, .. } = &self.runtime;
        let otlp = &settings.telemetry.otlp;
        routers(ApiState::new(state::Parts {
            catalog: catalog.clone(),
            answers: Arc::clone(&self.answers),
            files: FilesKept::default(),
            authn: authn.clone(),
            settings: settings.server.clone(),
            access_log: AccessLog::new(&settings.log),
            rejections: RejectionLog::default(),
            counters: Arc::clone(&measures.counters),
            registry: Arc::clone(&measures.registry),
            traced: otlp.traces_url().map(|_| otlp.sample_ratio),
            leaving: Arc::clone(&self.leaving),
            scheme: if settings.server.tls.is_on() { "https" } else { "http" },
        }))
    }
}

fn collect_build(into: &mut Collection) {
    let build = attributes([("version", VERSION), ("commit", COMMIT)]);
    let help = "The version and commit of this build; the value is always 1.";
    into.gauge("slateberg.build_info", "1", help, build, 1.0);
}

//! Opens a catalog from settings.

use std::sync::Arc;

use super::handle::EmbeddedCatalog;
use super::shared::SharedCatalog;
use super::{Dependencies, Identity, OpenError, Settings};
use slateberg_authn as authn;
use slateberg_authn::api_keys::ADMIN_ROLE;
use slateberg_config::server;
use slateberg_runtime::Runtime;
use slateberg_runtime::background::Background;

/// The name of the default principal, the service account `embedded/host`. The host is the program
/// that embeds the catalog.
const HOST_NAME: &str = "host";

/// The options for opening a catalog.
pub struct Builder {
    settings: Settings,
    identity: Identity,
    warehouse: Option<String>,
    dependencies: Dependencies,
}

impl Builder {
    /// Uses these settings, the default warehouse, and the service account `embedded/host` with the
    /// role `admin`. Ignores the sections `[server]` and `[authn]`, which concern remote clients.
    pub fn new(settings: Settings) -> Self {
        let identity = Identity::embedded(HOST_NAME).with_roles([ADMIN_ROLE]);
        Self { settings, identity, warehouse: None, dependencies: Dependencies::default() }
    }

    /// Sets the principal of calls, which is an admin by default. There is no authentication: the
    /// host has full control over the catalog.
    #[must_use]
    pub fn acting_as(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// Sets the warehouse. Without this call, handles use the default warehouse.
    #[must_use]
    pub fn in_warehouse(self, name: impl Into<String>) -> Self {
        Self { warehouse: Some(name.into()), ..self }
    }

    /// Replaces the object stores, the clock and the generator of ids.
    #[must_use]
    pub fn with_dependencies(self, dependencies: Dependencies) -> Self {
        Self { dependencies, ..self }
    }

    /// Opens the catalog, completes the commits of an earlier process by writing their missing
    /// metadata files, and starts the same background tasks as a server. Must be called in a Tokio
    /// runtime that lives as long as the catalog is open.
    ///
    /// Fails whenever a server would fail to start: for example, if the settings are invalid,
    /// another process has locked the directory, or the object store cannot hold the state safely.
    pub async fn open(self) -> Result<EmbeddedCatalog, OpenError> {
        let Self { mut settings, identity, warehouse, dependencies } = self;
        // The catalog has no remote clients, so it listens on no port and fetches no issuer keys.
        // It creates no admin key, because it could not show the key's secret to an operator. The
        // first server that opens this state creates the admin key.
        settings.server = server::Settings::default();
        settings.authn = authn::settings::Settings { insecure_no_auth: true, ..Default::default() };
        // The future is boxed because it would take much of the stack of the host's task.
        let mut runtime = Box::pin(Runtime::open(settings, dependencies)).await?;
        let mut background = Background::start(&mut runtime);
        background.stop_with_store(runtime.catalog.clone());
        let shared = SharedCatalog::new(runtime, background);
        Ok(EmbeddedCatalog::new(Arc::new(shared), warehouse, identity))
    }
}

impl EmbeddedCatalog {
    /// Opens the catalog of these settings in its default warehouse, as an admin. See
    /// [`Builder::new`] and [`Builder::open`].
    pub async fn open(settings: Settings) -> Result<Self, OpenError> {
        Self::builder(settings).open().await
    }

    /// Returns a builder with more options.
    pub fn builder(settings: Settings) -> Builder {
        Builder::new(settings)
    }
}

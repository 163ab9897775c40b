//! From settings to an open catalog.

use std::sync::Arc;

use super::handle::EmbeddedCatalog;
use super::house::House;
use super::{Identity, OpenError, Seams, Settings};
use slateberg_authn as authn;
use slateberg_authn::api_keys::ADMIN_ROLE;
use slateberg_config::server;
use slateberg_runtime::Runtime;
use slateberg_runtime::background::Background;

/// What a host is called that says nothing of itself.
const HOST_NAME: &str = "host";

/// A catalog that is about to be opened.
pub struct Builder {
    settings: Settings,
    identity: Identity,
    warehouse: Option<String>,
    seams: Seams,
}

impl Builder {
    /// A catalog by these settings: in its default warehouse, for the service account `embedded/host` with
    /// the role `admin`. The sections `[server]` and `[authn]` are about who comes in from outside; they do
    /// not count here.
    pub fn new(settings: Settings) -> Self {
        let identity = Identity::embedded(HOST_NAME).with_roles([ADMIN_ROLE]);
        Self { settings, identity, warehouse: None, seams: Seams::default() }
    }

    /// For this principal in place of an admin. Nobody asks for a proof: whoever has the process has the
    /// catalog.
    #[must_use]
    pub fn acting_as(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// In this warehouse in place of the default one.
    #[must_use]
    pub fn in_warehouse(self, name: impl Into<String>) -> Self {
        Self { warehouse: Some(name.into()), ..self }
    }

    /// With other parts of the world: object stores, time, ids.
    #[must_use]
    pub fn with_seams(self, seams: Seams) -> Self {
        Self { seams, ..self }
    }

    /// Opens the catalog, finishes what an earlier process left, and starts what a server does in the
    /// background. Has to be called in a Tokio runtime that lives for as long as the catalog is open.
    ///
    /// Fails where a server would not start: the settings are wrong, another process has the directory, or
    /// the object store is none for a state.
    pub async fn open(self) -> Result<EmbeddedCatalog, OpenError> {
        let Self { mut settings, identity, warehouse, seams } = self;
        // There is no door: nothing is listened on, no issuer is asked for keys, and no admin key is minted,
        // whose text nobody would see. The first server on this state mints it.
        settings.server = server::Settings::default();
        settings.authn = authn::settings::Settings { insecure_no_auth: true, ..Default::default() };
        // In a box: it would take much of the stack of the host's own task.
        let mut runtime = Box::pin(Runtime::open(settings, seams)).await?;
        let mut background = Background::start(&mut runtime);
        background.stop_with_store(runtime.catalog.clone());
        let house = House::new(runtime, background);
        Ok(EmbeddedCatalog::new(Arc::new(house), warehouse, identity))
    }
}

impl EmbeddedCatalog {
    /// Opens the catalog of these settings, in its default warehouse and as an admin: see
    /// [`Builder::new`] and [`Builder::open`].
    pub async fn open(settings: Settings) -> Result<Self, OpenError> {
        Self::builder(settings).open().await
    }

    /// What says more before the catalog is opened.
    pub fn builder(settings: Settings) -> Builder {
        Builder::new(settings)
    }
}

//! From settings to an open catalog, and its end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::handle::EmbeddedCatalog;
use super::{Identity, OpenError, Seams, Settings, StoreError};
use slateberg_authn as authn;
use slateberg_authn::api_keys::ADMIN_ROLE;
use slateberg_catalog::Catalog;
use slateberg_catalog::operation::RequestId;
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
        let catalog = runtime.catalog.clone();
        let house = House {
            run: catalog.new_run_id(),
            catalog,
            operations: AtomicU64::new(1),
            runtime: Handle::current(),
            open: Mutex::new(Some(Open { runtime, background })),
        };
        Ok(EmbeddedCatalog::new(Arc::new(house), warehouse, identity))
    }
}

/// An open catalog, which all handles share.
pub(super) struct House {
    pub(super) catalog: Catalog,
    /// What the names of this opening's operations begin with, which no other's do.
    run: Uuid,
    /// Operations that were given a name.
    operations: AtomicU64,
    /// Where the end is done.
    runtime: Handle,
    open: Mutex<Option<Open>>,
}

/// What is there until the catalog is closed: the lock of the directory among it.
struct Open {
    runtime: Runtime,
    background: Background,
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("House").field("run", &self.run).finish_non_exhaustive()
    }
}

impl House {
    /// A name for an operation, as a request has one.
    pub(super) fn next_request_id(&self) -> RequestId {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        RequestId::Numbered { run: self.run, number }
    }

    /// Ends the catalog in order, whatever becomes of the caller. Whoever comes later waits for it.
    pub(super) async fn close(self: Arc<Self>) -> Result<(), StoreError> {
        let runtime = self.runtime.clone();
        let ending = runtime.spawn(async move {
            let mut open = self.open.lock().await;
            match open.take() {
                Some(open) => open.end().await,
                None => Ok(()),
            }
        });
        ending.await.unwrap_or_else(|panic| Err(StoreError::Internal(panic.to_string())))
    }
}

impl Drop for House {
    /// The store would go on by itself, and keep the directory.
    fn drop(&mut self) {
        let Some(open) = self.open.get_mut().take() else { return };
        self.runtime.spawn(async move {
            if let Err(error) = open.end().await {
                tracing::error!(%error, "embedded catalog dropped without close(): shutdown failed");
            }
        });
    }
}

impl Open {
    /// Ends tasks, store, and what is told, in this order; then the directory is free.
    async fn end(self) -> Result<(), StoreError> {
        let Self { runtime, mut background } = self;
        background.stop();
        // A task may wait for space on a disk.
        runtime.catalog.give_up_on_space();
        background.ended().await;
        let closed = runtime.catalog.close().await;
        background.finish().await;
        closed
    }
}

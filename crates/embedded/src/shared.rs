//! The open catalog that all handles share, and its shutdown.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::StoreError;
use slateberg_base::error_chain::Cause;
use slateberg_catalog::Catalog;
use slateberg_catalog::operation::RequestId;
use slateberg_runtime::Runtime;
use slateberg_runtime::background::Background;

/// An open catalog, shared by all handles.
pub(super) struct SharedCatalog {
    pub(super) catalog: Catalog,
    /// Prefix of the request ids, unique to this open catalog.
    run: Uuid,
    /// The number of the next request.
    operations: AtomicU64,
    /// The runtime in which the catalog shuts down.
    runtime: Handle,
    open: Mutex<Option<OpenParts>>,
}

/// Parts that exist until the catalog is closed, including the lock of the directory.
struct OpenParts {
    runtime: Runtime,
    background: Background,
}

impl fmt::Debug for SharedCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCatalog").field("run", &self.run).finish_non_exhaustive()
    }
}

impl SharedCatalog {
    /// Wraps an open catalog. Must be called in the Tokio runtime in which the catalog shuts down.
    pub(super) fn new(runtime: Runtime, background: Background) -> Self {
        let catalog = runtime.catalog.clone();
        Self {
            run: catalog.new_run_id(),
            catalog,
            operations: AtomicU64::new(1),
            runtime: Handle::current(),
            open: Mutex::new(Some(OpenParts { runtime, background })),
        }
    }

    /// Returns a new request id.
    pub(super) fn next_request_id(&self) -> RequestId {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        RequestId::Numbered { run: self.run, number }
    }

    /// Closes the catalog, even if the calling code stops waiting. Later calls wait until the
    /// catalog is closed.
    pub(super) async fn close(self: Arc<Self>) -> Result<(), StoreError> {
        let runtime = self.runtime.clone();
        let ending = runtime.spawn(async move {
            let mut open = self.open.lock().await;
            match open.take() {
                Some(open) => open.end().await,
                None => Ok(()),
            }
        });
        ending.await.unwrap_or_else(|panic| Err(StoreError::Internal(Cause::new(panic))))
    }
}

impl Drop for SharedCatalog {
    /// Closes the catalog. Otherwise, the store would keep running and the directory would stay
    /// locked.
    fn drop(&mut self) {
        let Some(open) = self.open.get_mut().take() else { return };
        self.runtime.spawn(async move {
            if let Err(error) = open.end().await {
                tracing::error!(%error, "embedded catalog dropped without close(): shutdown failed");
            }
        });
    }
}

impl OpenParts {
    /// Ends the tasks, the store and the telemetry exports, in this order. Then the directory is
    /// unlocked.
    async fn end(self) -> Result<(), StoreError> {
        let Self { runtime, mut background } = self;
        background.stop();
        // Otherwise, a task that waits for disk space might never end.
        runtime.catalog.give_up_on_space();
        background.ended().await;
        let closed = runtime.catalog.close().await;
        background.finish().await;
        closed
    }
}

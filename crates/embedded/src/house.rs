//! The open catalog that all handles share, and its end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::StoreError;
use slateberg_catalog::Catalog;
use slateberg_catalog::operation::RequestId;
use slateberg_runtime::Runtime;
use slateberg_runtime::background::Background;

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
    /// The parts of an open catalog. Has to be called in the Tokio runtime that the catalog ends in.
    pub(super) fn new(runtime: Runtime, background: Background) -> Self {
        let catalog = runtime.catalog.clone();
        Self {
            run: catalog.new_run_id(),
            catalog,
            operations: AtomicU64::new(1),
            runtime: Handle::current(),
            open: Mutex::new(Some(Open { runtime, background })),
        }
    }

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

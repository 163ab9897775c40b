//! [`Replicas`]: the catalog of a writer passes its changes to replicas, and the catalog of a replica
//! follows the writer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use uuid::Uuid;

use super::Result;
use super::core::Core;
use super::pipeline::pending::PendingPublication;
use slateberg_store::keys::PublicationKey;
use slateberg_store::replication::Subscription;
use slateberg_store::usage::UsageRecord;

/// The state of the writer that a read must see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterState {
    /// All changes that were acknowledged or visible have this sequence number or a smaller one.
    pub sequence: u64,
    /// The horizon of the change feed.
    pub change_horizon: u64,
}

/// The replicas of a writer, or the catalog of one replica. Cheap to clone.
#[derive(Clone)]
pub struct Replicas {
    core: Arc<Core>,
    /// In a replica: versions whose metadata files may be missing.
    unpublished: Arc<Mutex<HashMap<PublicationKey, PendingPublication>>>,
}

impl Replicas {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core), unpublished: Arc::default() }
    }

    /// Writer: begins to send the rows of durable transactions to a replica. `None` if this catalog
    /// has no replicas.
    pub fn subscribe(&self) -> Option<Subscription> {
        self.core.store().subscribe()
    }

    /// Writer: returns the current state, which all reads have to see that begin later.
    pub async fn writer_state(&self) -> Result<WriterState> {
        // The horizon is read first, so that the state contains all changes before it.
        let change_horizon = self.core.store().current_horizon();
        let sequence = self.core.store().visible_sequence().await?;
        Ok(WriterState { sequence, change_horizon })
    }

    /// Writer: returns the id of the store's manifest, which changes with each flush and compaction.
    pub fn manifest_id(&self) -> u64 {
        self.core.store().manifest_id()
    }

    /// Writer: adds uses of tables and views that replicas have counted.
    pub fn add_uses(&self, uses: Vec<(Uuid, UsageRecord)>) {
        self.core.environment.usage.put_back(uses);
    }

    /// Replica: removes and returns the uses of tables and views that it has counted.
    pub fn take_uses(&self) -> Vec<(Uuid, UsageRecord)> {
        self.core.environment.usage.take()
    }

    /// Replica: moves the horizon of the change feed to that of the writer.
    pub fn follow_change_horizon(&self, horizon: u64) {
        self.core.store().follow_change_horizon(horizon);
    }

    /// Replica: from now on, readers of these versions wait for their metadata files. Must be called
    /// before the rows of these versions are applied.
    pub fn await_publications(&self, keys: impl IntoIterator<Item = PublicationKey>) {
        let pending = &self.core.pipeline().pending;
        let mut unpublished = self.unpublished.lock().unwrap_or_else(PoisonError::into_inner);
        unpublished.extend(keys.into_iter().map(|key| (key, pending.register(vec![key]))));
    }

    /// Replica: the metadata file of a version exists.
    pub fn mark_published(&self, key: PublicationKey) {
        self.unpublished.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

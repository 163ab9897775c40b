//! [`Replicas`]: the catalog of a writer passes its changes to replicas, and the catalog of a replica
//! follows the writer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::time::timeout;
use uuid::Uuid;

use super::Result;
use super::core::Core;
use super::lookup::record_with_dropped;
use super::pipeline::pending::PendingPublication;
use slateberg_store::keys::PublicationKey;
use slateberg_store::read::StoreRead;
use slateberg_store::replication::Subscription;
use slateberg_store::usage::UsageRecord;

/// Maximum time of the check whether the files of a version exist.
const FILE_CHECK_MAX: Duration = Duration::from_secs(1);
/// Maximum number of concurrent checks.
const FILE_CHECKS_MAX: usize = 16;

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

    /// Replica: returns those of these versions whose files exist in the warehouse. Files that cannot
    /// be found for any reason count as missing.
    pub async fn with_existing_files(&self, keys: Vec<PublicationKey>) -> Vec<PublicationKey> {
        let checks = keys.into_iter().map(|key| async move {
            let checked = timeout(FILE_CHECK_MAX, self.has_files(key)).await;
            checked.is_ok_and(|found| found.unwrap_or(false)).then_some(key)
        });
        let checked = stream::iter(checks).buffer_unordered(FILE_CHECKS_MAX);
        checked.filter_map(|published| async move { published }).collect().await
    }

    async fn has_files(&self, key: PublicationKey) -> Result<bool> {
        let store = self.core.store().durable();
        // A version without a marker is published.
        let Some(marker) = store.get(&key).await? else { return Ok(true) };
        let Some(record) = record_with_dropped(&store, key.id).await? else { return Ok(true) };
        let objects = self.core.objects();
        let lists = marker.lists.iter().map(|list| list.location.as_str());
        for location in lists.chain([marker.metadata_location.as_str()]) {
            if !objects.exists(record.warehouse, location).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writer: returns a sequence number that is not less than that of any change that a reader has
    /// seen. `None` if the store is closed.
    pub fn sequence(&self) -> Option<u64> {
        self.core.store().sequence().ok()
    }

    /// Writer: returns the sequence number of the newest change that it knows as durable.
    pub fn durable_sequence(&self) -> u64 {
        self.core.store().durable_sequence()
    }

    /// Replica: the metadata file of a version exists.
    pub fn mark_published(&self, key: PublicationKey) {
        self.unpublished.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

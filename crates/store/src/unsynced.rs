//! [`UnsyncedFiles`]: tables and views with metadata files that a power failure could destroy,
//! because they are written but not synced.
//!
//! The next start restores such files from their markers, which needs the chunks that the markers
//! reference. So no transaction removes chunks of a table or view while it has unsynced files.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

use super::error::Error;
use super::keys::PublicationKey;
use slateberg_base::error_chain::Cause;
use slateberg_telemetry::collection::Collection;

/// Maximum time that a transaction waits for a sync.
const SYNC_TIME_MAX: Duration = Duration::from_secs(10);

/// The unsynced versions of all tables and views.
#[derive(Default)]
pub(super) struct UnsyncedFiles {
    versions: Mutex<HashMap<Uuid, HashSet<u64>>>,
    /// Notified when a version was synced.
    synced: watch::Sender<()>,
    /// Notified when something waits for a sync.
    needed: watch::Sender<()>,
}

/// A version whose file is not synced, until [`UnsyncedVersion::synced`] is called. If this value is
/// dropped, the version counts as unsynced until it is registered again and synced.
#[must_use = "a version that is dropped counts as unsynced"]
pub struct UnsyncedVersion {
    all: Arc<UnsyncedFiles>,
    key: PublicationKey,
}

impl UnsyncedFiles {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, HashSet<u64>>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a version whose file is written but not synced.
    pub(super) fn register(self: &Arc<Self>, key: PublicationKey) -> UnsyncedVersion {
        self.lock().entry(key.id).or_default().insert(key.version);
        UnsyncedVersion { all: Arc::clone(self), key }
    }

    /// Whether a table or view has unsynced files.
    pub(super) fn contains(&self, id: Uuid) -> bool {
        self.lock().contains_key(&id)
    }

    /// Returns a receiver that is notified when something waits for a sync of files.
    pub(super) fn needed(&self) -> watch::Receiver<()> {
        self.needed.subscribe()
    }

    /// Notifies the receivers of [`UnsyncedFiles::needed`].
    pub(super) fn request_sync(&self) {
        self.needed.send_replace(());
    }

    /// Reports the metrics.
    pub(super) fn collect(&self, into: &mut Collection) {
        let help = "Metadata files on local file systems that are written but not synced.";
        let files = self.lock().values().map(HashSet::len).sum::<usize>();
        into.gauge("slateberg.metadata.unsynced", "{file}", help, Vec::new(), files as f64);
    }

    /// Waits until all files of a table or view are synced.
    ///
    /// # Errors
    /// Errors if this takes too long.
    pub(super) async fn wait_synced(&self, id: Uuid) -> Result<(), Error> {
        let mut synced = self.synced.subscribe();
        let waiting = async {
            if self.contains(id) {
                self.request_sync();
            }
            while self.contains(id) {
                // The sender is a member of `self`, so it is not dropped.
                let _ = synced.changed().await;
            }
        };
        let late = |_| Error::Unavailable(Cause::new("metadata files are still being synced"));
        tokio::time::timeout(SYNC_TIME_MAX, waiting).await.map_err(late)
    }
}

impl UnsyncedVersion {
    /// Returns the version.
    pub fn key(&self) -> PublicationKey {
        self.key
    }

    /// Reports that the file of the version is synced, or not needed anymore.
    pub fn synced(self) {
        let mut versions = self.all.lock();
        if let Some(of_table) = versions.get_mut(&self.key.id) {
            of_table.remove(&self.key.version);
            if of_table.is_empty() {
                versions.remove(&self.key.id);
            }
        }
        drop(versions);
        self.all.synced.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::codec::Document;
    use crate::test_support::{in_memory, open, permit};
    use slateberg_model::segmented_json::{Chunk, Segment, SegmentedJson};

    const ID: Uuid = Uuid::from_u128(1);

    fn document(version: u64, chunks: &[&'static str]) -> Document {
        let chunks = chunks.iter().map(|text| Segment::Chunk(Chunk::new((*text).into())));
        Document { version, text: SegmentedJson::new(chunks.collect()) }
    }

    async fn replace(store: &Store, before: Option<&Document>, after: &Document) {
        let (permit, before) = (permit(), before.map(|before| &before.text));
        let written = store.transact("replace", &permit, |t| async move {
            t.put_document(ID, before, after).await.map(|_| ())
        });
        written.await.expect("it is accepted").1.durable().await.expect("it is durable");
    }

    #[tokio::test(start_paused = true)]
    async fn chunks_are_removed_after_the_files_that_need_them_are_synced() {
        let store = open(&in_memory()).await;
        let (first, second) = (document(1, &["a,", "b,"]), document(2, &["a,", "b,", "c,"]));
        replace(&store, None, &first).await;
        let key = |version| PublicationKey { id: ID, version };
        let other = PublicationKey { id: Uuid::from_u128(2), version: 1 };
        let (first_unsynced, second_unsynced) =
            (store.register_unsynced(key(1)), store.register_unsynced(key(2)));
        let _other = store.register_unsynced(other);
        let mut needed = store.sync_needed();
        replace(&store, Some(&first), &second).await;
        let third = document(3, &["c,"]);
        let replacing = replace(&store, Some(&second), &third);
        tokio::pin!(replacing);
        tokio::select! {
            () = &mut replacing => panic!("chunks of an unsynced version were removed"),
            _ = needed.changed() => {}
        }
        first_unsynced.synced();
        tokio::select! {
            () = &mut replacing => panic!("another version is not synced"),
            () = tokio::time::sleep(SYNC_TIME_MAX / 2) => {}
        }
        second_unsynced.synced();
        replacing.await;
    }

    #[tokio::test(start_paused = true)]
    async fn transaction_does_not_wait_for_a_sync_without_end() {
        let store = open(&in_memory()).await;
        let first = document(1, &["a,"]);
        replace(&store, None, &first).await;
        let _unsynced = store.register_unsynced(PublicationKey { id: ID, version: 1 });
        let permit = permit();
        let deleted =
            store.transact("delete", &permit, |t| async move { t.delete_document(ID).await });
        let error = deleted.await.err().expect("it is rejected");
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
    }
}

//! [`UnsyncedFiles`]: tables and views with metadata files that a power failure could destroy,
//! because they are written but not synced.
//!
//! The next start restores such files from their markers, which needs the chunks that the markers
//! reference. So no transaction removes chunks of a table or view while it has unsynced files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::error::Error;
use super::keys::PublicationKey;
use slateberg_base::error_chain::Cause;

/// Maximum time that a transaction waits for a sync.
const SYNC_TIME_MAX: Duration = Duration::from_secs(10);

/// The numbers of unsynced versions of all tables and views.
#[derive(Default)]
pub(super) struct UnsyncedFiles {
    versions: Mutex<HashMap<Uuid, usize>>,
    /// Notified when versions were synced.
    synced: watch::Sender<()>,
    /// Notified when something waits for a sync.
    needed: Notify,
}

/// Versions whose files are not synced, until this value is dropped.
#[must_use = "the versions count as synced when this is dropped"]
pub struct UnsyncedVersions {
    all: Arc<UnsyncedFiles>,
    keys: Vec<PublicationKey>,
}

impl UnsyncedFiles {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, usize>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers versions whose files are written but not synced.
    pub(super) fn register(self: &Arc<Self>, keys: Vec<PublicationKey>) -> UnsyncedVersions {
        let mut versions = self.lock();
        for key in &keys {
            *versions.entry(key.id).or_default() += 1;
        }
        drop(versions);
        UnsyncedVersions { all: Arc::clone(self), keys }
    }

    /// Waits until something waits for a sync of files.
    pub(super) async fn needed(&self) {
        self.needed.notified().await;
    }

    /// Waits until all files are synced.
    pub(super) async fn wait_all_synced(&self) -> Result<(), Error> {
        self.wait(HashMap::is_empty).await
    }

    /// Waits until all files of a table or view are synced.
    pub(super) async fn wait_synced(&self, id: Uuid) -> Result<(), Error> {
        self.wait(|versions| !versions.contains_key(&id)).await
    }

    async fn wait(&self, is_done: impl Fn(&HashMap<Uuid, usize>) -> bool) -> Result<(), Error> {
        let mut synced = self.synced.subscribe();
        let waiting = async {
            while !is_done(&self.lock()) {
                self.needed.notify_one();
                // The sender is a member of `self`, so it is not dropped.
                let _ = synced.changed().await;
            }
        };
        let late = |_| Error::Unavailable(Cause::new("metadata files are still being synced"));
        tokio::time::timeout(SYNC_TIME_MAX, waiting).await.map_err(late)
    }
}

impl UnsyncedVersions {
    /// Returns the versions.
    pub fn keys(&self) -> &[PublicationKey] {
        &self.keys
    }
}

impl Drop for UnsyncedVersions {
    fn drop(&mut self) {
        let mut versions = self.all.lock();
        for key in &self.keys {
            let left = versions.get_mut(&key.id).map(|left| {
                *left -= 1;
                *left
            });
            if left == Some(0) {
                versions.remove(&key.id);
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
        let key = PublicationKey { id: ID, version: 1 };
        let other = PublicationKey { id: Uuid::from_u128(2), version: 1 };
        let (unsynced, other) = (store.register_unsynced(vec![key]), [other].to_vec());
        let _other = store.register_unsynced(other);
        replace(&store, Some(&first), &second).await;
        let third = document(3, &["c,"]);
        let replacing = replace(&store, Some(&second), &third);
        tokio::pin!(replacing);
        tokio::select! {
            () = &mut replacing => panic!("chunks of an unsynced version were removed"),
            () = store.sync_needed() => {}
        }
        drop(unsynced);
        replacing.await;
    }

    #[tokio::test(start_paused = true)]
    async fn transaction_does_not_wait_for_a_sync_without_end() {
        let store = open(&in_memory()).await;
        let first = document(1, &["a,"]);
        replace(&store, None, &first).await;
        let _unsynced = store.register_unsynced(vec![PublicationKey { id: ID, version: 1 }]);
        let permit = permit();
        let deleted =
            store.transact("delete", &permit, |t| async move { t.delete_document(ID).await });
        let error = deleted.await.err().expect("it is rejected");
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
        assert!(store.wait_all_synced().await.is_err(), "the file is not synced");
    }
}

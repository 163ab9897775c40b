//! Tests of documents that commits change while they are read.

use std::sync::atomic::{AtomicU64, Ordering};

use slateberg_model::segmented_json::{Chunk, Segment, SegmentedJson};

use super::*;
use crate::test_support::{in_memory, open, permit};

const ID: Uuid = Uuid::from_u128(1);

/// Returns a document with more chunks than are read individually. No other version has them.
fn at_version(version: u64) -> Document {
    let chunk = |at| Chunk::new(format!("{version}/{at}").into());
    let chunks = (0..=CHUNK_GETS_MAX).map(|at| Segment::Chunk(chunk(at)));
    Document { version, text: SegmentedJson::new(chunks.collect()) }
}

async fn put(store: &Store, version: u64) {
    let before = (version > 1).then(|| at_version(version - 1).text);
    let (before, after, permit) = (&before, &at_version(version), permit());
    let written = store.transact("put", &permit, |transaction| async move {
        transaction.put_document(ID, before.as_ref(), after).await
    });
    written.await.expect("it is accepted").1.durable().await.expect("it is durable");
}

/// A view in which a commit replaces the document whenever its head was read.
struct Contended<'a> {
    store: &'a Store,
    version: AtomicU64,
}

impl StoreRead for Contended<'_> {
    fn get_bytes<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        Box::pin(async move {
            let head = self.store.durable().get_bytes(key).await;
            put(self.store, self.version.fetch_add(1, Ordering::Relaxed) + 1).await;
            head
        })
    }

    fn iterate<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, Result<DbIterator, Error>> {
        Box::pin(async move {
            let options = scan_options(DurabilityLevel::Remote);
            filters::scan(&self.store.db, range, &options).await
        })
    }
}

#[tokio::test]
async fn document_is_read_from_a_snapshot_if_commits_replace_it_again_and_again() {
    let store = open(&in_memory()).await;
    put(&store, 1).await;
    let view = Contended { store: &store, version: AtomicU64::new(1) };
    let contended = document(&view, ID).await;
    assert!(matches!(contended, Err(Error::Contended { .. })), "{contended:?}");
    for is_durable in [true, false] {
        let read = document_of(&view, &store.db, ID, is_durable).await.expect("it is readable");
        assert_eq!(read, Some(at_version(view.version.load(Ordering::Relaxed))));
    }
}

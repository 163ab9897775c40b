//! Checkpoints with garbage collection, compactions and the journal.

use std::time::Duration;

use super::*;
use crate::trying::{collect, compact, has, in_directory, in_memory, open, permit, write};

async fn keep(store: &Store, name: &str) -> Checkpoint {
    let wanted = NewCheckpoint { name: Some(name.to_owned()), lifetime: None };
    match store.create_checkpoint(&permit(), &wanted, 0).await.expect("it is made") {
        Made::Checkpoint(made) => made,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_collection_passes_by_what_a_checkpoint_needs() {
    let place = in_memory();
    let store = open(&place).await;
    write(&store, "before").await;
    let kept = keep(&store, "mine").await;
    compact(&store).await;
    collect(&place).await;
    let then = store.at_checkpoint(kept.id).await.expect("it is there");
    assert!(has(&then, "before").await && !has(&then, "run-0").await);
    assert!(has(&store.durable(), "run-0").await);
    // It also survives closing the store.
    store.close().await.expect("it closes");
    let store = open(&place).await;
    collect(&place).await;
    assert_eq!(store.checkpoints(0).await.expect("they are listed"), std::slice::from_ref(&kept));
    let then = store.at_checkpoint(kept.id).await.expect("it is there");
    assert!(has(&then, "before").await);
    assert!(store.delete_checkpoint(&permit(), kept.id).await.expect("it is deleted"));
    assert!(!store.delete_checkpoint(&permit(), kept.id).await.expect("it is gone"));
    assert_eq!(store.checkpoints(0).await.expect("they are listed"), []);
    assert!(store.at_checkpoint(kept.id).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_needs_no_journal() {
    let directory = tempfile::tempdir().expect("there is room");
    let place = in_directory(&directory);
    let store = open(&place).await;
    write(&store, "before").await;
    let kept = keep(&store, "mine").await;
    write(&store, "after").await;
    // The open writer holds the journal.
    let then = Store::open_checkpoint(&place, kept.id).await.expect("it opens");
    assert!(has(&then, "before").await && !has(&then, "after").await);
    store.close().await.expect("it closes");
    let journal = std::fs::read_dir(directory.path().join("state/journal")).expect("a journal");
    let segments = journal.flatten().filter(|entry| entry.path().extension().is_some());
    assert_eq!(segments.count(), 0, "an orderly stop leaves none");
    let then = Store::open_checkpoint(&place, kept.id).await.expect("it opens");
    assert!(has(&then, "before").await && !has(&then, "after").await);
    let store = open(&place).await;
    assert!(has(&store.durable(), "after").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_time_is_over_is_not_told() {
    let store = open(&in_memory()).await;
    let wanted = NewCheckpoint { name: None, lifetime: Some(Duration::from_secs(60)) };
    let made = store.create_checkpoint(&permit(), &wanted, 0).await.expect("it is made");
    let Made::Checkpoint(made) = made else { panic!("{made:?}") };
    let ends = made.expires_ms.expect("it ends");
    assert!(made.created_ms < ends && ends <= made.created_ms + 60_000);
    assert_eq!(store.checkpoints(ends - 1).await.expect("they are listed"), [made]);
    assert_eq!(store.checkpoints(ends).await.expect("they are listed"), []);
}

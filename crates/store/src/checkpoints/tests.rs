//! Tests that checkpoints stay readable after garbage collections and compactions, and without the
//! journal.

use std::time::Duration;

use super::*;
use crate::test_support::{collect, compact, has, in_directory, in_memory, open, permit, write};

async fn create_named(store: &Store, name: &str) -> Checkpoint {
    let request = NewCheckpoint { name: Some(name.to_owned()), lifetime: None };
    match store.create_checkpoint(&permit(), &request, 0).await.expect("the checkpoint is created")
    {
        CheckpointOutcome::Checkpoint(made) => made,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_collection_keeps_objects_of_checkpoints() {
    let location = in_memory();
    let store = open(&location).await;
    write(&store, "before").await;
    let checkpoint = create_named(&store, "mine").await;
    compact(&store).await;
    collect(&location).await;
    let then = store.at_checkpoint(checkpoint.id).await.expect("the checkpoint exists");
    assert!(has(&then, "before").await && !has(&then, "run-0").await);
    assert!(has(&store.durable(), "run-0").await);
    // The checkpoint still exists after the store was closed.
    store.close().await.expect("the store closes");
    let store = open(&location).await;
    collect(&location).await;
    assert_eq!(
        store.checkpoints(0).await.expect("the checkpoints are listed"),
        std::slice::from_ref(&checkpoint)
    );
    let then = store.at_checkpoint(checkpoint.id).await.expect("the checkpoint exists");
    assert!(has(&then, "before").await);
    assert!(
        store.delete_checkpoint(&permit(), checkpoint.id).await.expect("the checkpoint is deleted")
    );
    assert!(
        !store
            .delete_checkpoint(&permit(), checkpoint.id)
            .await
            .expect("a repeated deletion succeeds")
    );
    assert_eq!(store.checkpoints(0).await.expect("the checkpoints are listed"), []);
    assert!(store.at_checkpoint(checkpoint.id).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoint_is_readable_without_the_journal() {
    let directory = tempfile::tempdir().expect("there is room");
    let location = in_directory(&directory);
    let store = open(&location).await;
    write(&store, "before").await;
    let checkpoint = create_named(&store, "mine").await;
    write(&store, "after").await;
    // The open writer holds the lock of the journal. A reader of a checkpoint does not need this
    // lock.
    let then = Store::open_checkpoint(&location, checkpoint.id).await.expect("it opens");
    assert!(has(&then, "before").await && !has(&then, "after").await);
    store.close().await.expect("the store closes");
    let journal = std::fs::read_dir(directory.path().join("state/journal")).expect("a journal");
    let segments = journal.flatten().filter(|entry| entry.path().extension().is_some());
    assert_eq!(segments.count(), 0, "closing the store removes all segments");
    let then = Store::open_checkpoint(&location, checkpoint.id).await.expect("it opens");
    assert!(has(&then, "before").await && !has(&then, "after").await);
    let store = open(&location).await;
    assert!(has(&store.durable(), "after").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_checkpoint_is_not_listed() {
    let store = open(&in_memory()).await;
    let request = NewCheckpoint { name: None, lifetime: Some(Duration::from_secs(60)) };
    let created =
        store.create_checkpoint(&permit(), &request, 0).await.expect("the checkpoint is created");
    let CheckpointOutcome::Checkpoint(created) = created else { panic!("{created:?}") };
    let ends = created.expires_ms.expect("the checkpoint expires");
    assert!(created.created_ms < ends && ends <= created.created_ms + 60_000);
    assert_eq!(store.checkpoints(ends - 1).await.expect("the checkpoints are listed"), [created]);
    assert_eq!(store.checkpoints(ends).await.expect("the checkpoints are listed"), []);
}

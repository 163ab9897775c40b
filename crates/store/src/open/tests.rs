//! Tests of opening stores that change between a journal in a directory and a log of objects.

use tempfile::TempDir;
use uuid::Uuid;

use super::{Store, StoreLocation};
use crate::error::Error;
use crate::settings::Settings;
use crate::test_support::{assert_holds, crash, in_directory, in_memory, open, permit, write};

/// Returns two locations of one directory: with a journal, and without a journal.
fn locations(directory: &TempDir) -> (StoreLocation, StoreLocation) {
    let with_journal = in_directory(directory);
    let without = StoreLocation { directory: None, ..with_journal.clone() };
    (with_journal, without)
}

#[track_caller]
fn segments(directory: &TempDir) -> usize {
    let journal = std::fs::read_dir(directory.path().join("state/journal")).expect("a journal");
    journal
        .flatten()
        .filter(|entry| slateberg_wal::is_segment(&entry.path().to_string_lossy()))
        .count()
}

#[tokio::test]
async fn records_in_the_journal_survive_a_crash() {
    let directory = tempfile::tempdir().expect("there is room");
    let (location, _) = locations(&directory);
    for (round, name) in ["a", "b", "c"].into_iter().enumerate() {
        let store = open(&location).await;
        write(&store, name).await;
        crash(store).await;
        assert_eq!(segments(&directory), round + 1);
        let offline = Store::open_offline(&location).await.expect("it can be read");
        assert_holds(&offline, &["a", "b", "c"][..=round]).await;
    }
    let store = open(&location).await;
    assert_holds(&store.durable(), &["a", "b", "c"]).await;
    store.close().await.expect("it closes");
    assert_eq!(segments(&directory), 0, "closing the store removes all segments");
    let store = open(&location).await;
    assert_holds(&store.durable(), &["a", "b", "c"]).await;
    write(&store, "d").await;
    crash(store).await;
    assert_holds(&open(&location).await.durable(), &["a", "b", "c", "d"]).await;
}

#[tokio::test]
async fn second_writer_of_a_directory_is_rejected() {
    let directory = tempfile::tempdir().expect("there is room");
    let (location, _) = locations(&directory);
    let first = open(&location).await;
    let second = Store::open(&location, Settings::default()).await;
    assert!(matches!(second.err(), Some(Error::InUse(_))));
    write(&first, "a").await;
    first.close().await.expect("the second writer has not fenced the first one");
    open(&location).await.close().await.expect("the lock is free again");
}

#[tokio::test]
async fn object_log_is_taken_over_by_the_journal() {
    let directory = tempfile::tempdir().expect("there is room");
    let (with_journal, without) = locations(&directory);
    let store = open(&without).await;
    write(&store, "a").await;
    crash(store).await;
    let store = open(&with_journal).await;
    assert_holds(&store.durable(), &["a"]).await;
    write(&store, "b").await;
    crash(store).await;
    assert!(!directory.path().join("state/wal").exists(), "the log of objects is removed");
    assert_holds(&open(&with_journal).await.durable(), &["a", "b"]).await;
}

#[tokio::test]
async fn opening_without_the_journal_is_rejected() {
    let directory = tempfile::tempdir().expect("there is room");
    let (with_journal, without) = locations(&directory);
    let store = open(&with_journal).await;
    write(&store, "a").await;
    crash(store).await;
    let elsewhere = Store::open(&without, Settings::default()).await;
    assert!(matches!(elsewhere.err(), Some(Error::JournalLeft)));
    open(&with_journal).await.close().await.expect("the store closes");
    let store = open(&without).await;
    assert_holds(&store.durable(), &["a"]).await;
    store.close().await.expect("the store closes");
}

/// Creates a store whose record `a` is only in the journal, and whose journal then fails.
async fn failed_store(directory: &TempDir) -> Store {
    let (location, _) = locations(directory);
    let store = open(&location).await;
    write(&store, "a").await;
    // After the crash, the first write has to create a segment, which fails because the directory
    // is missing.
    crash(store).await;
    let store = open(&location).await;
    let (journal, gone) = (directory.path().join("state/journal"), directory.path().join("gone"));
    std::fs::rename(&journal, &gone).expect("it can be moved");
    let refused = store.ensure_warehouse(&permit(), "b", "memory:///", Uuid::nil(), 0).await;
    assert!(matches!(refused, Err(Error::Unknown(_))), "{refused:?}");
    std::fs::rename(&gone, &journal).expect("it can be moved");
    store
}

#[tokio::test]
async fn journal_write_failure_closes_the_store() {
    let directory = tempfile::tempdir().expect("there is room");
    let store = failed_store(&directory).await;
    assert!(store.check_open().is_err(), "a store with an unknown state on disk is closed");
}

#[tokio::test]
async fn failed_store_keeps_its_journal_on_close() {
    let directory = tempfile::tempdir().expect("there is room");
    let store = failed_store(&directory).await;
    for _ in 0..2 {
        let closed = store.close().await;
        assert!(matches!(closed, Err(Error::Failed)), "{closed:?}");
    }
    assert_eq!(segments(&directory), 1, "only the journal has the newest records");
    let store = open(&locations(&directory).0).await;
    assert_holds(&store.durable(), &["a"]).await;
    store.close().await.expect("the store closes");
    assert_eq!(segments(&directory), 0);
}

/// A log of objects may be deleted only after a clean close. So if the database has already failed,
/// closing it must return an error.
#[tokio::test]
async fn fenced_database_is_not_closed_cleanly() {
    let location = in_memory();
    let first = open(&location).await;
    write(&first, "a").await;
    let second = open(&location).await;
    let rejection = first.ensure_warehouse(&permit(), "b", "memory:///", Uuid::nil(), 0).await;
    assert!(rejection.is_err(), "{rejection:?}");
    let closed = super::close_in_order(&first.db).await;
    assert!(matches!(closed, Err(Error::Fenced)), "{closed:?}");
    super::close_in_order(&second.db).await.expect("the second writer is not fenced");
    let again = super::close_in_order(&second.db).await;
    assert!(matches!(again, Err(Error::Closed)), "{again:?}");
}

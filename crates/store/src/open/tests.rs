//! Stores that move between a directory with a journal and a log of objects.

use tempfile::TempDir;
use uuid::Uuid;

use super::{Place, Store};
use crate::error::Error;
use crate::settings::Settings;
use crate::trying::{assert_holds, crash, in_directory, in_memory, open, permit, write};

/// Returns a directory as a location with a journal, and as one without.
fn places(directory: &TempDir) -> (Place, Place) {
    let with_journal = in_directory(directory);
    let without = Place { directory: None, ..with_journal.clone() };
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
async fn what_a_crash_left_in_the_journal_is_there() {
    let directory = tempfile::tempdir().expect("there is room");
    let (place, _) = places(&directory);
    for (round, name) in ["a", "b", "c"].into_iter().enumerate() {
        let store = open(&place).await;
        write(&store, name).await;
        crash(store).await;
        assert_eq!(segments(&directory), round + 1);
        let offline = Store::open_offline(&place).await.expect("it can be read");
        assert_holds(&offline, &["a", "b", "c"][..=round]).await;
    }
    let store = open(&place).await;
    assert_holds(&store.durable(), &["a", "b", "c"]).await;
    store.close().await.expect("it closes");
    assert_eq!(segments(&directory), 0, "a store that was closed in order needs no journal");
    let store = open(&place).await;
    assert_holds(&store.durable(), &["a", "b", "c"]).await;
    write(&store, "d").await;
    crash(store).await;
    assert_holds(&open(&place).await.durable(), &["a", "b", "c", "d"]).await;
}

#[tokio::test]
async fn a_directory_has_one_writer() {
    let directory = tempfile::tempdir().expect("there is room");
    let (place, _) = places(&directory);
    let first = open(&place).await;
    let second = Store::open(&place, Settings::default()).await;
    assert!(matches!(second.err(), Some(Error::InUse(_))));
    write(&first, "a").await;
    first.close().await.expect("nobody has fenced it");
    open(&place).await.close().await.expect("it is free again");
}

#[tokio::test]
async fn a_log_of_objects_is_taken_over() {
    let directory = tempfile::tempdir().expect("there is room");
    let (with_journal, without) = places(&directory);
    let store = open(&without).await;
    write(&store, "a").await;
    crash(store).await;
    let store = open(&with_journal).await;
    assert_holds(&store.durable(), &["a"]).await;
    write(&store, "b").await;
    crash(store).await;
    assert!(!directory.path().join("state/wal").exists(), "nothing reads it any more");
    assert_holds(&open(&with_journal).await.durable(), &["a", "b"]).await;
}

#[tokio::test]
async fn a_journal_is_not_left_behind() {
    let directory = tempfile::tempdir().expect("there is room");
    let (with_journal, without) = places(&directory);
    let store = open(&with_journal).await;
    write(&store, "a").await;
    crash(store).await;
    let elsewhere = Store::open(&without, Settings::default()).await;
    assert!(matches!(elsewhere.err(), Some(Error::JournalLeft)));
    open(&with_journal).await.close().await.expect("it closes");
    let store = open(&without).await;
    assert_holds(&store.durable(), &["a"]).await;
    store.close().await.expect("it closes");
}

/// Creates a store with the record `a` only in the journal, whose journal then fails.
async fn failed(directory: &TempDir) -> Store {
    let (place, _) = places(directory);
    let store = open(&place).await;
    write(&store, "a").await;
    // The first write creates a segment, which has no directory here.
    crash(store).await;
    let store = open(&place).await;
    let (journal, gone) = (directory.path().join("state/journal"), directory.path().join("gone"));
    std::fs::rename(&journal, &gone).expect("it can be moved");
    let refused = store.ensure_warehouse(&permit(), "b", "memory:///", Uuid::nil(), 0).await;
    assert!(matches!(refused, Err(Error::Unknown(_))), "{refused:?}");
    std::fs::rename(&gone, &journal).expect("it can be moved");
    store
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_shuts_the_store() {
    let directory = tempfile::tempdir().expect("there is room");
    let store = failed(&directory).await;
    assert!(store.check_open().is_err(), "what is on the disk is known to nobody");
}

#[tokio::test]
async fn a_store_that_has_failed_keeps_its_journal_when_it_is_closed() {
    let directory = tempfile::tempdir().expect("there is room");
    let store = failed(&directory).await;
    for _ in 0..2 {
        let closed = store.close().await;
        assert!(matches!(closed, Err(Error::Failed)), "{closed:?}");
    }
    assert_eq!(segments(&directory), 1, "nothing else has what is in it");
    let store = open(&places(&directory).0).await;
    assert_holds(&store.durable(), &["a"]).await;
    store.close().await.expect("it closes");
    assert_eq!(segments(&directory), 0);
}

/// A log of objects is removed after it was flushed, and the database may fail before that.
#[tokio::test]
async fn a_database_that_was_fenced_was_not_closed_in_order() {
    let place = in_memory();
    let first = open(&place).await;
    write(&first, "a").await;
    let second = open(&place).await;
    let refused = first.ensure_warehouse(&permit(), "b", "memory:///", Uuid::nil(), 0).await;
    assert!(refused.is_err(), "{refused:?}");
    let closed = super::close_in_order(&first.db).await;
    assert!(matches!(closed, Err(Error::Fenced)), "{closed:?}");
    super::close_in_order(&second.db).await.expect("nobody has fenced this one");
    let again = super::close_in_order(&second.db).await;
    assert!(matches!(again, Err(Error::Closed)), "{again:?}");
}

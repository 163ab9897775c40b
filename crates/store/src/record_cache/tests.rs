//! Tests of records in the cache that transactions read and replace.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::Store;
use crate::error::Error;
use crate::keys::{Key, NamespaceKey};
use crate::read::StoreRead;
use crate::records::NamespaceRecord;
use crate::settings::Settings;
use crate::test_support::{in_memory, permit};
use crate::txn::Transaction;

const KEY: NamespaceKey = NamespaceKey(Uuid::from_u128(1));

async fn open() -> Store {
    let settings = Settings { record_cache_bytes: 1 << 20, ..Settings::default() };
    Store::open(&in_memory(), settings).await.expect("the store opens")
}

fn at_version(version: u64) -> NamespaceRecord {
    NamespaceRecord {
        id: KEY.0,
        warehouse: Uuid::nil(),
        parent: Uuid::nil(),
        name: "sales".to_owned(),
        properties: Default::default(),
        version,
        created_ms: 0,
        owner: None,
    }
}

/// Writes the record, or removes it, and waits until this is durable.
async fn write(store: &Store, record: Option<&NamespaceRecord>) {
    let permit = permit();
    let written = store.transact("write", &permit, |t| async move {
        match record {
            Some(record) => t.put(&KEY, record),
            None => t.delete(&KEY),
        }
    });
    written.await.expect("it is accepted").1.durable().await.expect("it is durable");
}

/// Reads the record, and returns whether the cache contained it.
async fn read(store: &Store) -> (Option<NamespaceRecord>, bool) {
    let before = store.record_cache_usage().misses;
    let record = store.durable().get(&KEY).await.expect("the store is readable");
    (record, store.record_cache_usage().misses == before)
}

#[tokio::test]
async fn cached_record_is_replaced_when_a_transaction_is_durable() {
    let store = open().await;
    write(&store, Some(&at_version(1))).await;
    assert_eq!(read(&store).await, (Some(at_version(1)), false), "nobody has read it before");
    write(&store, Some(&at_version(2))).await;
    assert_eq!(read(&store).await, (Some(at_version(2)), true));
    write(&store, None).await;
    assert_eq!(read(&store).await, (None, true));
    write(&store, Some(&at_version(3))).await;
    assert_eq!(read(&store).await, (Some(at_version(3)), true));
}

#[tokio::test]
async fn cached_record_is_not_replaced_by_bytes_that_follow_it_in_a_transaction() {
    let store = open().await;
    write(&store, Some(&at_version(1))).await;
    read(&store).await;
    let restored = crate::codec::Value::encode(&at_version(7));
    let permit = permit();
    let written = store.transact("restore", &permit, |t| {
        let restored = restored.clone();
        async move {
            t.put(&KEY, &at_version(2))?;
            t.put_at(KEY.encode(), &restored)?;
            Ok::<_, Error>(())
        }
    });
    written.await.expect("it is accepted").1.durable().await.expect("it is durable");
    assert_eq!(read(&store).await, (Some(at_version(7)), false));
}

#[tokio::test]
async fn cached_record_is_outdated_while_a_transaction_is_not_durable() {
    let store = open().await;
    write(&store, Some(&at_version(1))).await;
    read(&store).await;
    let permit = permit();
    let written = store.transact("write", &permit, |t| async move { t.put(&KEY, &at_version(2)) });
    let ((), accepted) = written.await.expect("it is accepted");
    assert_eq!(store.latest().get(&KEY).await.expect("it is readable"), Some(at_version(2)));
    accepted.durable().await.expect("it is durable");
    assert_eq!(read(&store).await.0, Some(at_version(2)));
}

/// Reads the record in a transaction, and returns whether the cache contained it.
async fn read_in(store: &Store, t: &Transaction) -> (Option<NamespaceRecord>, bool) {
    let before = store.record_cache_usage().hits;
    let record = t.get(&KEY).await.expect("the store is readable");
    (record, store.record_cache_usage().hits > before)
}

#[tokio::test]
async fn transaction_conflicts_with_a_write_of_a_record_that_it_read_from_the_cache() {
    let (store, permit, attempts) = (&open().await, permit(), &AtomicU64::new(0));
    write(store, Some(&at_version(1))).await;
    read(store).await;
    let copied = store.transact("copy", &permit, |t| async move {
        let read = read_in(store, &t).await;
        if attempts.fetch_add(1, Ordering::Relaxed) == 0 {
            assert_eq!(read, (Some(at_version(1)), true));
            write(store, Some(&at_version(2))).await;
            let again = read_in(store, &t).await;
            assert_eq!(again, (Some(at_version(1)), false), "the cache has a newer record");
        }
        t.put(&NamespaceKey(Uuid::from_u128(2)), &at_version(0))?;
        Ok::<_, Error>(read.0)
    });
    let (copied, _) = copied.await.expect("it is accepted");
    assert_eq!((copied, attempts.load(Ordering::Relaxed)), (Some(at_version(2)), 2));
}

#[tokio::test]
async fn transaction_reads_its_own_writes_of_a_cached_record() {
    let (store, permit) = (&open().await, permit());
    write(store, Some(&at_version(1))).await;
    read(store).await;
    let written = store.transact("write", &permit, |t| async move {
        t.put(&KEY, &at_version(2))?;
        assert_eq!(read_in(store, &t).await, (Some(at_version(2)), false));
        t.delete(&KEY)?;
        assert_eq!(read_in(store, &t).await, (None, false));
        Ok::<_, Error>(())
    });
    written.await.expect("it is accepted").1.durable().await.expect("it is durable");
}

#[tokio::test]
async fn record_that_a_transaction_reads_is_cached_if_it_is_the_newest() {
    let (store, permit, attempts) = (&open().await, permit(), &AtomicU64::new(0));
    write(store, Some(&at_version(1))).await;
    let read = store.transact("read", &permit, |t| async move {
        let is_first = attempts.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first {
            write(store, Some(&at_version(2))).await;
        }
        let (older, newest) = (Some(at_version(1)), Some(at_version(2)));
        let in_snapshot = if is_first { older } else { newest.clone() };
        assert_eq!(read_in(store, &t).await, (in_snapshot, false));
        assert_eq!(read(store).await, (newest, !is_first));
        store.clear_caches();
        Ok::<_, Error>(())
    });
    read.await.expect("it writes nothing").1.durable().await.expect("it is durable");
    assert_eq!(attempts.load(Ordering::Relaxed), 2, "the record that was read has changed");
}

//! Tests of records that a transaction replaces in the cache.

use super::*;
use crate::Store;
use crate::error::Error;
use crate::keys::{Key, NamespaceKey};
use crate::read::StoreRead;
use crate::records::NamespaceRecord;
use crate::settings::Settings;
use crate::test_support::{in_memory, permit};

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

//! The store's in-process caches while a writer changes records. A read never returns a state that
//! is older than that of an earlier read, or newer than the durable state.
//!
//! Each transaction of the writer writes a greater count in every form that is cached: in two
//! records, and as a name that replaces the previous name. The page of names changes with the name.
//! Readers read all these forms in turn, with the methods of `Store` and not over HTTP. Each read
//! must return at least the greatest count that was returned or acknowledged before it started.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use object_store::ObjectStore;
use object_store::memory::InMemory;
use slateberg_authz::permit::{Permit, Task};
use slateberg_model::ident::TabularKind;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{NamespaceKey, TabularNameKey};
use slateberg_store::open::StoreLocation;
use slateberg_store::read::StoreRead;
use slateberg_store::records::{NameEntry, NamespaceRecord};
use slateberg_store::settings::Settings;
use slateberg_store::txn::AcceptedTransaction;
use slateberg_store::{Error, Store};
use uuid::Uuid;

use crate::support::env_numbers::number_from_env;
use crate::support::faults::{Fault, FaultStore, LOG, Verb};

const PARENT: Uuid = Uuid::from_u128(1);
const RECORDS: [Uuid; 2] = [Uuid::from_u128(2), Uuid::from_u128(3)];
/// Number of transactions of the writer, and number of concurrent readers.
const TRANSACTIONS: u64 = 2000;
const READERS: usize = 4;
/// Number of transactions between two waits for durability.
const UNDER_WAY_MAX: u64 = 3;
/// Maximum number of counts for which a search tries names. The writer cannot be further ahead of a
/// read.
const READ_AHEAD_MAX: u64 = TRANSACTIONS * 100;
/// The store's bucket is copied, as after a crash, once in this many transactions.
const CRASH_EVERY: u64 = 100;

fn store_location(object_store: Arc<dyn ObjectStore>) -> StoreLocation {
    StoreLocation {
        object_store,
        path: "state".to_owned(),
        conditional_update: true,
        directory: None,
        log: None,
        encryption: None,
        storage: Default::default(),
    }
}

/// Returns the store settings of a default catalog.
fn settings() -> Settings {
    slateberg_config::Settings::default().with_memory_shares().store
}

/// Returns a store with a slow log on a bucket.
async fn slow_store(settings: Settings) -> (Store, Arc<InMemory>, Arc<FaultStore>) {
    let bucket = Arc::new(InMemory::new());
    let faults = FaultStore::new(Arc::clone(&bucket) as Arc<dyn ObjectStore>);
    let store = Store::open(&store_location(Arc::clone(&faults) as _), settings).await;
    (store.expect("the store opens"), bucket, faults)
}

fn name(count: u64) -> TabularNameKey {
    TabularNameKey { kind: TabularKind::Table, namespace: PARENT, name: format!("{count:08}") }
}

/// Writes this count everywhere. The transaction is accepted, but not durable yet.
async fn count_to(store: &Store, count: u64) -> AcceptedTransaction {
    let permit = Permit::for_task(Task::Open);
    let counting = store.transact("count", &permit, |t| async move {
        for id in RECORDS {
            let record = NamespaceRecord {
                id,
                warehouse: PARENT,
                parent: PARENT,
                name: "counted".to_owned(),
                properties: [("count".to_owned(), count.to_string())].into(),
                version: count,
                created_ms: 0,
                owner: None,
            };
            t.put(&NamespaceKey(id), &record)?;
        }
        t.delete(&name(count - 1))?;
        t.put(&name(count), &NameEntry { id: Uuid::from_u128(u128::from(count)) })?;
        Ok::<_, Error>(())
    });
    counting.await.expect("there is no other writer").1
}

async fn in_record(store: &impl StoreRead, id: Uuid) -> u64 {
    store.get(&NamespaceKey(id)).await.expect("it can be read").map_or(0, |record| record.version)
}

/// Returns the count in the page, which contains exactly one name.
async fn on_page(store: &Store, limit: Option<usize>) -> u64 {
    let names = store.durable().names(KeySpace::TableNames, PARENT, None, limit).await;
    let names = names.expect("it can be read");
    assert!(names.len() <= 1, "{names:?} never existed at the same time");
    names.get(0).map_or(0, |name| name.parse().expect("names are numbers"))
}

/// Returns the count that is the only existing name. The search begins at `at_least`.
async fn by_name(store: &Store, at_least: u64) -> u64 {
    let durable = store.durable();
    let mut count = at_least;
    loop {
        match durable.get(&name(count)).await.expect("it can be read") {
            Some(entry) => {
                assert_eq!(entry.id, Uuid::from_u128(u128::from(count)));
                return count;
            }
            // Before the first transaction there is no name.
            None if count == 0 => return 0,
            None => count += 1,
        }
        assert!(count <= at_least + READ_AHEAD_MAX, "no name from {at_least} on exists");
    }
}

/// Reads the count in six ways in turn until the writer is done. `shown` is the greatest count that
/// a reader has got or that was acknowledged to the writer.
async fn read_continuously(
    store: Store,
    shown: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    number: usize,
) {
    let mut turn = number;
    while !done.load(Ordering::SeqCst) {
        turn += 1;
        let floor = shown.load(Ordering::SeqCst);
        let count = match turn % 6 {
            0 | 1 => in_record(&store.durable(), RECORDS[turn % 2]).await,
            2 => on_page(&store, None).await,
            3 => on_page(&store, Some(10)).await,
            4 => by_name(&store, floor).await,
            _ => in_record(&store.durable(), RECORDS[(turn / 6) % 2]).await,
        };
        assert!(count >= floor, "way {} of reading: {count} after {floor}", turn % 6);
        shown.fetch_max(count, Ordering::SeqCst);
        if turn.is_multiple_of(16) {
            tokio::task::yield_now().await;
        }
    }
}

async fn read_during_writes(settings: Settings) {
    let transactions = number_from_env("SLATEBERG_ISOLATION_TRANSACTIONS", TRANSACTIONS);
    let (store, bucket, faults) = slow_store(settings).await;
    faults.inject(Verb::Put, LOG, Fault::Delay(0..2));
    let (shown, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let reader =
        |number| read_continuously(store.clone(), Arc::clone(&shown), Arc::clone(&done), number);
    let readers: Vec<_> = (0..READERS).map(|number| tokio::spawn(reader(number))).collect();
    for count in 1..=transactions {
        let accepted = count_to(&store, count).await;
        if count.is_multiple_of(UNDER_WAY_MAX) {
            accepted.durable().await.expect("the log is there");
            shown.fetch_max(count, Ordering::SeqCst);
        }
        if count.is_multiple_of(CRASH_EVERY) {
            // The greatest count is read before the simulated crash, so the store must still have
            // it after the crash.
            let seen = shown.load(Ordering::SeqCst);
            let left: Arc<dyn ObjectStore> = Arc::new(bucket.fork());
            let left = Store::open_offline(&store_location(left)).await.expect("the store opens");
            let there = in_record(&left, RECORDS[0]).await;
            assert!(there >= seen, "{seen} was read before a crash, and {there} after it");
        }
        if readers.iter().any(tokio::task::JoinHandle::is_finished) {
            break;
        }
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.expect("readers see no wrong count");
    }
    store.close().await.expect("the store closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_readers_never_see_a_count_decrease() {
    read_during_writes(settings()).await;
}

/// With tiny caches, entries are evicted quickly.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_readers_never_see_a_count_decrease_with_tiny_caches() {
    let settings = Settings { record_cache_bytes: 600, page_cache_bytes: 300, ..settings() };
    read_during_writes(settings).await;
}

#[tokio::test]
async fn record_is_visible_exactly_once_it_is_durable() {
    let (store, _, faults) = slow_store(settings()).await;
    count_to(&store, 1).await.durable().await.expect("the log is there");
    for read_before in [true, false] {
        let last = in_record(&store.durable(), RECORDS[0]).await;
        let next = last + 1;
        if read_before {
            assert_eq!(by_name(&store, last).await, last);
            assert_eq!(on_page(&store, None).await, last);
        }
        faults.inject(Verb::Put, LOG, Fault::Hang);
        let accepted = count_to(&store, next).await;
        for _ in 0..3 {
            assert_eq!(in_record(&store.durable(), RECORDS[0]).await, last);
            assert_eq!(on_page(&store, None).await, last);
            assert_eq!(by_name(&store, last).await, last);
            let absent = store.durable().get(&name(next)).await.expect("it can be read");
            assert_eq!(absent, None);
        }
        faults.lift();
        accepted.durable().await.expect("the log is there");
        for _ in 0..3 {
            assert_eq!(in_record(&store.durable(), RECORDS[0]).await, next);
            assert_eq!(on_page(&store, None).await, next);
            assert_eq!(by_name(&store, next).await, next);
            let removed = store.durable().get(&name(last)).await.expect("it can be read");
            assert_eq!(removed, None);
        }
    }
}

/// Makes sure that the tests above use the caches.
#[tokio::test]
async fn unchanged_record_is_read_from_the_store_once() {
    let (store, _, _) = slow_store(settings()).await;
    count_to(&store, 1).await.durable().await.expect("the log is there");
    for _ in 0..10 {
        in_record(&store.durable(), RECORDS[0]).await;
        on_page(&store, Some(1)).await;
        assert_eq!(store.durable().get(&name(7)).await.expect("it can be read"), None);
    }
    let (records, pages) = (store.record_cache_usage(), store.page_cache_usage());
    assert_eq!((records.hits, records.misses), (18, 2));
    assert_eq!((pages.hits, pages.misses), (9, 1));
}

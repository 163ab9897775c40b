//! Tests of replicas, each with a writer on the same bucket in memory.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;
use uuid::Uuid;

use super::*;
use crate::replication::ReplicationEvent;
use crate::test_support::{assert_holds, has, location, permit, write};

/// Opens the store as the writer of a cluster.
async fn writer(location: &StoreLocation) -> Store {
    let store = Store::take_over(location, Settings::default(), None).await;
    store.expect("the store opens")
}

async fn replica(location: &StoreLocation) -> Store {
    Store::open_replica(location, Settings::default()).await.expect("the replica opens").0
}

/// Applies all rows up to a sequence number of the writer.
async fn follow(replica: &Store, subscription: &mut Subscription, sequence: u64) {
    loop {
        match subscription.next().await.expect("the writer sends rows") {
            ReplicationEvent::Rows(group) => {
                replica.apply(&[Arc::unwrap_or_clone(group)]).await.expect("it is durable");
            }
            ReplicationEvent::Released(released) if released >= sequence => return,
            ReplicationEvent::Released(_) | ReplicationEvent::Published(_) => {}
        }
    }
}

/// Returns the objects of a bucket, with their versions.
async fn objects(bucket: &InMemory) -> BTreeMap<String, Option<String>> {
    let listed: Vec<_> = bucket.list(None).try_collect().await.expect("a listing");
    listed.into_iter().map(|meta| (meta.location.to_string(), meta.e_tag)).collect()
}

#[tokio::test]
async fn replica_contains_sorted_runs_and_the_log() {
    let bucket = Arc::new(InMemory::new());
    let location = location(&bucket, "state");
    let writer = writer(&location).await;
    write(&writer, "in a run").await;
    writer.flush().await.expect("it is flushed");
    write(&writer, "in the log").await;
    let replica = replica(&location).await;
    assert_holds(&replica.durable(), &["in a run", "in the log"]).await;
    assert_eq!(replica.sequence().expect("open"), writer.sequence().expect("open"));
}

#[tokio::test]
async fn replica_applies_the_rows_that_follow() {
    let bucket = Arc::new(InMemory::new());
    let location = location(&bucket, "state");
    let writer = writer(&location).await;
    let mut subscription = writer.subscribe().expect("it has replicas");
    write(&writer, "before").await;
    let replica = replica(&location).await;
    // The cache of the replica contains the absence of this record.
    assert!(!has(&replica.durable(), "after").await);
    write(&writer, "after").await;
    follow(&replica, &mut subscription, writer.visible_sequence().await.expect("open")).await;
    assert_holds(&replica.durable(), &["before", "after"]).await;
    assert_eq!(replica.sequence().expect("open"), writer.sequence().expect("open"));
}

#[tokio::test]
async fn replica_is_consistent_although_the_writer_writes_while_it_opens() {
    let bucket = Arc::new(InMemory::new());
    let location = location(&bucket, "state");
    let writer = writer(&location).await;
    let mut subscription = writer.subscribe().expect("it has replicas");
    let names: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    let writing = async {
        for name in &names {
            write(&writer, name).await;
            if name.ends_with("50") {
                writer.flush().await.expect("it is flushed");
            }
        }
    };
    let opening = async {
        let mut opened = Vec::new();
        for _ in 0..5 {
            opened.push(replica(&location).await);
        }
        opened
    };
    let ((), replicas) = tokio::join!(writing, opening);
    let sequence = writer.visible_sequence().await.expect("open");
    let mut groups = Vec::new();
    while groups.last().is_none_or(|group: &RowGroup| group.sequence < sequence) {
        if let Some(ReplicationEvent::Rows(group)) = subscription.next().await {
            groups.push(Arc::unwrap_or_clone(group));
        }
    }
    for replica in replicas {
        replica.apply(&groups).await.expect("it is durable");
        for name in &names {
            assert!(has(&replica.durable(), name).await, "{name}");
        }
    }
}

#[tokio::test]
async fn replica_leaves_the_bucket_and_the_writer_unchanged() {
    let bucket = Arc::new(InMemory::new());
    let location = location(&bucket, "state");
    let writer = writer(&location).await;
    write(&writer, "kept").await;
    let before = objects(&bucket).await;
    let replica = replica(&location).await;
    let sequence = replica.sequence().expect("open") + 1;
    let rows = vec![Row { key: vec![0xff].into(), value: Some(vec![1].into()) }];
    replica.apply(&[RowGroup { sequence, rows }]).await.expect("it is durable");
    replica.flush().await.expect("it is flushed");
    replica.close().await.expect("it closes");
    assert_eq!(objects(&bucket).await, before);
    write(&writer, "later").await;
    assert_eq!(writer.durable().get_bytes(&[0xff]).await.expect("readable"), None);
}

#[tokio::test]
async fn replica_accepts_no_changes_of_its_own() {
    let location = location(&Arc::new(InMemory::new()), "state");
    let writer = writer(&location).await;
    write(&writer, "a").await;
    let replica = replica(&location).await;
    let changed = replica.ensure_warehouse(&permit(), "b", "memory:///", Uuid::nil(), 0).await;
    assert!(matches!(changed, Err(Error::Replica)), "{changed:?}");
    let unchanged = replica.ensure_warehouse(&permit(), "a", "memory:///", Uuid::nil(), 0).await;
    assert!(unchanged.is_ok(), "{unchanged:?}");
    assert_eq!(replica.sequence().expect("open"), writer.sequence().expect("open"));
}

#[tokio::test]
async fn rows_that_the_catalog_has_loaded_are_reported() {
    let bucket = Arc::new(InMemory::new());
    let location = location(&bucket, "state");
    let writer = writer(&location).await;
    let mut subscription = writer.subscribe().expect("it has replicas");
    write(&writer, "a warehouse").await;
    let ReplicationEvent::Rows(group) = subscription.next().await.expect("an event") else {
        panic!("rows precede other events")
    };
    assert!(group.changes_loaded_records());
    let name = Row { key: vec![KeySpace::TableNames.byte()].into(), value: None };
    let unknown = Row { key: vec![0xff].into(), value: None };
    for (row, expected) in [(name, false), (unknown, true)] {
        let group = RowGroup { sequence: 1, rows: vec![row] };
        assert_eq!(group.changes_loaded_records(), expected);
    }
}

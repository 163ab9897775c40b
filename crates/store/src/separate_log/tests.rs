//! Stores with a log in another bucket, opened with right and wrong settings.

use std::sync::Arc;

use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStore, ObjectStoreExt};
use uuid::Uuid;

use super::Log;
use crate::Store;
use crate::error::Error;
use crate::location::Place;
use crate::settings::Settings;
use crate::trying::{assert_holds, crash, write};

const STATE_URL: &str = "memory:///state";

fn bucket() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

/// Returns the store in a bucket, with its log in another one.
fn place(bucket: &Arc<dyn ObjectStore>, log: Option<(&Arc<dyn ObjectStore>, u128)>) -> Place {
    Place {
        object_store: Arc::clone(bucket),
        path: "state".to_owned(),
        conditional_update: true,
        directory: None,
        log: log.map(|(log, id)| Log {
            object_store: Arc::clone(log),
            path: Path::from("fast"),
            url: "memory:///fast".to_owned(),
            state_url: STATE_URL.to_owned(),
            id: Uuid::from_u128(id),
        }),
        encryption: None,
        storage: Default::default(),
    }
}

async fn open(place: &Place) -> Result<Store, Error> {
    Store::open(place, Settings::default()).await
}

#[tokio::test]
async fn a_crash_loses_nothing_of_a_log_in_another_bucket() {
    let (bucket, log) = (bucket(), bucket());
    // Each start proposes another id. The first one is used.
    for (start, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let place = place(&bucket, Some((&log, start as u128)));
        let store = open(&place).await.expect("it opens");
        assert_holds(&store.durable(), &["a", "b", "c", "d"][..start]).await;
        write(&store, name).await;
        crash(store).await;
        let offline = Store::open_offline(&place).await.expect("it can be read");
        assert_holds(&offline, &["a", "b", "c", "d"][..=start]).await;
    }
    let beside = Path::from("state/wal/00000000000000000001.sst");
    assert!(bucket.head(&beside).await.is_err(), "no log is beside the rest");
}

#[tokio::test]
async fn a_store_is_not_opened_without_its_log() {
    let (bucket, log) = (bucket(), bucket());
    let store = open(&place(&bucket, Some((&log, 1)))).await.expect("it opens");
    write(&store, "a").await;
    crash(store).await;
    let without = place(&bucket, None);
    let elsewhere = Some("memory:///fast".to_owned());
    let said = |error| match error {
        Some(Error::LogElsewhere(url)) => Some(url),
        other => panic!("{other:?}"),
    };
    assert_eq!(said(open(&without).await.err()), elsewhere);
    assert_eq!(said(Store::open_offline(&without).await.err()), elsewhere);
    // An empty bucket, and one with the log of another store.
    let (empty, others) = (self::bucket(), self::bucket());
    let other = open(&place(&self::bucket(), Some((&others, 2)))).await.expect("it opens");
    crash(other).await;
    for wrong in [&empty, &others] {
        let wrong = place(&bucket, Some((wrong, 3)));
        let refused = open(&wrong).await.err();
        assert!(matches!(refused, Some(Error::OtherLog { .. })), "{refused:?}");
        let refused = Store::open_offline(&wrong).await.err();
        assert!(matches!(refused, Some(Error::OtherLog { .. })), "{refused:?}");
    }
    let store = open(&place(&bucket, Some((&log, 4)))).await.expect("it opens");
    assert_holds(&store.durable(), &["a"]).await;
}

#[tokio::test]
async fn a_store_with_its_log_beside_it_keeps_it_there() {
    let (bucket, log) = (bucket(), bucket());
    let store = open(&place(&bucket, None)).await.expect("it opens");
    write(&store, "a").await;
    crash(store).await;
    let refused = open(&place(&bucket, Some((&log, 1)))).await.err();
    assert!(matches!(refused, Some(Error::LogInStore(_))), "{refused:?}");
    let store = open(&place(&bucket, None)).await.expect("it opens");
    assert_holds(&store.durable(), &["a"]).await;
}

#[tokio::test]
async fn two_stores_do_not_share_a_log() {
    let (first, second, log) = (bucket(), bucket(), bucket());
    let store = open(&place(&first, Some((&log, 1)))).await.expect("it opens");
    write(&store, "a").await;
    // The same path in another bucket, where the log files would have the same names.
    let refused = open(&place(&second, Some((&log, 2)))).await.err();
    assert!(matches!(refused, Some(Error::LogOfAnother { .. })), "{refused:?}");
    write(&store, "b").await;
    crash(store).await;
}

/// A start that ended between its first two puts.
#[tokio::test]
async fn a_pair_that_was_half_made_is_made_whole() {
    let (bucket, log) = (bucket(), bucket());
    let half = place(&bucket, Some((&log, 1)));
    let log_place = half.log.as_ref().expect("it has a log");
    let pair = super::Pair {
        id: log_place.id,
        state_url: STATE_URL.to_owned(),
        log_url: log_place.url.clone(),
    };
    super::create(&log_place.store(), &half, &pair).await.expect("it is written");
    for _ in 0..2 {
        let store = open(&place(&bucket, Some((&log, 2)))).await.expect("it opens");
        crash(store).await;
    }
}

/// A start without a separate log has created the store while the pair was created. The second of
/// both detects the other.
#[tokio::test]
async fn a_store_that_was_made_without_a_log_meanwhile_is_not_opened_with_one() {
    let (bucket, log) = (bucket(), bucket());
    let with_log = place(&bucket, Some((&log, 1)));
    super::make(&with_log, with_log.log.as_ref().expect("a log")).await.expect("it is made");
    let without = slatedb::Db::open("state", Arc::clone(&bucket)).await.expect("it opens");
    without.close().await.expect("it closes");
    let refused = open(&with_log).await.err();
    assert!(matches!(refused, Some(Error::LogInStore(_))), "{refused:?}");
}

//! Tests that open stores with a log in another bucket, with right and with wrong settings.

use std::sync::Arc;

use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStore, ObjectStoreExt};
use uuid::Uuid;

use super::Log;
use crate::Store;
use crate::error::Error;
use crate::location::StoreLocation;
use crate::settings::Settings;
use crate::test_support::{assert_holds, crash, write};

const STATE_URL: &str = "memory:///state";

fn bucket() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

/// Returns the location of a store in a bucket, with its log in another bucket.
fn location(
    bucket: &Arc<dyn ObjectStore>,
    log: Option<(&Arc<dyn ObjectStore>, u128)>,
) -> StoreLocation {
    StoreLocation {
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

async fn open(location: &StoreLocation) -> Result<Store, Error> {
    Store::open(location, Settings::default()).await
}

#[tokio::test]
async fn separate_log_survives_crashes() {
    let (bucket, log) = (bucket(), bucket());
    // Each start proposes a different id. Only the id of the first start is used.
    for (start, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let location = location(&bucket, Some((&log, start as u128)));
        let store = open(&location).await.expect("the store opens");
        assert_holds(&store.durable(), &["a", "b", "c", "d"][..start]).await;
        write(&store, name).await;
        crash(store).await;
        let offline = Store::open_offline(&location).await.expect("it can be read");
        assert_holds(&offline, &["a", "b", "c", "d"][..=start]).await;
    }
    let beside = Path::from("state/wal/00000000000000000001.sst");
    assert!(bucket.head(&beside).await.is_err(), "no log is in the bucket of the store");
}

#[tokio::test]
async fn store_without_its_separate_log_is_rejected() {
    let (bucket, log) = (bucket(), bucket());
    let store = open(&location(&bucket, Some((&log, 1)))).await.expect("the store opens");
    write(&store, "a").await;
    crash(store).await;
    let without = location(&bucket, None);
    let elsewhere = Some("memory:///fast".to_owned());
    let reported_url = |error| match error {
        Some(Error::LogElsewhere(url)) => Some(url),
        other => panic!("{other:?}"),
    };
    assert_eq!(reported_url(open(&without).await.err()), elsewhere);
    assert_eq!(reported_url(Store::open_offline(&without).await.err()), elsewhere);
    // An empty bucket, and a bucket with the log of another store.
    let (empty, others) = (self::bucket(), self::bucket());
    let other =
        open(&location(&self::bucket(), Some((&others, 2)))).await.expect("the store opens");
    crash(other).await;
    for wrong in [&empty, &others] {
        let wrong = location(&bucket, Some((wrong, 3)));
        let failure = open(&wrong).await.err();
        assert!(matches!(failure, Some(Error::OtherLog { .. })), "{failure:?}");
        let failure = Store::open_offline(&wrong).await.err();
        assert!(matches!(failure, Some(Error::OtherLog { .. })), "{failure:?}");
    }
    let store = open(&location(&bucket, Some((&log, 4)))).await.expect("the store opens");
    assert_holds(&store.durable(), &["a"]).await;
}

#[tokio::test]
async fn log_of_an_existing_store_cannot_be_moved() {
    let (bucket, log) = (bucket(), bucket());
    let store = open(&location(&bucket, None)).await.expect("the store opens");
    write(&store, "a").await;
    crash(store).await;
    let error = open(&location(&bucket, Some((&log, 1)))).await.err();
    assert!(matches!(error, Some(Error::LogInStore(_))), "{error:?}");
    let store = open(&location(&bucket, None)).await.expect("the store opens");
    assert_holds(&store.durable(), &["a"]).await;
}

#[tokio::test]
async fn log_of_another_store_is_rejected() {
    let (first, second, log) = (bucket(), bucket(), bucket());
    let store = open(&location(&first, Some((&log, 1)))).await.expect("the store opens");
    write(&store, "a").await;
    // The store has the same path in another bucket, so its log files would have the same names.
    let error = open(&location(&second, Some((&log, 2)))).await.err();
    assert!(matches!(error, Some(Error::LogOfAnother { .. })), "{error:?}");
    write(&store, "b").await;
    crash(store).await;
}

/// The first start ended after it had written the object in the log, but before it had written the
/// object in the store.
#[tokio::test]
async fn incomplete_log_pair_is_completed() {
    let (bucket, log) = (bucket(), bucket());
    let unfinished = location(&bucket, Some((&log, 1)));
    let log_location = unfinished.log.as_ref().expect("it has a log");
    let pair = super::LogPair {
        id: log_location.id,
        state_url: STATE_URL.to_owned(),
        log_url: log_location.url.clone(),
    };
    super::create(&log_location.store(), &unfinished, &pair).await.expect("it is written");
    for _ in 0..2 {
        let store = open(&location(&bucket, Some((&log, 2)))).await.expect("the store opens");
        crash(store).await;
    }
}

/// One start creates a store without a separate log while another start creates the pair of
/// objects. The start with the separate log detects the store.
#[tokio::test]
async fn store_created_concurrently_without_a_log_is_rejected() {
    let (bucket, log) = (bucket(), bucket());
    let with_log = location(&bucket, Some((&log, 1)));
    super::create_pair(&with_log, with_log.log.as_ref().expect("a log"))
        .await
        .expect("the pair is created");
    let without = slatedb::Db::open("state", Arc::clone(&bucket)).await.expect("the store opens");
    without.close().await.expect("the store closes");
    let error = open(&with_log).await.err();
    assert!(matches!(error, Some(Error::LogInStore(_))), "{error:?}");
}

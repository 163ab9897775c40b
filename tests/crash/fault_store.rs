//! Tests of the faults themselves: a fault without effect would make other tests meaningless.

use std::time::Duration;

use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::support::bucket::bucket;
use crate::support::faults::{EVERYTHING, Fault, FaultStore, Verb};

#[tokio::test]
async fn each_injected_fault_has_its_effect() {
    let store = FaultStore::new(bucket());
    let (a, b) = (Path::from("a/1"), Path::from("b/1"));
    store.inject_times(Verb::Put, "a/", Fault::Fail, 1);
    assert!(store.put(&a, "x".into()).await.is_err(), "the put fails");
    assert!(store.get(&a).await.is_err(), "a failed put has no effect");
    store.inject_times(Verb::Put, "a/", Fault::LoseResponse, 1);
    assert!(store.put(&a, "x".into()).await.is_err(), "the response is lost");
    assert!(store.get(&a).await.is_ok(), "a put with a lost response takes effect");
    store.inject(Verb::Put, "a/", Fault::Hang);
    assert!(store.put(&b, "x".into()).await.is_ok(), "no rule matches this path");
    let hanging = store.put(&a, "y".into());
    let released = async {
        store.wait_for_requests(Verb::Put, "a/", 3).await;
        store.lift();
    };
    let (put, ()) = tokio::join!(hanging, released);
    assert!(put.is_ok(), "the put continues when the rule is removed");
    assert_eq!(store.count(Verb::Any, EVERYTHING), 6);
    store.kill();
    let dead = tokio::time::timeout(Duration::from_millis(20), store.get(&a)).await;
    assert!(dead.is_err(), "a dead process gets no response");
}

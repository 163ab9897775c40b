//! Tests of the faults themselves: a fault without effect would make other tests meaningless.

use std::time::Duration;

use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::support::bucket::bucket;
use crate::support::faults::{EVERYTHING, Fault, FaultStore, Verb};

#[tokio::test]
async fn each_fault_does_what_it_says() {
    let store = FaultStore::new(bucket());
    let (a, b) = (Path::from("a/1"), Path::from("b/1"));
    store.inject_times(Verb::Put, "a/", Fault::Fail, 1);
    assert!(store.put(&a, "x".into()).await.is_err(), "fails");
    assert!(store.get(&a).await.is_err(), "had no effect");
    store.inject_times(Verb::Put, "a/", Fault::LoseAnswer, 1);
    assert!(store.put(&a, "x".into()).await.is_err(), "the answer is lost");
    assert!(store.get(&a).await.is_ok(), "it took effect");
    store.inject(Verb::Put, "a/", Fault::Hang);
    assert!(store.put(&b, "x".into()).await.is_ok(), "no rule fits");
    let hanging = store.put(&a, "y".into());
    let released = async {
        store.arrived(Verb::Put, "a/", 3).await;
        store.lift();
    };
    let (put, ()) = tokio::join!(hanging, released);
    assert!(put.is_ok(), "goes on when the rule is lifted");
    assert_eq!(store.count(Verb::Any, EVERYTHING), 6);
    store.kill();
    let dead = tokio::time::timeout(Duration::from_millis(20), store.get(&a)).await;
    assert!(dead.is_err(), "a dead process gets no answer");
}

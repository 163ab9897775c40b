//! A writer that crashes, or loses its connection to the bucket, is replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use serde_json::json;

use crate::member::{LEASE, PAUSE, TestMember, member_settings, within, writer_and_standby};
use crate::support::bucket::bucket;
use crate::support::faults::{Fault, LOG, Verb};
use crate::support::fsck::assert_sound;

#[tokio::test]
async fn crash_of_the_writer_loses_no_acknowledged_change() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    let standby = Arc::new(standby);
    assert_eq!(standby.create_namespace("ns").await, 200);
    let stopped = Arc::new(AtomicBool::new(false));
    let load = {
        let (standby, stopped) = (Arc::clone(&standby), Arc::clone(&stopped));
        tokio::spawn(async move {
            let mut acknowledged = 0;
            while !stopped.load(Ordering::Relaxed) {
                let key = format!("k{acknowledged}");
                assert_eq!(standby.set_property("ns", &key, "v").await, 200, "{key}");
                acknowledged += 1;
            }
            acknowledged
        })
    };
    tokio::time::sleep(LEASE / 4).await;
    drop(writer);
    standby.wait_for_role("writer").await;
    tokio::time::sleep(LEASE / 4).await;
    stopped.store(true, Ordering::Relaxed);
    let acknowledged: usize = load.await.expect("every request is acknowledged");
    let properties = standby.properties("ns").await;
    assert_eq!(properties.as_object().map(serde_json::Map::len), Some(acknowledged));
    drop(standby);
    assert_sound(bucket).await;
}

#[tokio::test]
async fn isolated_writer_stops_to_respond_before_another_member_takes_over() {
    let bucket = bucket();
    let mut settings = member_settings("a");
    settings.cluster.forward_wait_ms = 1_000;
    let (old, new) = writer_and_standby(&bucket, settings).await;
    assert_eq!(new.create_namespace("ns").await, 200);
    old.isolate();
    new.wait_for_role("writer").await;
    assert_eq!(new.set_property("ns", "k", "new").await, 200);
    // The isolated writer still has its state in memory, but its lease has expired.
    let (status, body) = old.request(Method::GET, "/v1/namespaces/ns", None).await;
    assert_eq!(status, 503, "{body}");
    let (status, _) = old.request(Method::GET, "/health", None).await;
    assert_eq!(status, 200);
    old.reconnect();
    old.wait_for_role("standby").await;
    assert_eq!(old.properties("ns").await, json!({ "k": "new" }));
    assert_eq!(old.set_property("ns", "k", "newer").await, 200);
    assert_eq!(new.properties("ns").await, json!({ "k": "newer" }));
}

/// The log accepts the change, but the writer never sees the response and loses its lease.
#[tokio::test]
async fn change_whose_response_is_lost_is_executed_once() {
    let bucket = bucket();
    let (old, new) = writer_and_standby(&bucket, member_settings("a")).await;
    let new = Arc::new(new);
    for lost in [Fault::LoseResponse, Fault::Hang] {
        let name = format!("{lost:?}").to_lowercase();
        if new.ready().await == "writer" {
            break;
        }
        old.faults.inject(Verb::Put, LOG, lost);
        let creating = {
            let (new, name) = (Arc::clone(&new), name.clone());
            tokio::spawn(async move { new.create_namespace(&name).await })
        };
        tokio::time::sleep(PAUSE * 5).await;
        old.isolate();
        let status = creating.await.expect("no panic");
        assert_eq!(status, 200, "{name}: a second execution would get 409");
        let (status, _) = new.request(Method::GET, &format!("/v1/namespaces/{name}"), None).await;
        assert_eq!(status, 200);
    }
    drop(old);
    assert_sound(bucket).await;
}

#[tokio::test]
async fn request_waits_for_a_writer_and_then_gets_503() {
    let bucket = bucket();
    let mut settings = member_settings("learner");
    settings.cluster.eligible = false;
    settings.cluster.forward_wait_ms = 200;
    let learner = TestMember::start_with(&bucket, settings).await;
    within("the port is open", async || {
        learner.send(Method::GET, "/health", None).await.ok().map(|_| ())
    })
    .await;
    let (status, body) = learner.request(Method::GET, "/v1/namespaces", None).await;
    assert_eq!(status, 503, "{body}");
    assert_eq!(body["error"]["type"], "ServiceUnavailableException");
}

/// The writer may have executed the change, so a response must not say that it was rejected.
#[tokio::test]
async fn change_that_no_writer_confirms_has_an_unknown_outcome() {
    let bucket = bucket();
    let writer = TestMember::start(&bucket, "a").await;
    writer.wait_for_role("writer").await;
    let mut settings = member_settings("learner");
    settings.cluster.eligible = false;
    settings.cluster.forward_wait_ms = 2_000;
    let learner = Arc::new(TestMember::start_with(&bucket, settings).await);
    learner.wait_for_role("standby").await;
    writer.faults.inject(Verb::Put, LOG, Fault::LoseResponse);
    let creating = {
        let learner = Arc::clone(&learner);
        tokio::spawn(async move {
            let body = json!({ "namespace": ["ns"] });
            learner.request(Method::POST, "/v1/namespaces", Some(&body)).await
        })
    };
    tokio::time::sleep(PAUSE * 5).await;
    drop(writer);
    let (status, body) = creating.await.expect("no panic");
    assert_eq!((status, &body["error"]["type"]), (500, &json!("CommitStateUnknownException")));
    let next = TestMember::start(&bucket, "b").await;
    next.wait_for_role("writer").await;
    let (status, _) = next.request(Method::GET, "/v1/namespaces/ns", None).await;
    assert_eq!(status, 200, "the change was executed");
}

#[tokio::test]
async fn short_outage_of_the_bucket_changes_no_role() {
    let bucket = bucket();
    // Even on a busy machine, the outages are much shorter than the lease.
    let with_lease = |name| {
        let mut settings = member_settings(name);
        settings.cluster.lease_ms = 8 * LEASE.as_millis() as u64;
        settings
    };
    let writer = TestMember::start_with(&bucket, with_lease("a")).await;
    writer.wait_for_role("writer").await;
    let standby = TestMember::start_with(&bucket, with_lease("b")).await;
    standby.wait_for_role("standby").await;
    assert_eq!(standby.create_namespace("ns").await, 200);
    for _ in 0..3 {
        for member in [&writer, &standby] {
            member.faults.inject(Verb::Any, "cluster/", Fault::Fail);
        }
        tokio::time::sleep(LEASE / 3).await;
        for member in [&writer, &standby] {
            member.reconnect();
        }
        tokio::time::sleep(LEASE / 3).await;
    }
    assert_eq!((writer.ready().await, standby.ready().await), ("writer".into(), "standby".into()));
    assert_eq!(standby.properties("ns").await, json!({}));
}

/// The client is connected to the writer itself, so no other member can repeat its request.
#[tokio::test]
async fn change_in_progress_at_a_deposed_writer_is_executed_by_the_next_writer() {
    let bucket = bucket();
    let mut settings = member_settings("a");
    // The change fails after the lease has expired.
    settings.catalog.commit_deadline_ms = 2 * LEASE.as_millis() as u64;
    let (old, new) = writer_and_standby(&bucket, settings).await;
    let old = Arc::new(old);
    assert_eq!(new.create_namespace("before").await, 200);
    old.isolate();
    let creating = {
        let old = Arc::clone(&old);
        tokio::spawn(async move { old.create_namespace("ns").await })
    };
    new.wait_for_role("writer").await;
    old.reconnect();
    assert_eq!(creating.await.expect("no panic"), 200);
    let (status, _) = new.request(Method::GET, "/v1/namespaces/ns", None).await;
    assert_eq!(status, 200);
    drop(old);
    drop(new);
    assert_sound(bucket).await;
}

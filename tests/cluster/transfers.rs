//! A writer that stops in order hands over to another member.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use crate::member::{
    LEASE, TestMember, member_settings, settings_with_long_lease, within, writer_and_standby,
};
use crate::support::bucket::bucket;
use crate::support::fsck::assert_sound;

#[tokio::test]
async fn stop_of_the_writer_refuses_no_request_to_another_member() {
    let bucket = bucket();
    let (mut writer, client) = writer_and_standby(&bucket, member_settings("a")).await;
    let client = Arc::new(client);
    assert_eq!(client.create_namespace("ns").await, 200);
    let (stopped, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = {
        let (client, stopped) = (Arc::clone(&client), Arc::clone(&stopped));
        let acknowledged = Arc::clone(&acknowledged);
        tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                let key = format!("k{}", acknowledged.load(Ordering::Relaxed));
                assert_eq!(client.set_property("ns", &key, "v").await, 200, "{key}");
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    // Rolling restart: each round starts a new member, and stops the writer.
    for round in 0..3 {
        let next = TestMember::start(&bucket, &format!("next-{round}")).await;
        next.ready().await;
        let before = acknowledged.load(Ordering::Relaxed);
        writer.stop().await;
        within("changes after the stop", async || {
            (acknowledged.load(Ordering::Relaxed) > before + 5).then_some(())
        })
        .await;
        writer = next;
        if client.ready().await == "writer" {
            break;
        }
    }
    stopped.store(true, Ordering::Relaxed);
    load.await.expect("no request is refused");
    let properties = client.properties("ns").await;
    let count = properties.as_object().map(serde_json::Map::len);
    assert_eq!(count, Some(acknowledged.load(Ordering::Relaxed)));
    drop((writer, client));
    assert_sound(bucket).await;
}

#[tokio::test]
async fn last_member_that_stops_releases_the_lease() {
    let bucket = bucket();
    let first = TestMember::start_with(&bucket, settings_with_long_lease("a")).await;
    first.wait_for_role("writer").await;
    assert_eq!(first.create_namespace("ns").await, 200);
    first.stop().await;
    let second = TestMember::start_with(&bucket, settings_with_long_lease("b")).await;
    second.wait_for_role("writer").await;
    assert_eq!(second.properties("ns").await, json!({}));
}

#[tokio::test]
async fn member_that_is_not_eligible_never_becomes_the_writer() {
    let bucket = bucket();
    let mut settings = member_settings("learner");
    settings.cluster.eligible = false;
    let learner = TestMember::start_with(&bucket, settings).await;
    tokio::time::sleep(LEASE * 2).await;
    let response = learner.send(reqwest::Method::GET, "/ready", None).await.expect("it responds");
    assert_eq!(response.status().as_u16(), 503);
    let writer = TestMember::start(&bucket, "a").await;
    writer.wait_for_role("writer").await;
    assert_eq!(learner.create_namespace("ns").await, 200);
}

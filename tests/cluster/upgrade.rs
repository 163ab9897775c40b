//! Members of two versions, of which the newer one would raise the format of the store.

use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use reqwest::Method;
use serde_json::Value;

use crate::member::{LEASE, TestMember, program, within, writer_record};
use crate::support::bucket::bucket;

const OLD: u32 = 1;
const NEW: u32 = 2;
/// More than the interval at which a newer member looks for older ones.
const SEARCHED: Duration = Duration::from_secs(3);

/// Starts the writer `a` of the old version, and a standby of each version.
async fn writer_and_standbys(
    bucket: &Arc<dyn ObjectStore>,
) -> (TestMember, TestMember, TestMember) {
    let writer = TestMember::start_reading(bucket, "a", OLD).await;
    writer.wait_for_role("writer").await;
    let older = TestMember::start_reading(bucket, "older", OLD).await;
    let newer = TestMember::start_reading(bucket, "newer", NEW).await;
    for member in [&older, &newer] {
        member.wait_for_role("standby").await;
    }
    (writer, older, newer)
}

async fn status(member: &TestMember) -> Value {
    let (status, body) = member.request(Method::GET, "/management/v1/cluster", None).await;
    assert_eq!(status, 200, "{body}");
    body
}

#[tokio::test]
async fn newer_member_leaves_the_term_to_an_older_one() {
    let bucket = bucket();
    let (writer, older, newer) = writer_and_standbys(&bucket).await;
    tokio::time::sleep(SEARCHED).await;
    // For a while, only the newer member could take over.
    older.isolate();
    drop(writer);
    tokio::time::sleep(LEASE * 2).await;
    assert_eq!(writer_record(&bucket).await["holder"]["name"], "a");
    older.reconnect();
    older.wait_for_role("writer").await;
    assert_eq!(newer.create_namespace("ns").await, 200);
}

#[tokio::test]
async fn newer_member_takes_over_if_no_older_one_responds() {
    let bucket = bucket();
    let (writer, older, newer) = writer_and_standbys(&bucket).await;
    drop((writer, older));
    newer.wait_for_role("writer").await;
    // Its successors do not raise the format further.
    let next = TestMember::start_reading(&bucket, "next", NEW).await;
    next.wait_for_role("standby").await;
    let older = TestMember::start_reading(&bucket, "older", OLD).await;
    older.wait_for_role("standby").await;
    older.isolate();
    drop(newer);
    next.wait_for_role("writer").await;
}

#[tokio::test]
async fn newer_member_takes_over_if_older_ones_respond_and_do_not_take_over() {
    let bucket = bucket();
    let (writer, older, newer) = writer_and_standbys(&bucket).await;
    tokio::time::sleep(SEARCHED).await;
    older.isolate();
    drop(writer);
    tokio::time::sleep(LEASE * 4).await;
    assert_eq!(writer_record(&bucket).await["holder"]["name"], "a");
    newer.wait_for_role("writer").await;
    assert_eq!(newer.create_namespace("ns").await, 200);
}

#[tokio::test]
async fn finalize_makes_a_newer_member_the_writer() {
    let bucket = bucket();
    let (writer, older, newer) = writer_and_standbys(&bucket).await;
    let text = program(&older, &["cluster", "finalize"]).await;
    assert!(text.starts_with("transferred the writer from 'a' to 'newer'"), "{text}");
    let before = status(&newer).await;
    assert_eq!(before["is-upgraded"], false, "{before}");
    let text = program(&newer, &["cluster", "finalize"]).await;
    assert_eq!(text, "no member has a newer version than the writer 'newer'\n");
    writer.stop().await;
    older.stop().await;
    within("the upgrade is complete", async || {
        (status(&newer).await["is-upgraded"] == true).then_some(())
    })
    .await;
}

//! Standbys execute reads although the writer has crashed or does not reach them.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use slateberg_config::cluster::WithoutBucket;

use crate::member::{LEASE, TestMember, member_settings, settings_with_long_lease, within};
use crate::relay::Relay;
use crate::support::bucket::bucket;
use crate::support::faults::{Fault, LOG, METADATA_FILES, Verb};
use crate::support::table::{create_table, set_property};

const LOG_READS: &str = "slateberg_cluster_log_reads_total";
const STALENESS: &str = "x-slateberg-staleness-ms";
/// Time for which a read that has to wait is observed.
const WAIT: Duration = Duration::from_secs(3);
const TABLE: &str = "/v1/namespaces/ns/tables/t";

/// A writer that other members reach through a relay, and a standby. The standby does not take over,
/// because the lease of the writer is long.
async fn writer_behind_a_relay() -> (TestMember, Relay, TestMember) {
    let bucket = bucket();
    let mut settings = settings_with_long_lease("a");
    let relay = Relay::in_front_of(&mut settings).await;
    let writer = TestMember::start_with(&bucket, settings).await;
    writer.wait_for_role("writer").await;
    let standby = TestMember::start(&bucket, "b").await;
    standby.wait_for_replica().await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    let body = create_table("t");
    let (status, body) =
        writer.request(Method::POST, "/v1/namespaces/ns/tables", Some(&body)).await;
    assert_eq!(status, 200, "{body}");
    (writer, relay, standby)
}

async fn set_table_property(member: &TestMember, value: &str) -> (u16, Value) {
    let body = json!({ "requirements": [], "updates": [set_property("k", value)] });
    member.request(Method::POST, TABLE, Some(&body)).await
}

/// Returns the property of the table, as a member shows it.
async fn property(member: &TestMember) -> Value {
    let (status, table) = member.request(Method::GET, TABLE, None).await;
    assert_eq!(status, 200, "{table}");
    table["metadata"]["properties"]["k"].clone()
}

#[tokio::test]
async fn standby_executes_reads_after_a_crash_of_the_writer() {
    let (writer, relay, standby) = writer_behind_a_relay().await;
    for number in 0..10 {
        let value = number.to_string();
        assert_eq!(set_table_property(&writer, &value).await.0, 200);
        assert_eq!(property(&standby).await, json!(value));
    }
    relay.cut();
    drop(writer);
    for _ in 0..3 {
        assert_eq!(property(&standby).await, json!("9"));
    }
    assert!(standby.metric(LOG_READS).await > 0);
    let (status, body) = set_table_property(&standby, "new").await;
    assert!(status >= 500, "{status} {body}");
}

#[tokio::test]
async fn standby_of_a_silent_writer_executes_reads() {
    let (writer, relay, standby) = writer_behind_a_relay().await;
    assert_eq!(set_table_property(&writer, "v").await.0, 200);
    assert_eq!(property(&standby).await, json!("v"));
    relay.freeze();
    assert_eq!(property(&standby).await, json!("v"));
    assert!(standby.metric(LOG_READS).await > 0);
}

#[tokio::test]
async fn standby_that_cannot_reach_the_writer_sees_all_acknowledged_changes() {
    let (writer, relay, standby) = writer_behind_a_relay().await;
    relay.cut();
    for number in 0..10 {
        let value = number.to_string();
        assert_eq!(set_table_property(&writer, &value).await.0, 200);
        assert_eq!(property(&standby).await, json!(value));
    }
    assert!(standby.metric(LOG_READS).await > 0);
    let name = "created-during-the-cut";
    writer.create_warehouse(name).await;
    let path = format!("/v1/config?warehouse={name}");
    let (status, config) = standby.request(Method::GET, &path, None).await;
    assert_eq!(status, 200, "{config}");
    relay.mend();
    within("the standby reaches the writer", async || {
        (set_table_property(&standby, "mended").await.0 == 200).then_some(())
    })
    .await;
    assert_eq!(property(&writer).await, json!("mended"));
    within("the writer sends its changes again", async || {
        let before = standby.metric(LOG_READS).await;
        assert_eq!(property(&standby).await, json!("mended"));
        (standby.metric(LOG_READS).await == before).then_some(())
    })
    .await;
}

/// The log contains the change, but the writer does not know this, and still shows the old state.
#[tokio::test]
async fn standby_does_not_show_a_change_that_the_writer_does_not_know() {
    let (writer, relay, standby) = writer_behind_a_relay().await;
    assert_eq!(set_table_property(&writer, "old").await.0, 200);
    assert_eq!(property(&standby).await, json!("old"));
    writer.faults.inject_times(Verb::Put, LOG, Fault::LoseResponse, 1);
    // The repetition of the put.
    writer.faults.inject(Verb::Put, LOG, Fault::Hang);
    let puts = writer.faults.count(Verb::Put, LOG);
    let changing = set_table_property(&writer, "new");
    let reading = async {
        writer.faults.wait_for_requests(Verb::Put, LOG, puts + 1).await;
        relay.cut();
        let read = tokio::time::timeout(WAIT, standby.request(Method::GET, TABLE, None)).await;
        assert!(read.is_err(), "{read:?}");
        assert!(standby.metric(LOG_READS).await > 0);
        assert_eq!(property(&writer).await, json!("old"));
        writer.faults.lift();
        assert_eq!(property(&standby).await, json!("new"));
    };
    let ((), (status, _)) = tokio::join!(reading, changing);
    assert!(status == 200 || status >= 500, "{status}");
}

#[tokio::test]
async fn standby_shows_no_table_whose_metadata_file_is_missing() {
    let (writer, _relay, standby) = writer_behind_a_relay().await;
    assert_eq!(set_table_property(&writer, "old").await.0, 200);
    assert_eq!(property(&standby).await, json!("old"));
    writer.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    let files = writer.faults.count(Verb::Put, METADATA_FILES);
    let changing = set_table_property(&writer, "new");
    let crash = async {
        writer.faults.wait_for_requests(Verb::Put, METADATA_FILES, files + 1).await;
        // This change settles the other one.
        assert_eq!(writer.set_property("ns", "k", "v").await, 200);
        assert_eq!(standby.properties("ns").await, json!({ "k": "v" }));
    };
    tokio::select! {
        () = crash => {}
        changed = changing => panic!("the change has a response: {changed:?}"),
    }
    drop(writer);
    assert_eq!(standby.properties("ns").await, json!({ "k": "v" }));
    let reading = standby.request(Method::GET, TABLE, None);
    let read = tokio::time::timeout(WAIT, reading).await;
    assert!(read.is_err(), "{read:?}");
}

/// Starts a writer and a standby with a replica, and separates both from the bucket.
async fn cluster_without_bucket(without_bucket: WithoutBucket) -> (TestMember, TestMember) {
    let bucket = bucket();
    let start = async |name| {
        let mut settings = member_settings(name);
        settings.cluster.without_bucket = without_bucket;
        settings.cluster.forward_wait_ms = 1_000;
        TestMember::start_with(&bucket, settings).await
    };
    let writer = start("a").await;
    writer.wait_for_role("writer").await;
    let standby = start("b").await;
    standby.wait_for_replica().await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    assert_eq!(standby.properties("ns").await, json!({}));
    writer.isolate();
    standby.isolate();
    (writer, standby)
}

/// Returns the status of a read, and the age of its state.
async fn read(member: &TestMember) -> (u16, Option<u64>) {
    let response = member.send(Method::GET, "/v1/namespaces/ns", None).await.expect("it responds");
    let age = response.headers().get(STALENESS);
    let age = age.map(|age| age.to_str().expect("text").parse().expect("a number"));
    (response.status().as_u16(), age)
}

#[tokio::test]
async fn cluster_without_bucket_rejects_reads_by_default() {
    let (writer, standby) = cluster_without_bucket(WithoutBucket::default()).await;
    for member in [&writer, &standby] {
        within("the lease ends", async || (read(member).await == (503, None)).then_some(())).await;
    }
}

#[tokio::test]
async fn cluster_without_bucket_can_respond_with_old_state() {
    let (writer, standby) = cluster_without_bucket(WithoutBucket::Stale).await;
    let lease_ms = u64::try_from(LEASE.as_millis()).expect("it is short");
    for member in [&writer, &standby] {
        let age_ms = within("the lease ends", async || {
            let (status, age) = read(member).await;
            age.filter(|_| status == 200)
        })
        .await;
        assert!(age_ms >= lease_ms / 2, "{age_ms}");
        let (status, body) = member
            .request(Method::POST, "/v1/namespaces", Some(&json!({ "namespace": ["n"] })))
            .await;
        assert!(status >= 500, "{status} {body}");
    }
    writer.reconnect();
    standby.reconnect();
    for member in [&writer, &standby] {
        within("the state is current", async || (read(member).await == (200, None)).then_some(()))
            .await;
    }
}

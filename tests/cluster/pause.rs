//! Pauses of a cluster, by the management API and by the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use object_store::ObjectStore;
use object_store::path::Path;
use reqwest::Method;
use serde_json::{Value, json};
use slateberg::app::App;
use slateberg_base::progress::Progress;
use slateberg_objects::open::Opened;
use slateberg_runtime::cluster::{RecordSigner, ResumeError, WriterRegister, resume};
use slateberg_runtime::error::BuildError;
use slateberg_runtime::fsck::fsck;

use crate::member::{
    LEASE, TIMEOUT, TestMember, member_settings, program, settings_with_long_lease, within,
    writer_and_standby, writer_record,
};
use crate::support::app::memory_settings;
use crate::support::bucket::{bucket, fresh_id};
use crate::support::faults::{Fault, Verb};
use crate::support::fsck::assert_sound;
use crate::support::offline::{dependencies, restore};

const PAUSE: &str = "/management/v1/cluster/pause";
const CLUSTER: &str = "/management/v1/cluster";
const REGISTER: &str = "cluster/writer.json";
/// Much less than the time for which a change waits for a writer.
const AT_ONCE: Duration = Duration::from_secs(5);
const WRITING_CLIENTS: usize = 4;

/// Starts a pause through a member.
async fn begin_pause(member: &TestMember) {
    let (status, started) = member.request(Method::POST, PAUSE, None).await;
    assert_eq!(status, 202, "{started}");
}

/// Returns the status of a member's `GET /ready`, while it is ready.
async fn ready_status(member: &TestMember) -> Option<Value> {
    let (status, body) = member.request(Method::GET, "/ready", None).await;
    (status == 200).then(|| body["status"].clone())
}

async fn wait_for_pause(member: &TestMember) {
    within("the cluster is paused", async || {
        (ready_status(member).await? == "paused").then_some(())
    })
    .await;
}

/// Ends the pause, as the command does.
async fn end_pause(bucket: &Arc<dyn ObjectStore>) -> Result<(), ResumeError> {
    let opened = Opened {
        object_store: Arc::clone(bucket),
        path: Path::from("state"),
        conditional_update: true,
        directory: None,
        is_remote: false,
    };
    let signer = RecordSigner::new(None).expect("it needs no key");
    let register = WriterRegister::open(&opened, &signer, TIMEOUT);
    resume(&register, fresh_id).await.map(|_| ())
}

/// Ends the pause, and waits until these members have noticed the end.
async fn end_pause_of(bucket: &Arc<dyn ObjectStore>, members: &[&TestMember]) {
    end_pause(bucket).await.expect("it ends");
    for member in members {
        within("the pause ends", async || (ready_status(member).await? != "paused").then_some(()))
            .await;
    }
}

/// Asserts that a member rejects a change because of the pause, without waiting for a writer.
async fn assert_rejects_changes(member: &TestMember) {
    let began = Instant::now();
    let body = json!({ "updates": { "k": "during the pause" } });
    let path = "/v1/namespaces/ns/properties";
    let rejection = member.send(Method::POST, path, Some(&body)).await.expect("it responds");
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert_eq!(rejection.status(), 503);
    assert!(rejection.headers().contains_key("retry-after"));
    let error: Value = rejection.json().await.expect("JSON");
    assert_eq!(error["error"]["type"], "ClusterPausedException");
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("slateberg cluster resume"), "{message}");
}

#[tokio::test]
async fn paused_cluster_executes_reads_and_rejects_changes() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, settings_with_long_lease("a")).await;
    standby.wait_for_replica().await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    assert_eq!(standby.set_property("ns", "k", "v").await, 200);
    begin_pause(&standby).await;
    for member in [&writer, &standby] {
        wait_for_pause(member).await;
        assert_eq!(member.properties("ns").await, json!({ "k": "v" }));
        assert_rejects_changes(member).await;
        assert_eq!(member.metric("slateberg_cluster_paused").await, 1);
        let (code, status) = member.request(Method::GET, CLUSTER, None).await;
        assert_eq!((code, &status["state"]), (200, &json!("paused")), "{status}");
        assert_eq!(status["writer"], Value::Null);
        let roles = status["members"].as_array().expect("members").iter().map(|it| &it["role"]);
        assert_eq!(roles.collect::<Vec<_>>(), ["standby", "standby"]);
    }
    let record = writer_record(&bucket).await;
    assert_eq!((&record["state"], &record["format"]), (&json!("paused"), &json!(2)));
    end_pause_of(&bucket, &[&writer, &standby]).await;
    assert_eq!(writer_record(&bucket).await["format"], 1);
    assert_eq!(standby.set_property("ns", "k", "after").await, 200);
    for member in [&writer, &standby] {
        assert_eq!(member.properties("ns").await, json!({ "k": "after" }));
        assert_eq!(member.metric("slateberg_cluster_paused").await, 0);
    }
    let (_, history) = standby.request(Method::GET, "/management/v1/history", None).await;
    let entries = history["entries"].as_array().expect("entries").iter();
    let pauses = entries.filter(|change| change["action"] == "pause_cluster");
    assert_eq!(pauses.map(|it| &it["name"]).collect::<Vec<_>>(), ["a"], "{history}");
    drop((writer, standby));
    assert_sound(bucket).await;
}

#[tokio::test]
async fn pause_outlasts_all_members() {
    let bucket = bucket();
    let first = TestMember::start(&bucket, "a").await;
    first.wait_for_role("writer").await;
    assert_eq!(first.create_namespace("ns").await, 200);
    begin_pause(&first).await;
    wait_for_pause(&first).await;
    let record = writer_record(&bucket).await;
    first.stop().await;
    let second = TestMember::start(&bucket, "b").await;
    wait_for_pause(&second).await;
    tokio::time::sleep(LEASE * 2).await;
    assert_eq!(writer_record(&bucket).await, record);
    assert_eq!(second.properties("ns").await, json!({}));
    assert_rejects_changes(&second).await;
    end_pause(&bucket).await.expect("it ends");
    second.wait_for_role("writer").await;
    assert_eq!(second.set_property("ns", "k", "v").await, 200);
    let again = end_pause(&bucket).await;
    assert!(matches!(again, Err(ResumeError::NotPaused(Some(_)))), "{again:?}");
}

#[tokio::test]
async fn resume_without_a_cluster_is_rejected() {
    let missing = end_pause(&bucket()).await;
    assert!(matches!(missing, Err(ResumeError::NotPaused(None))), "{missing:?}");
}

#[tokio::test]
async fn member_without_a_replica_rejects_all_requests_at_once() {
    let bucket = bucket();
    let mut settings = member_settings("a");
    settings.cluster.local_reads = false;
    let member = TestMember::start_with(&bucket, settings).await;
    member.wait_for_role("writer").await;
    assert_eq!(member.create_namespace("ns").await, 200);
    begin_pause(&member).await;
    wait_for_pause(&member).await;
    let began = Instant::now();
    let (status, body) = member.request(Method::GET, "/v1/namespaces/ns", None).await;
    assert_eq!((status, &body["error"]["type"]), (503, &json!("ClusterPausedException")), "{body}");
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn program_waits_for_the_pause_and_names_the_end_of_it() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    for begins in
        ["paused the cluster: the writer 'a' has closed the store", "the cluster was paused"]
    {
        let text = program(&standby, &["cluster", "pause"]).await;
        assert!(text.starts_with(begins) && text.contains("slateberg cluster resume"), "{text}");
        assert_eq!(writer_record(&bucket).await["state"], "paused");
    }
    end_pause_of(&bucket, &[&writer]).await;
    assert_eq!(writer.create_namespace("ns").await, 200);
}

/// Sets properties until the cluster rejects a change. Returns the number of acknowledged changes.
async fn write(members: Arc<[TestMember; 2]>, client: usize, stopped: Arc<AtomicBool>) -> usize {
    let mut acknowledged = 0;
    while !stopped.load(Ordering::Relaxed) {
        let member = &members[acknowledged % members.len()];
        let (namespace, key) = (format!("ns{client}"), format!("k{acknowledged}"));
        match member.set_property(&namespace, &key, "v").await {
            200 => acknowledged += 1,
            503 => break,
            status => panic!("{status} for a change of client {client}"),
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pause_under_load_completes_or_rejects_each_change() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, settings_with_long_lease("a")).await;
    for client in 0..WRITING_CLIENTS {
        assert_eq!(writer.create_namespace(&format!("ns{client}")).await, 200);
    }
    let (members, stopped) = (Arc::new([writer, standby]), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..WRITING_CLIENTS)
        .map(|client| tokio::spawn(write(Arc::clone(&members), client, Arc::clone(&stopped))))
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    begin_pause(&members[1]).await;
    wait_for_pause(&members[0]).await;
    let expired = tokio::time::sleep(AT_ONCE);
    tokio::spawn(async move {
        expired.await;
        stopped.store(true, Ordering::Relaxed);
    });
    for (client, writing) in clients.into_iter().enumerate() {
        let acknowledged = writing.await.expect("each change is completed or rejected");
        assert!(acknowledged > 0, "client {client}");
        for member in &*members {
            let properties = member.properties(&format!("ns{client}")).await;
            let found = properties.as_object().map(serde_json::Map::len);
            assert_eq!(found, Some(acknowledged), "the changes of client {client}");
        }
    }
    drop(members);
    assert_sound(bucket).await;
}

/// The outcome of a pause during which the writer crashed, after it has become final.
async fn outcome(bucket: &Arc<dyn ObjectStore>, standby: &TestMember) -> Value {
    let status = within("the cluster is paused or has a writer", async || {
        let status = ready_status(standby).await?;
        let record = writer_record(bucket).await;
        (status == "paused" || record["holder"]["name"] == "b").then_some(status)
    })
    .await;
    let record = writer_record(bucket).await;
    tokio::time::sleep(LEASE * 2).await;
    let later = writer_record(bucket).await;
    assert_eq!(later["state"] == "paused", status == "paused", "{later}");
    assert!(status != "paused" || later == record, "{record} was replaced by {later}");
    status
}

#[tokio::test]
async fn writer_that_crashes_at_any_moment_of_a_pause_has_paused_the_cluster_or_not() {
    for delay_ms in [0, 5, 20, 50, 200] {
        let bucket = bucket();
        let (writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
        assert_eq!(writer.create_namespace("ns").await, 200);
        begin_pause(&writer).await;
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        drop(writer);
        if outcome(&bucket, &standby).await == "paused" {
            assert_eq!(standby.properties("ns").await, json!({}));
            assert_rejects_changes(&standby).await;
            end_pause_of(&bucket, &[&standby]).await;
        }
        assert_eq!(standby.set_property("ns", "k", "v").await, 200, "after {delay_ms} ms");
    }
}

#[tokio::test]
async fn writer_that_crashes_before_it_writes_the_pause_is_replaced() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    writer.faults.inject(Verb::Put, REGISTER, Fault::Hang);
    begin_pause(&writer).await;
    tokio::time::sleep(LEASE / 4).await;
    drop(writer);
    assert_ne!(outcome(&bucket, &standby).await, "paused");
    standby.wait_for_role("writer").await;
    assert_eq!(standby.set_property("ns", "k", "v").await, 200);
}

#[tokio::test]
async fn pause_whose_response_is_lost_is_a_pause() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, member_settings("a")).await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    writer.faults.inject(Verb::Put, REGISTER, Fault::LoseResponse);
    begin_pause(&writer).await;
    within("the record is written", async || {
        (writer_record(&bucket).await["state"] == "paused").then_some(())
    })
    .await;
    assert_eq!(outcome(&bucket, &standby).await, "paused");
    wait_for_pause(&writer).await;
}

#[tokio::test]
async fn paused_state_is_open_to_maintenance_but_to_no_server() {
    let bucket = bucket();
    let (writer, standby) = writer_and_standby(&bucket, settings_with_long_lease("a")).await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    let checkpoint = json!({ "name": "before" });
    let path = "/management/v1/checkpoints";
    let (status, created) = writer.request(Method::POST, path, Some(&checkpoint)).await;
    assert_eq!(status, 201, "{created}");
    assert_eq!(writer.set_property("ns", "k", "later").await, 200);
    begin_pause(&writer).await;
    wait_for_pause(&standby).await;
    let rejection = App::build(memory_settings(), dependencies(&bucket)).await;
    let rejection = rejection.err().expect("the cluster is paused");
    assert!(matches!(rejection, BuildError::Paused { .. }), "{rejection}");
    assert!(rejection.to_string().contains("slateberg cluster resume"), "{rejection}");
    let checked = fsck(&memory_settings(), &dependencies(&bucket), &Progress::default()).await;
    assert_eq!(checked.expect("it is checked").findings(), Vec::<String>::new());
    writer.stop().await;
    standby.stop().await;
    restore(&bucket, &memory_settings(), "before").await.expect("it is restored");
    assert_eq!(writer_record(&bucket).await["state"], "paused");
    let member = TestMember::start(&bucket, "c").await;
    wait_for_pause(&member).await;
    assert_eq!(member.properties("ns").await, json!({}));
    end_pause_of(&bucket, &[&member]).await;
    assert_eq!(member.set_property("ns", "k", "v").await, 200);
}

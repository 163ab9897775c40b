//! Planned transfers of the writer, through the management API and under load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::member::{
    TIMEOUT, TestMember, member_settings, settings_with_long_lease, within, writer_and_standby,
    writer_record,
};
use crate::support::bucket::bucket;
use crate::support::faults::{Fault, Verb};
use crate::support::fsck::assert_sound;

const CLUSTER: &str = "/management/v1/cluster";
const TRANSFERS: usize = 20;
const WRITING_CLIENTS: usize = 6;
const READING_CLIENTS: usize = 3;

async fn status(member: &TestMember) -> Value {
    let (status, body) = member.request(Method::GET, CLUSTER, None).await;
    assert_eq!(status, 200, "{body}");
    body
}

/// Transfers the writer, and returns its new term.
async fn transfer(member: &TestMember, to: Option<&str>) -> u64 {
    let body = json!({ "member": to });
    let path = format!("{CLUSTER}/transfer");
    let (code, started) = member.request(Method::POST, &path, Some(&body)).await;
    assert_eq!(code, 202, "{started}");
    let (term, to) = (started["term"].as_u64().expect("a term"), &started["successor"]);
    within("the term of the successor", async || {
        let status = status(member).await;
        let is_over = status["term"].as_u64() > Some(term);
        assert!(!is_over || status["writer"] == *to, "{status}");
        is_over.then_some(term + 1)
    })
    .await
}

#[tokio::test]
async fn writer_is_transferred_to_the_chosen_member() {
    let bucket = bucket();
    let (first, second) = writer_and_standby(&bucket, member_settings("a")).await;
    assert_eq!(first.create_namespace("ns").await, 200);
    let before = status(&second).await;
    let members: BTreeMap<_, _> = before["members"]
        .as_array()
        .expect("members")
        .iter()
        .map(|member| (member["name"].as_str().expect("a name"), &member["role"]))
        .collect();
    assert_eq!(members, [("a", &json!("writer")), ("b", &json!("standby"))].into());
    let term = transfer(&first, Some("b")).await;
    assert_eq!(term, before["term"].as_u64().expect("a term") + 1);
    second.wait_for_role("writer").await;
    first.wait_for_role("standby").await;
    assert_eq!(first.set_property("ns", "k", "v").await, 200);
    assert_eq!(second.properties("ns").await, json!({ "k": "v" }));
    let (_, history) = first.request(Method::GET, "/management/v1/history", None).await;
    let actions = history["entries"].as_array().expect("entries").iter();
    let transfers = actions.filter(|change| change["action"] == "transfer_writer");
    assert_eq!(transfers.count(), 1, "{history}");
}

#[tokio::test]
async fn transfer_that_cannot_succeed_is_rejected_and_changes_nothing() {
    let bucket = bucket();
    let writer = TestMember::start(&bucket, "a").await;
    writer.wait_for_role("writer").await;
    let path = format!("{CLUSTER}/transfer");
    let rejection = async |body: Value| writer.request(Method::POST, &path, Some(&body)).await;
    assert_eq!(rejection(json!({})).await.0, 503, "there is no other member");
    let mut settings = member_settings("learner");
    settings.cluster.eligible = false;
    let learner = TestMember::start_with(&bucket, settings).await;
    learner.wait_for_role("standby").await;
    let crashed = TestMember::start(&bucket, "crashed").await;
    crashed.wait_for_role("standby").await;
    drop(crashed);
    let before = status(&writer).await;
    for (member, code) in [("learner", 400), ("a", 400), ("nobody", 404), ("crashed", 503)] {
        let (status, body) = rejection(json!({ "member": member })).await;
        assert_eq!(status, code, "{member}: {body}");
    }
    assert_eq!(rejection(json!({ "node": "b" })).await.0, 400, "an unknown member of the body");
    assert_eq!(status(&writer).await["term"], before["term"]);
    assert_eq!(writer.create_namespace("ns").await, 200);
    let (_, history) = writer.request(Method::GET, "/management/v1/history", None).await;
    assert!(!history.to_string().contains("transfer_writer"), "{history}");
}

/// The counts of one client.
#[derive(Default)]
struct Counts {
    acknowledged: usize,
    reads: usize,
    longest: Duration,
}

async fn write(members: Arc<[TestMember; 3]>, client: usize, stopped: Arc<AtomicBool>) -> Counts {
    let mut counts = Counts::default();
    while !stopped.load(Ordering::Relaxed) {
        let number = counts.acknowledged;
        let member = &members[(client + number) % members.len()];
        let began = Instant::now();
        let key = format!("k{number}");
        let status = member.set_property(&format!("ns{client}"), &key, "v").await;
        assert_eq!(status, 200, "the change {key} of client {client}");
        counts.longest = counts.longest.max(began.elapsed());
        counts.acknowledged += 1;
    }
    counts
}

/// Reads the namespace of a writing client. The number of properties never goes down.
async fn read(members: Arc<[TestMember; 3]>, client: usize, stopped: Arc<AtomicBool>) -> Counts {
    let (mut counts, mut seen) = (Counts::default(), 0);
    while !stopped.load(Ordering::Relaxed) {
        let member = &members[(client + counts.reads) % members.len()];
        let began = Instant::now();
        let properties = member.properties(&format!("ns{client}")).await;
        let found = properties.as_object().map_or(0, serde_json::Map::len);
        assert!(found >= seen, "a read shows {found} properties after {seen}");
        seen = found;
        counts.longest = counts.longest.max(began.elapsed());
        counts.reads += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "reports the measured pause")]
async fn transfers_under_load_refuse_no_request_and_lose_no_change() {
    let bucket = bucket();
    // On a busy machine, a lease must not expire: the test is about planned changes of the writer.
    let with_lease = |name| {
        let mut settings = member_settings(name);
        settings.cluster.lease_ms = TIMEOUT.as_millis() as u64;
        settings.cluster.renew_ms = 1_000;
        settings
    };
    let first = TestMember::start_with(&bucket, with_lease("a")).await;
    first.wait_for_role("writer").await;
    let second = TestMember::start_with(&bucket, with_lease("b")).await;
    let third = TestMember::start_with(&bucket, with_lease("c")).await;
    for member in [&second, &third] {
        member.wait_for_role("standby").await;
    }
    for client in 0..WRITING_CLIENTS {
        assert_eq!(first.create_namespace(&format!("ns{client}")).await, 200);
    }
    let members = Arc::new([first, second, third]);
    let stopped = Arc::new(AtomicBool::new(false));
    let shared = || (Arc::clone(&members), Arc::clone(&stopped));
    let writers: Vec<_> = (0..WRITING_CLIENTS)
        .map(|client| {
            let (members, stopped) = shared();
            tokio::spawn(write(members, client, stopped))
        })
        .collect();
    let readers: Vec<_> = (0..READING_CLIENTS)
        .map(|client| {
            let (members, stopped) = shared();
            tokio::spawn(read(members, client, stopped))
        })
        .collect();
    for round in 0..TRANSFERS {
        transfer(&members[round % members.len()], None).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stopped.store(true, Ordering::Relaxed);
    let (mut total, mut longest) = (Counts::default(), Duration::ZERO);
    for (client, writer) in writers.into_iter().enumerate() {
        let counts = writer.await.expect("no change is refused");
        let properties = members[0].properties(&format!("ns{client}")).await;
        let found = properties.as_object().map_or(0, serde_json::Map::len);
        assert_eq!(found, counts.acknowledged, "the changes of client {client}");
        total.acknowledged += counts.acknowledged;
        longest = longest.max(counts.longest);
    }
    for reader in readers {
        let counts = reader.await.expect("no read is refused");
        total.reads += counts.reads;
        longest = longest.max(counts.longest);
    }
    let Counts { acknowledged, reads, .. } = total;
    println!("{TRANSFERS} transfers: {acknowledged} changes, {reads} reads, longest {longest:?}");
    drop(members);
    assert_sound(bucket).await;
}

/// The opening of the store hangs. A process that did not abort it would only end after its bucket
/// responds again.
#[tokio::test]
async fn member_that_stops_while_it_opens_the_store_gives_the_term_back() {
    let bucket = bucket();
    let first = TestMember::start_with(&bucket, settings_with_long_lease("a")).await;
    first.wait_for_role("writer").await;
    assert_eq!(first.create_namespace("ns").await, 200);
    first.stop().await;
    let second = TestMember::start_with(&bucket, settings_with_long_lease("b")).await;
    second.faults.inject(Verb::Put, "manifest", Fault::Hang);
    within("the member opens the store", async || {
        let record = writer_record(&bucket).await;
        (record["state"] == "opening" && record["holder"]["name"] == "b").then_some(())
    })
    .await;
    let began = Instant::now();
    second.stop().await;
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(writer_record(&bucket).await["state"], "released");
    let third = TestMember::start_with(&bucket, settings_with_long_lease("c")).await;
    third.wait_for_role("writer").await;
    assert_eq!(third.properties("ns").await, json!({}));
}

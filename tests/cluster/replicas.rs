//! Standbys execute reads themselves, on replicas that follow the writer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, Response};
use serde_json::{Value, json};

use crate::member::{TIMEOUT, TestMember, member_settings, within, writer_and_standby};
use crate::support::bucket::bucket;
use crate::support::faults::{EVERYTHING, Fault, METADATA_FILES, Verb};

const READS: &str = "slateberg_cluster_replica_reads_total";
const STALENESS: &str = "x-slateberg-staleness-ms";

/// Starts a writer, and a standby that executes reads itself.
async fn writer_and_replica() -> (TestMember, TestMember) {
    let (writer, standby) = writer_and_standby(&bucket(), member_settings("a")).await;
    standby.wait_for_replica().await;
    (writer, standby)
}

async fn create_table(member: &TestMember, name: &str) {
    let schema = json!({
        "type": "struct",
        "fields": [{ "id": 1, "name": "id", "required": false, "type": "long" }],
    });
    let body = json!({ "name": name, "schema": schema });
    let (status, body) =
        member.request(Method::POST, "/v1/namespaces/ns/tables", Some(&body)).await;
    assert_eq!(status, 200, "{body}");
}

async fn set_table_property(member: &TestMember, table: &str, value: &str) {
    let updates = json!([{ "action": "set-properties", "updates": { "k": value } }]);
    let body = json!({ "requirements": [], "updates": updates });
    let path = format!("/v1/namespaces/ns/tables/{table}");
    let (status, body) = member.request(Method::POST, &path, Some(&body)).await;
    assert_eq!(status, 200, "{body}");
}

async fn get(member: &TestMember, path: &str, consistency: Option<&str>) -> Response {
    let request = Client::new().get(format!("{}{path}", member.uri));
    let request = match consistency {
        Some(consistency) => request.header("x-slateberg-consistency", consistency),
        None => request,
    };
    request.send().await.expect("the member responds")
}

#[tokio::test]
async fn standby_executes_reads_itself_and_sees_all_acknowledged_changes() {
    let (writer, standby) = writer_and_replica().await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    create_table(&writer, "t").await;
    let reads = standby.metric(READS).await;
    for number in 0..50 {
        let value = number.to_string();
        let changed = if number % 2 == 0 { &writer } else { &standby };
        set_table_property(changed, "t", &value).await;
        let (status, table) =
            standby.request(Method::GET, "/v1/namespaces/ns/tables/t", None).await;
        assert_eq!(status, 200, "{table}");
        assert_eq!(table["metadata"]["properties"]["k"], json!(value));
    }
    assert_eq!(standby.metric(READS).await - reads, 50);
}

#[tokio::test]
async fn replica_and_writer_respond_alike() {
    let (writer, standby) = writer_and_replica().await;
    for name in ["ns", "other"] {
        assert_eq!(standby.create_namespace(name).await, 200);
    }
    for table in ["a", "b", "c"] {
        create_table(&standby, table).await;
    }
    let body = json!({ "source": { "namespace": ["ns"], "name": "c" },
                       "destination": { "namespace": ["other"], "name": "d" } });
    assert_eq!(standby.request(Method::POST, "/v1/tables/rename", Some(&body)).await.0, 204);
    let path = "/v1/namespaces/ns/tables/b";
    assert_eq!(standby.request(Method::DELETE, path, None).await.0, 204);
    let reads = standby.metric(READS).await;
    let paths = [
        "/v1/config",
        "/v1/namespaces",
        "/v1/namespaces/ns",
        "/v1/namespaces/missing",
        "/v1/namespaces/ns/tables",
        "/v1/namespaces/ns/tables/a",
        "/v1/namespaces/ns/tables/b",
        "/v1/namespaces/ns/tables/c",
        "/v1/namespaces/other/tables/d",
        "/v1/namespaces/ns/tables/a?snapshots=refs",
        "/v1/namespaces/ns/views",
        "/v1/namespaces/ns/functions",
        "/v1/namespaces?pageSize=1",
        "/v1/namespaces?pageSize=none",
    ];
    for path in paths {
        let own = standby.request(Method::GET, path, None).await;
        assert_eq!(own, writer.request(Method::GET, path, None).await, "{path}");
        let etag = |response: &Response| response.headers().get("etag").cloned();
        let (own, of_writer) = (get(&standby, path, None).await, get(&writer, path, None).await);
        assert_eq!(etag(&own), etag(&of_writer), "{path}");
    }
    assert_eq!(standby.metric(READS).await - reads, 2 * paths.len() as u64);
}

#[tokio::test]
async fn table_whose_metadata_file_is_missing_is_not_shown_by_a_replica() {
    let (writer, standby) = writer_and_replica().await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    create_table(&writer, "t").await;
    let before = standby.request(Method::GET, "/v1/namespaces/ns/tables/t", None).await.1;
    writer.faults.inject(Verb::Put, METADATA_FILES, Fault::Hang);
    let change = set_table_property(&writer, "t", "new");
    let reading = async {
        writer.faults.wait_for_requests(Verb::Put, METADATA_FILES, 2).await;
        // Give the rows time to arrive.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let reading = standby.request(Method::GET, "/v1/namespaces/ns/tables/t", None);
        let lifting = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            writer.faults.lift();
        };
        tokio::join!(reading, lifting).0
    };
    let ((status, table), ()) = tokio::join!(reading, change);
    assert_eq!(status, 200, "{table}");
    let location = |table: &Value| table["metadata-location"].as_str().map(ToOwned::to_owned);
    if location(&table) == location(&before) {
        assert_eq!(table["metadata"]["properties"]["k"], Value::Null);
    } else {
        assert_eq!(table["metadata"]["properties"]["k"], json!("new"));
    }
    let after = standby.request(Method::GET, "/v1/namespaces/ns/tables/t", None).await.1;
    assert_eq!(after["metadata"]["properties"]["k"], json!("new"));
}

#[tokio::test]
async fn bounded_read_states_its_age() {
    let (writer, standby) = writer_and_replica().await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    let path = "/v1/namespaces/ns";
    let response = get(&standby, path, Some("linearizable")).await;
    assert_eq!((response.status().as_u16(), response.headers().get(STALENESS)), (200, None));
    let bounded = Some("bounded; max-staleness-ms=30000");
    let response = get(&standby, path, bounded).await;
    assert_eq!(response.status().as_u16(), 200);
    let age = response.headers()[STALENESS].to_str().expect("text").parse::<u64>();
    assert!(age.is_ok_and(|age| age <= 30_000), "{response:?}");
    let response = get(&standby, path, Some("bounded")).await;
    assert_eq!(response.status().as_u16(), 400);
    let error: Value = response.json().await.expect("JSON");
    assert!(error["error"]["message"].to_string().contains("x-slateberg-consistency"), "{error}");
}

#[tokio::test]
async fn warehouse_that_is_created_at_run_time_is_served_by_replicas_at_once() {
    let (writer, standby) = writer_and_replica().await;
    for number in 0..5 {
        let name = format!("w{number}");
        writer.create_warehouse(&name).await;
        let path = format!("/v1/config?warehouse={name}");
        let (status, config) = standby.request(Method::GET, &path, None).await;
        assert_eq!(status, 200, "{config}");
        let (status, _) = writer
            .request(Method::DELETE, &format!("/management/v1/warehouses/{name}"), None)
            .await;
        assert_eq!(status, 204);
        let (status, config) = standby.request(Method::GET, &path, None).await;
        assert_eq!(status, 404, "{config}");
    }
    standby.wait_for_replica().await;
}

#[tokio::test]
async fn replica_is_replaced_after_many_changes() {
    let (writer, standby) = writer_and_replica().await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    // Each value is different, and cannot be compressed well.
    let value = |number: u64| {
        let words = (0..12_000).map(|word: u64| {
            format!("{:x}", (word + number * 1_000_003).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        });
        words.collect::<String>()
    };
    for number in 0..60 {
        let value = value(number);
        assert_eq!(writer.set_property("ns", &format!("k{}", number % 4), &value).await, 200);
        let properties = standby.properties("ns").await;
        assert_eq!(properties[format!("k{}", number % 4)], json!(value), "{number}");
    }
    let openings = standby.metric("slateberg_cluster_replica_openings_total").await;
    assert!(openings >= 2, "{openings}");
}

#[tokio::test]
async fn standby_without_local_reads_forwards_them() {
    let bucket = bucket();
    let writer = TestMember::start(&bucket, "a").await;
    writer.wait_for_role("writer").await;
    let mut settings = member_settings("b");
    settings.cluster.local_reads = false;
    let standby = TestMember::start_with(&bucket, settings).await;
    standby.wait_for_role("standby").await;
    let (status, _) = standby.request(Method::GET, "/v1/namespaces", None).await;
    assert_eq!((status, standby.metric(READS).await), (200, 0));
}

#[tokio::test]
async fn replica_adds_no_requests_to_the_bucket_while_it_is_idle() {
    let (writer, standby) = writer_and_replica().await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    assert_eq!(standby.properties("ns").await, json!({}));
    let of_store = |standby: &TestMember| {
        let requests = standby.faults.requests();
        requests.into_iter().filter(|(_, path)| !path.contains("/cluster/")).count()
    };
    let before = of_store(&standby);
    for _ in 0..20 {
        assert_eq!(standby.properties("ns").await, json!({}));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(of_store(&standby), before);
}

#[tokio::test]
async fn uses_at_a_replica_are_counted_by_the_writer() {
    let (writer, standby) = writer_and_replica().await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    create_table(&writer, "t").await;
    let reads = standby.metric(READS).await;
    for _ in 0..7 {
        let (status, _) = standby.request(Method::GET, "/v1/namespaces/ns/tables/t", None).await;
        assert_eq!(status, 200);
    }
    assert_eq!(standby.metric(READS).await - reads, 7);
    standby.stop().await;
    let path = "/management/v1/tables/usage?warehouse=default";
    let (status, usage) = writer.request(Method::GET, path, None).await;
    assert_eq!(status, 200, "{usage}");
    assert!(usage.to_string().contains("\"loads\":7"), "{usage}");
}

/// Values of one property. All clients use the same clock.
#[derive(Default)]
struct Register {
    /// The newest acknowledged value.
    acknowledged: AtomicU64,
    /// The newest value that was sent.
    sent: AtomicU64,
    /// The newest value that any read has returned.
    seen: AtomicU64,
}

async fn value_at(member: &TestMember) -> Option<u64> {
    let response = member.send(Method::GET, "/v1/namespaces/ns", None).await.ok()?;
    if response.status() != 200 {
        return None;
    }
    let body: Value = response.json().await.ok()?;
    let value = &body["properties"]["k"];
    Some(value.as_str().map_or(0, |value| value.parse().expect("a number")))
}

/// Reads at all members while one client writes. A read must return at least the value that was
/// acknowledged, and at least the value that another read had returned, before it began.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reads_are_linearizable_at_all_members_through_changes_of_the_writer() {
    let bucket = bucket();
    let mut members = Vec::new();
    for name in ["a", "b", "c"] {
        let member = TestMember::start(&bucket, name).await;
        member.ready().await;
        members.push(member);
    }
    assert_eq!(members[0].create_namespace("ns").await, 200);
    let (members, register) = (Arc::new(members), Arc::new(Register::default()));
    let stopped = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for reader in 0..6 {
        let (members, register) = (Arc::clone(&members), Arc::clone(&register));
        let stopped = Arc::clone(&stopped);
        tasks.push(tokio::spawn(async move {
            let mut reads = 0u64;
            while !stopped.load(Ordering::SeqCst) {
                let at_least = register.acknowledged.load(Ordering::SeqCst);
                let at_least = at_least.max(register.seen.load(Ordering::SeqCst));
                let Some(value) = value_at(&members[reader % members.len()]).await else {
                    continue;
                };
                let at_most = register.sent.load(Ordering::SeqCst);
                assert!(value >= at_least && value <= at_most, "{at_least} {value} {at_most}");
                register.seen.fetch_max(value, Ordering::SeqCst);
                reads += 1;
            }
            reads
        }));
    }
    let began = Instant::now();
    let (mut number, mut transfers) = (0, 0);
    while began.elapsed() < Duration::from_secs(12) {
        number += 1;
        register.sent.store(number, Ordering::SeqCst);
        let member = &members[usize::try_from(number).expect("small") % members.len()];
        // The forwarder sends the change again until a writer has executed it.
        assert_eq!(member.set_property("ns", "k", &number.to_string()).await, 200);
        register.acknowledged.store(number, Ordering::SeqCst);
        if began.elapsed() > Duration::from_secs(3 * (transfers + 1)) {
            transfers += 1;
            let path = "/management/v1/cluster/transfer";
            let (status, body) = member.request(Method::POST, path, Some(&json!({}))).await;
            assert_eq!(status, 202, "{body}");
        }
    }
    stopped.store(true, Ordering::SeqCst);
    let mut reads = BTreeMap::new();
    for (reader, task) in tasks.into_iter().enumerate() {
        reads.insert(reader, task.await.expect("no read is out of date"));
    }
    let mut local = 0;
    for member in members.iter() {
        local += member.metric(READS).await;
    }
    assert!(local > 100, "replicas have executed {local} of {reads:?} reads");
}

#[tokio::test]
async fn writer_that_is_cut_off_is_not_followed_any_further() {
    let (writer, standby) = writer_and_replica().await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    assert_eq!(standby.properties("ns").await, json!({}));
    writer.isolate();
    // The standby becomes the writer, and so responds itself.
    standby.wait_for_role("writer").await;
    assert_eq!(standby.set_property("ns", "k", "v").await, 200);
    assert_eq!(standby.properties("ns").await, json!({ "k": "v" }));
    writer.reconnect();
    writer.wait_for_role("standby").await;
    writer.wait_for_replica().await;
    let reads = writer.metric(READS).await;
    assert_eq!(writer.properties("ns").await, json!({ "k": "v" }));
    assert_eq!(writer.metric(READS).await - reads, 1);
    let stale = within("the former writer follows", async || {
        (writer.properties("ns").await == json!({ "k": "v" })).then_some(())
    });
    tokio::time::timeout(TIMEOUT, stale).await.expect("it responds");
    writer.faults.inject(Verb::Get, EVERYTHING, Fault::Fail);
    assert_eq!(standby.set_property("ns", "k", "w").await, 200);
    assert_eq!(writer.properties("ns").await, json!({ "k": "w" }), "rows are in memory");
}

#[tokio::test]
async fn standby_with_other_policy_files_executes_no_reads() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("all.cedar");
    let policy = "@id(\"all\")\npermit (principal, action, resource);\n";
    std::fs::write(&file, policy).expect("it is written");
    let bucket = bucket();
    let writer = TestMember::start(&bucket, "a").await;
    writer.wait_for_role("writer").await;
    let mut settings = member_settings("b");
    settings.authz.policy_paths = vec![file];
    let standby = TestMember::start_with(&bucket, settings).await;
    standby.wait_for_role("standby").await;
    within("the policies are compared", async || {
        (standby.metric("slateberg_cluster_policies_different").await == 1).then_some(())
    })
    .await;
    let reads = standby.metric(READS).await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    assert_eq!(standby.properties("ns").await, json!({}));
    assert_eq!(standby.metric(READS).await, reads, "the writer executes the read");
}

#[tokio::test]
async fn bounded_read_is_not_older_than_an_earlier_response() {
    let (writer, standby) = writer_and_replica().await;
    assert_eq!(writer.create_namespace("ns").await, 200);
    create_table(&writer, "t").await;
    let table = "/v1/namespaces/ns/tables/t";
    let client = Client::new();
    let bounded = |name: &'static str, value: &str| {
        let request = client.get(format!("{}{table}", standby.uri)).header(name, value);
        request.header("x-slateberg-consistency", "bounded; max-staleness-ms=60000").send()
    };
    let body = |value: u64| {
        let updates =
            json!([{ "action": "set-properties", "updates": { "k": value.to_string() } }]);
        json!({ "requirements": [], "updates": updates })
    };
    for number in 0..50 {
        let changed = writer.send(Method::POST, table, Some(&body(number))).await;
        let changed = changed.expect("it responds");
        let sequence = changed.headers()["x-slateberg-sequence"].to_str().expect("a number");
        let read = bounded("x-slateberg-at-least", sequence).await.expect("it responds");
        assert!(read.headers().contains_key(STALENESS), "{read:?}");
        let read: Value = read.json().await.expect("JSON");
        assert_eq!(read["metadata"]["properties"]["k"], json!(number.to_string()));

        let changed = writer.send(Method::POST, table, Some(&body(number + 100))).await;
        let etag = changed.expect("it responds").headers()["etag"].clone();
        let read = bounded("if-none-match", etag.to_str().expect("text")).await;
        assert_eq!(read.expect("it responds").status(), 304, "{number}");
    }
}

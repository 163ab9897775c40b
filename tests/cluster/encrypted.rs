//! Clusters on an encrypted state, and processes that can write to its bucket but not unlock it.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use reqwest::{Client, Identity, Method};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slateberg::app::App;
use slateberg_base::hex::hex;
use slateberg_config::Settings;
use slateberg_kms::settings::KmsKind;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::error::BuildError;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

use crate::member::{
    LEASE, TestMember, member_settings, settings_with_long_lease, within, writer_record,
};
use crate::relay::Relay;
use crate::support::app::{bucket_opener, memory_settings};
use crate::support::bucket::{bucket, fresh_id};
use crate::support::certificates::TestCa;

const WRITER: &str = "state/cluster/writer.json";
const MEMBERS: &str = "state/cluster/members";
const ROTATE: &str = "/management/v1/encryption/rotate";
const REPLICA_READS: &str = "slateberg_cluster_replica_reads_total";
const REPLICA_OPENINGS: &str = "slateberg_cluster_replica_openings_total";
const LOG_READS: &str = "slateberg_cluster_log_reads_total";

/// Returns a key file with one wrapping key.
fn key_file() -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("there is room");
    writeln!(file, "{}=", "A".repeat(43)).expect("there is room");
    file
}

/// Encrypts the state with the key in this file, or not at all.
fn encrypt(settings: &mut Settings, key: Option<&NamedTempFile>) {
    settings.encryption.kms = key.map_or(KmsKind::None, |_| KmsKind::Local);
    settings.encryption.local_key_file = key.map(|key| key.path().to_owned()).unwrap_or_default();
}

fn encrypted(mut settings: Settings, key: &NamedTempFile) -> Settings {
    encrypt(&mut settings, Some(key));
    settings
}

/// Starts a writer with the name `a`, and a standby with the name `b` and a replica.
async fn cluster(
    bucket: &Arc<dyn ObjectStore>,
    key: Option<&NamedTempFile>,
) -> (TestMember, TestMember) {
    let start = async |name| {
        let mut settings = member_settings(name);
        settings.cluster.forward_wait_ms = 2_000;
        encrypt(&mut settings, key);
        TestMember::start_with(bucket, settings).await
    };
    let writer = start("a").await;
    writer.wait_for_role("writer").await;
    let standby = start("b").await;
    standby.wait_for_replica().await;
    (writer, standby)
}

async fn content(bucket: &dyn ObjectStore, path: &Path) -> Vec<u8> {
    let found = bucket.get(path).await.expect("it exists");
    found.bytes().await.expect("it is read").to_vec()
}

async fn put(bucket: &dyn ObjectStore, path: &Path, content: Vec<u8>) {
    bucket.put(path, content.into()).await.expect("it is written");
}

/// Returns the paths of all objects below a path.
async fn paths(bucket: &dyn ObjectStore, below: &str) -> Vec<Path> {
    let listed = bucket.list(Some(&Path::from(below))).map_ok(|meta| meta.location);
    listed.try_collect().await.expect("a listing")
}

/// Returns the path and the content of the record of the member with this name.
async fn member_record(bucket: &dyn ObjectStore, name: &str) -> (Path, String) {
    for path in paths(bucket, MEMBERS).await {
        let content = String::from_utf8(content(bucket, &path).await).expect("text");
        let record: Value = serde_json::from_str(&content).expect("JSON");
        if record["member"]["name"] == name {
            return (path, content);
        }
    }
    panic!("{name} has no record");
}

/// Returns the names of the members, as the writer lists them.
async fn names(writer: &TestMember) -> Vec<String> {
    let (status, cluster) = writer.request(Method::GET, "/management/v1/cluster", None).await;
    assert_eq!(status, 200, "{cluster}");
    let members = cluster["members"].as_array().expect("members").iter();
    members.map(|member| member["name"].as_str().expect("a name").to_owned()).collect()
}

async fn rotate(member: &TestMember, active: u32) {
    let (status, ring) = member.request(Method::POST, ROTATE, Some(&json!({}))).await;
    assert_eq!((status, &ring["key-ring"]["active-data-key"]), (200, &json!(active)), "{ring}");
}

#[tokio::test]
async fn standby_changes_and_reads_an_encrypted_state() {
    let (bucket, key) = (bucket(), key_file());
    let (writer, standby) = cluster(&bucket, Some(&key)).await;
    assert_eq!(standby.create_namespace("telltale").await, 200);
    let reads = standby.metric(REPLICA_READS).await;
    for number in 0..10 {
        let (value, changed) =
            (number.to_string(), [&writer, &standby][usize::from(number % 2 == 0)]);
        assert_eq!(changed.set_property("telltale", "k", &value).await, 200);
        assert_eq!(standby.properties("telltale").await, json!({ "k": value }));
    }
    assert_eq!(standby.metric(REPLICA_READS).await - reads, 10);
    writer.stop().await;
    standby.wait_for_role("writer").await;
    assert_eq!(standby.properties("telltale").await, json!({ "k": "9" }));
    for path in paths(&bucket, "state").await {
        let content = content(&bucket, &path).await;
        assert!(!content.windows(8).any(|part| part == b"telltale"), "{path}");
    }
}

/// The members have the data keys in memory.
#[tokio::test]
async fn fail_over_needs_no_wrapping_key() {
    let (bucket, key) = (bucket(), key_file());
    let (writer, standby) = cluster(&bucket, Some(&key)).await;
    assert_eq!(standby.create_namespace("ns").await, 200);
    assert_eq!(standby.set_property("ns", "k", "v").await, 200);
    key.close().expect("it is deleted");
    drop(writer);
    standby.wait_for_role("writer").await;
    assert_eq!(standby.properties("ns").await, json!({ "k": "v" }));
    assert_eq!(standby.set_property("ns", "k", "new").await, 200);
}

#[tokio::test]
async fn members_that_start_at_the_same_time_share_one_key_ring() {
    let (bucket, key) = (bucket(), key_file());
    let start = |name| TestMember::start_with(&bucket, encrypted(member_settings(name), &key));
    let members = tokio::join!(start("a"), start("b"), start("c"));
    let members = [members.0, members.1, members.2];
    for member in &members {
        member.ready().await;
    }
    assert_eq!(members[0].create_namespace("ns").await, 200);
    for member in &members {
        assert_eq!(member.properties("ns").await, json!({}));
    }
    assert_eq!(names(&members[0]).await, ["a", "b", "c"]);
}

/// The log is in another object store than the rest of the state.
#[tokio::test]
async fn data_key_is_rotated_while_replicas_read() {
    let (bucket, key) = (bucket(), key_file());
    let with_separate_log = |settings| {
        let mut settings = encrypted(settings, &key);
        settings.state.wal_url = "memory:///log".to_owned();
        settings
    };
    let mut settings = with_separate_log(settings_with_long_lease("a"));
    let relay = Relay::in_front_of(&mut settings).await;
    let writer = TestMember::start_with(&bucket, settings).await;
    writer.wait_for_role("writer").await;
    let standby = with_separate_log(member_settings("b"));
    let standby = TestMember::start_with(&bucket, standby).await;
    standby.wait_for_replica().await;
    assert_eq!(standby.create_namespace("ns").await, 200);

    // The writer sends its changes.
    let openings = standby.metric(REPLICA_OPENINGS).await;
    rotate(&standby, 2).await;
    assert_eq!(standby.set_property("ns", "k", "2").await, 200);
    assert_eq!(standby.properties("ns").await, json!({ "k": "2" }));
    assert_eq!(standby.metric(REPLICA_OPENINGS).await, openings);

    // The standby reads the log, and meets data keys that it does not know.
    relay.cut();
    within("the standby reads the log", async || {
        assert_eq!(standby.properties("ns").await, json!({ "k": "2" }));
        (standby.metric(LOG_READS).await > 0).then_some(())
    })
    .await;
    let openings = standby.metric(REPLICA_OPENINGS).await;
    for active in 3..=5 {
        rotate(&writer, active).await;
        let value = active.to_string();
        assert_eq!(writer.set_property("ns", "k", &value).await, 200);
        assert_eq!(standby.properties("ns").await, json!({ "k": value }));
    }
    assert_eq!(standby.metric(REPLICA_OPENINGS).await, openings);

    // Records are valid after a rotation, and the next process unlocks all keys.
    relay.mend();
    within("the standby reaches the writer", async || {
        (standby.set_property("ns", "k", "last").await == 200).then_some(())
    })
    .await;
    assert_eq!(names(&writer).await, ["a", "b"]);
    let next = with_separate_log(member_settings("c"));
    let next = TestMember::start_with(&bucket, next).await;
    next.wait_for_replica().await;
    assert_eq!(next.properties("ns").await, json!({ "k": "last" }));
}

#[tokio::test]
async fn server_outside_of_the_cluster_is_rejected_while_an_encrypted_writer_runs() {
    let (bucket, key) = (bucket(), key_file());
    let (writer, _standby) = cluster(&bucket, Some(&key)).await;
    let dependencies =
        Dependencies { opener: bucket_opener(Arc::clone(&bucket)), ..Dependencies::default() };
    let opened = App::build(encrypted(memory_settings(), &key), dependencies).await;
    let rejection = opened.err().expect("the writer runs");
    assert!(matches!(&rejection, BuildError::InCluster { .. }), "{rejection}");
    assert_eq!(writer.create_namespace("ns").await, 200, "the writer was not fenced");
}

#[tokio::test]
async fn member_that_cannot_unlock_the_state_does_not_start() {
    let (bucket, key) = (bucket(), key_file());
    let (writer, _standby) = cluster(&bucket, Some(&key)).await;
    let other = key_file();
    std::fs::write(other.path(), "B".repeat(42) + "A=\n").expect("there is room");
    for (key, reason) in [(None, "the store is encrypted"), (Some(&other), "is wrapped with key")] {
        let mut settings = member_settings("c");
        encrypt(&mut settings, key);
        let rejection = TestMember::start_with(&bucket, settings).await.rejection().await;
        assert!(rejection.to_string().contains(reason), "{rejection}");
    }
    assert_eq!(names(&writer).await, ["a", "b"]);
}

/// Connects to the port for members of the writer as a process with this certificate does, and
/// returns the status.
async fn connect(bucket: &Arc<dyn ObjectStore>, pem: &str) -> reqwest::Result<u16> {
    let record = writer_record(bucket).await;
    let client = Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .identity(Identity::from_pem(pem.as_bytes()).expect("a certificate with its key"))
        .http2_prior_knowledge()
        .build()
        .expect("a client");
    let request = client.get(record["peer"]["url"].as_str().expect("a URL"));
    let response = request.header("slateberg-member-request", "feed").send().await?;
    Ok(response.status().as_u16())
}

#[tokio::test]
async fn process_with_a_forged_member_record_gets_no_feed() {
    for is_encrypted in [false, true] {
        let (bucket, key) = (bucket(), key_file());
        let (writer, standby) = cluster(&bucket, is_encrypted.then_some(&key)).await;
        let attacker = TestCa::new().client("attacker");
        let hash = hex(&Sha256::digest(attacker.certificate.der()));
        let path = Path::from(format!("{MEMBERS}/{hash}.json"));
        let rejection = connect(&bucket, &attacker.pem()).await;
        assert!(rejection.is_err(), "a process without a record: {rejection:?}");

        // The record of a member, with the certificate of the attacker.
        let (own, record) = member_record(&bucket, "b").await;
        let hash_of_member = own.filename().expect("a name").trim_end_matches(".json");
        let forged = record.replace(hash_of_member, &hash);
        let mut unsigned: Value = serde_json::from_str(&forged).expect("JSON");
        unsigned.as_object_mut().expect("an object").remove("mac");
        let unsigned = serde_json::to_string_pretty(&unsigned).expect("JSON");
        // The unchanged record is valid, but not for this certificate.
        for content in [record, forged, unsigned] {
            put(&bucket, &path, content.clone().into()).await;
            let connected = connect(&bucket, &attacker.pem()).await;
            assert_eq!(connected.is_ok_and(|status| status == 200), !is_encrypted, "{content}");
        }
        let expected = if is_encrypted { vec!["a", "b"] } else { vec!["a", "b", "b"] };
        assert_eq!(names(&writer).await, expected);
        assert_eq!(standby.create_namespace("ns").await, 200, "members trust each other");
    }
}

#[tokio::test]
async fn member_record_with_a_changed_address_or_mac_is_ignored() {
    let (bucket, key) = (bucket(), key_file());
    let (writer, _standby) = cluster(&bucket, Some(&key)).await;
    let (path, record) = member_record(&bucket, "b").await;
    let (begin, mac) = record.rsplit_once("\"mac\": \"").expect("it is signed");
    let other_mac = if mac.starts_with('A') { 'B' } else { 'A' };
    let changed = [
        record.replace("https://127.0.0.1", "https://127.0.0.2"),
        record.replace("\"eligible\": true", "\"eligible\": false"),
        format!("{begin}\"mac\": \"{other_mac}{}", &mac[1..]),
        format!("{record}\n"),
    ];
    for changed in changed {
        assert_ne!(changed, record);
        put(&bucket, &path, changed.clone().into()).await;
        assert_eq!(names(&writer).await, ["a"], "{changed}");
    }
    put(&bucket, &path, record.into()).await;
    assert_eq!(names(&writer).await, ["a", "b"]);
}

/// A port of a process that is not a member. It counts the connections of members.
struct Lure {
    url: String,
    connections: Arc<AtomicUsize>,
}

impl Lure {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("https://{}", listener.local_addr().expect("it is bound"));
        let connections = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { url, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn members_do_not_connect_to_a_forged_writer() {
    for is_encrypted in [false, true] {
        let (bucket, key, lure) = (bucket(), key_file(), Lure::start().await);
        let (writer, standby) = cluster(&bucket, is_encrypted.then_some(&key)).await;
        assert_eq!(standby.create_namespace("ns").await, 200);
        let path = Path::from(WRITER);
        let record = String::from_utf8(content(&bucket, &path).await).expect("text");
        let parsed: Value = serde_json::from_str(&record).expect("JSON");
        let node = parsed["holder"]["node"].as_str().expect("an id");
        let url = parsed["peer"]["url"].as_str().expect("a URL");
        let forged = record.replace(url, &lure.url).replace(node, &fresh_id().to_string());
        put(&bucket, &path, forged.clone().into()).await;
        if !is_encrypted {
            within("a member connects", async || (lure.connections() > 0).then_some(())).await;
            continue;
        }
        tokio::time::sleep(2 * LEASE).await;
        for member in [&writer, &standby] {
            let (status, body) = member.request(Method::GET, "/v1/namespaces/ns", None).await;
            assert_eq!(status, 503, "{body}");
        }
        assert_eq!(lure.connections(), 0);
        assert_eq!(content(&bucket, &path).await, forged.as_bytes(), "no member replaces it");
        bucket.delete(&path).await.expect("it is deleted");
        within("there is a writer again", async || {
            (standby.set_property("ns", "k", "v").await == 200).then_some(())
        })
        .await;
        assert_eq!(lure.connections(), 0);
    }
}

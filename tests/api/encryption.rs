//! Encryption of the state: the content of the bucket, and rejections.

use std::io::Write;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use slateberg::app::App;
use slateberg_config::Settings;
use slateberg_kms::settings::KmsKind;
use slateberg_runtime::dependencies::Dependencies;
use tempfile::NamedTempFile;

use crate::support::app::{TestApp, bucket_opener, memory_settings};
use crate::support::faults::{Fault, FaultStore, Verb};
use crate::support::table::{append, create_table, set_property};
use crate::support::view::create_view;

const RING: &str = "state/encryption/ring.json";
const STATUS: &str = "/management/v1/encryption";
const ROTATE: &str = "/management/v1/encryption/rotate";
const REWRAP: &str = "/management/v1/encryption/rewrap";
const TABLE: &str = "/v1/namespaces/telltale_namespace/tables/telltale_table";

/// Two wrapping keys, in the format of a key file.
const KEYS: [&str; 2] = [
    "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIzNDU=",
];

/// Creates a key file with these keys, the current one first.
fn key_file(keys: &[&str]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("there is room");
    writeln!(file, "{}", keys.join("\n")).expect("there is room");
    file
}

/// Returns the settings of a catalog that is encrypted with the keys of this file.
fn settings(file: &NamedTempFile) -> Settings {
    let mut settings = memory_settings();
    settings.encryption.kms = KmsKind::Local;
    settings.encryption.local_key_file = file.path().to_owned();
    settings
}

/// Returns a new encrypted catalog, and the file with its wrapping key.
pub(crate) async fn encrypted() -> (TestApp, NamedTempFile) {
    let file = key_file(&KEYS[..1]);
    (TestApp::with(Arc::new(InMemory::new()), settings(&file)).await, file)
}

/// Returns the reason why a catalog does not open.
async fn rejection(bucket: &Arc<dyn ObjectStore>, settings: Settings) -> String {
    let dependencies =
        Dependencies { opener: bucket_opener(Arc::clone(bucket)), ..Dependencies::default() };
    match App::build(settings, dependencies).await {
        Ok(_) => panic!("the catalog opens"),
        Err(error) => error.to_string(),
    }
}

/// Returns all objects of the state, by path.
async fn state(bucket: &dyn ObjectStore) -> Vec<(String, Vec<u8>)> {
    let listed: Vec<_> =
        bucket.list(Some(&Path::from("state"))).try_collect().await.expect("it can be listed");
    let mut objects = Vec::new();
    for meta in listed {
        let bytes = bucket.get(&meta.location).await.expect("it is there").bytes().await;
        objects.push((meta.location.to_string(), bytes.expect("it can be read").to_vec()));
    }
    objects
}

/// Creates resources of every kind, with conspicuous names.
async fn fill(app: &TestApp) {
    let namespace = json!({
        "namespace": ["telltale_namespace"], "properties": { "telltale_key": "telltale_value" },
    });
    app.post("/v1/namespaces", namespace).await.expect(200);
    let tables = "/v1/namespaces/telltale_namespace/tables";
    app.post(tables, create_table("telltale_table")).await.expect(200);
    for commit in 0..20 {
        let updates = vec![set_property(&format!("telltale_property_{commit}"), "telltale_text")];
        let commit = json!({ "requirements": [], "updates": updates });
        app.post(TABLE, commit).await.expect(200);
    }
    let grown = json!({ "requirements": [], "updates": append(1, None, 1) });
    app.post(TABLE, grown).await.expect(200);
    let view = create_view("telltale_view");
    app.post("/v1/namespaces/telltale_namespace/views", view).await.expect(200);
    let warehouse = json!({
        "name": "telltale_warehouse", "storage": { "location": "memory:///telltale_place" },
    });
    app.post("/management/v1/warehouses", warehouse).await.expect(201);
}

/// Strings that no object may contain: names, properties, parts of schemas and of SQL, paths and
/// principals.
const TELLTALES: [&[u8]; 9] = [
    b"telltale",
    b"schema",
    b"\"type\"",
    b"struct",
    b"SELECT",
    b"memory:///",
    b"warehouse",
    b"default",
    b"anonymous",
];

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn encrypted_bucket_contains_no_names_properties_or_schemas() {
    for encrypt in [true, false] {
        let file = key_file(&KEYS[..1]);
        let settings = if encrypt { settings(&file) } else { memory_settings() };
        let app = TestApp::with(Arc::new(InMemory::new()), settings).await;
        fill(&app).await;
        let mut objects = state(app.bucket.as_ref()).await;
        // Also check the objects after all data was written into sorted runs. Their keys are then
        // in the manifest.
        app.app.runtime.catalog.flush().await.expect("it can be flushed");
        app.app.runtime.catalog.close().await.expect("it closes");
        objects.extend(state(app.bucket.as_ref()).await);
        let mut kinds = std::collections::BTreeSet::new();
        for (path, bytes) in &objects {
            kinds.insert(path.split('/').nth(1).unwrap_or_default().to_owned());
            for telltale in TELLTALES.iter().filter(|_| encrypt) {
                assert!(!holds(path.as_bytes(), telltale), "{path}");
                assert!(path == RING || !holds(bytes, telltale), "{path} holds {telltale:?}");
            }
        }
        for kind in ["wal", "manifest", "compacted"] {
            assert!(kinds.contains(kind), "{kinds:?}");
        }
        if !encrypt {
            let tells = |kind: &str| {
                let of_kind = objects.iter().filter(|(path, _)| path.contains(kind));
                of_kind.into_iter().any(|(_, bytes)| holds(bytes, b"telltale"))
            };
            assert!(tells("/wal/") && tells("/compacted/"), "the search finds plaintext");
        }
    }
}

#[tokio::test]
async fn encrypted_catalog_is_unchanged_after_a_restart_and_a_rotation() {
    let (app, _file) = encrypted().await;
    fill(&app).await;
    let before = app.get(TABLE).await.expect(200).body;
    let ring = app.get(STATUS).await.expect(200).body;
    assert_eq!(
        (ring["encrypted"].as_bool(), &ring["key-ring"]["active-data-key"]),
        (Some(true), &json!(1))
    );
    let app = app.restart().await;
    assert_eq!(app.get(TABLE).await.expect(200).body, before);
    for number in 2..=3 {
        let ring = app.post(ROTATE, Value::Null).await.expect(200).body;
        assert_eq!(ring["key-ring"]["active-data-key"], number);
        let key = format!("with_{number}");
        let commit = json!({ "requirements": [], "updates": [set_property(&key, "x")] });
        app.post(TABLE, commit).await.expect(200);
    }
    let app = app.restart().await;
    let properties = &app.get(TABLE).await.expect(200).body["metadata"]["properties"];
    for key in ["telltale_property_3", "with_2", "with_3"] {
        assert!(properties[key].is_string(), "{key}");
    }
}

#[tokio::test]
async fn rewrap_needs_no_restart_and_releases_the_old_wrapping_key() {
    let (app, file) = encrypted().await;
    fill(&app).await;
    app.post(ROTATE, Value::Null).await.expect(200);
    let old = app.get(STATUS).await.expect(200).body["key-ring"]["data-keys"].clone();
    std::fs::write(file.path(), format!("{}\n{}\n", KEYS[1], KEYS[0])).expect("there is room");
    let new = app.post(REWRAP, json!({})).await.expect(200).body["key-ring"].clone();
    assert_eq!(new["active-data-key"], 2);
    for index in 0..2 {
        let (old, new) = (&old[index], &new["data-keys"][index]);
        assert_eq!(old["created-at-ms"], new["created-at-ms"]);
        assert_ne!(old["wrapping-key"], new["wrapping-key"]);
    }
    app.post(REWRAP, json!({ "wrapping-key": "nothing" })).await.expect(422);
    app.post(REWRAP, json!({ "key": "nothing" })).await.expect(400);
    std::fs::write(file.path(), KEYS[1]).expect("there is room");
    let app = app.restart().await;
    app.get(TABLE).await.expect(200);
    app.post(ROTATE, Value::Null).await.expect(200);
}

#[tokio::test]
async fn wrong_key_or_missing_key_ring_fails_the_start_and_writes_nothing() {
    let (app, file) = encrypted().await;
    fill(&app).await;
    app.app.runtime.catalog.close().await.expect("it closes");
    let bucket = Arc::clone(&app.bucket);
    let before = state(bucket.as_ref()).await;
    let wrong = key_file(&KEYS[1..]);
    let text = rejection(&bucket, settings(&wrong)).await;
    assert!(text.contains("data key 1 is wrapped with key"), "{text}");
    let text = rejection(&bucket, memory_settings()).await;
    assert!(text.contains("the store is encrypted: set [encryption]"), "{text}");
    let ring = bucket.get(&Path::from(RING)).await.expect("it is there").bytes().await;
    let ring = ring.expect("it can be read");
    assert_eq!(state(bucket.as_ref()).await, before);
    bucket.delete(&Path::from(RING)).await.expect("it is there");
    for settings in [settings(&file), memory_settings()] {
        let text = rejection(&bucket, settings).await;
        assert!(text.contains("its key ring encryption/ring.json is missing"), "{text}");
    }
    bucket.put(&Path::from(RING), ring.into()).await.expect("there is room");
    assert_eq!(state(bucket.as_ref()).await, before);
    TestApp::with(bucket, settings(&file)).await.get(TABLE).await.expect(200);
}

#[tokio::test]
async fn plaintext_catalog_is_rejected_if_encryption_is_configured() {
    let app = TestApp::new().await;
    app.app.runtime.catalog.close().await.expect("it closes");
    let before = state(app.bucket.as_ref()).await;
    let text = rejection(&app.bucket, settings(&key_file(&KEYS))).await;
    assert!(text.contains("the store is not encrypted"), "{text}");
    assert_eq!(state(app.bucket.as_ref()).await, before);
    assert_eq!(app.get(STATUS).await.expect(200).body["encrypted"], false);
    TestApp::on(app.bucket).await.get("/v1/namespaces").await.expect(200);
}

#[tokio::test]
async fn key_ring_of_another_catalog_is_rejected() {
    let (one, file) = encrypted().await;
    let other = TestApp::with(Arc::new(InMemory::new()), settings(&file)).await;
    for app in [&one, &other] {
        app.app.runtime.catalog.close().await.expect("it closes");
    }
    let ring = other.bucket.get(&Path::from(RING)).await.expect("it is there").bytes().await;
    let ring = ring.expect("it can be read");
    one.bucket.put(&Path::from(RING), ring.into()).await.expect("there is room");
    let text = rejection(&one.bucket, settings(&file)).await;
    assert!(text.contains("damaged or was tampered with"), "{text}");
}

/// One object of each kind, by a part of its path.
const KINDS: [&str; 4] = [RING, "/manifest/", "/wal/", "/compacted/"];

#[tokio::test]
async fn flipped_bit_is_detected_in_each_kind_of_object() {
    let (app, file) = encrypted().await;
    fill(&app).await;
    app.app.runtime.catalog.flush().await.expect("it can be flushed");
    let commit = json!({ "requirements": [], "updates": [set_property("late", "x")] });
    app.post(TABLE, commit).await.expect(200);
    // Copies the objects without closing the catalog. As after a crash, the last commit is only in
    // the log.
    let objects = state(app.bucket.as_ref()).await;
    let copy = || async {
        let bucket: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        for (path, bytes) in &objects {
            let path = Path::from(path.as_str());
            bucket.put(&path, bytes.clone().into()).await.expect("there is room");
        }
        bucket
    };
    for kind in KINDS {
        let of_kind = objects.iter().filter(|(path, _)| path.contains(kind));
        // For the log, selects the newest object with data: an object that only fences an earlier
        // writer is empty.
        let newest = of_kind.filter(|(path, bytes)| path == RING || bytes.len() > 100).max();
        let (path, bytes) = newest.unwrap_or_else(|| panic!("no object of kind {kind}"));
        for at in [3, bytes.len() / 2, bytes.len() - 3] {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            let bucket = copy().await;
            bucket.put(&Path::from(path.as_str()), flipped.into()).await.expect("there is room");
            let dependencies = Dependencies {
                opener: bucket_opener(Arc::clone(&bucket)),
                ..Dependencies::default()
            };
            let message = match App::build(settings(&file), dependencies).await {
                Err(error) => error.to_string(),
                // Sorted runs are read on demand, so the damage appears after the start.
                Ok(app) => {
                    let app = TestApp::of(app);
                    let answer = app.get(TABLE).await;
                    assert!(kind == "/compacted/", "{path} at {at}: {}", answer.body);
                    assert_eq!(answer.status, 500, "{path} at {at}: {}", answer.body);
                    continue;
                }
            };
            let clear = ["tampered with", "is not in the key ring", "is wrapped with key"];
            assert!(clear.iter().any(|word| message.contains(word)), "{path} at {at}: {message}");
        }
    }
    TestApp::with(copy().await, settings(&file)).await.get(TABLE).await.expect(200);
}

#[tokio::test]
async fn interrupted_rotation_loses_nothing() {
    // Interrupts one rotation before it writes the key ring, one after the write but before the
    // response to the write, and one while it reads the key ring.
    for (verb, fault) in
        [(Verb::Put, Fault::Hang), (Verb::Put, Fault::LoseResponse), (Verb::Get, Fault::Hang)]
    {
        let file = key_file(&KEYS[..1]);
        let bucket: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let faults = FaultStore::new(Arc::clone(&bucket));
        let app = TestApp::with(Arc::clone(&faults) as _, settings(&file)).await;
        fill(&app).await;
        faults.inject(verb, "ring.json", fault.clone());
        let seen = faults.count(verb, "ring.json");
        let rotating = app.post(ROTATE, Value::Null);
        let cut = tokio::time::timeout(std::time::Duration::from_millis(500), rotating).await;
        assert!(faults.count(verb, "ring.json") > seen, "{fault:?}");
        if let Ok(answer) = cut {
            assert!(answer.status.is_server_error(), "{}", answer.body);
        }
        // The catalog continues to use its current data key. The next catalog on the same state can
        // read everything.
        let commit = json!({ "requirements": [], "updates": [set_property("after", "x")] });
        app.post(TABLE, commit).await.expect(200);
        faults.kill();
        let next = TestApp::with(bucket, settings(&file)).await;
        let loaded = next.get(TABLE).await.expect(200);
        assert_eq!(loaded.body["metadata"]["properties"]["after"], "x");
        next.post(ROTATE, Value::Null).await.expect(200);
        let commit = json!({ "requirements": [], "updates": [set_property("later", "x")] });
        next.post(TABLE, commit).await.expect(200);
        next.restart().await.get(TABLE).await.expect(200);
    }
}

#[tokio::test]
async fn new_writer_uses_the_key_ring_of_the_previous_one() {
    let (app, file) = encrypted().await;
    fill(&app).await;
    app.post(ROTATE, Value::Null).await.expect(200);
    let commit = json!({ "requirements": [], "updates": [set_property("late", "x")] });
    app.post(TABLE, commit).await.expect(200);
    let next = TestApp::with(Arc::clone(&app.bucket), settings(&file)).await;
    let loaded = next.get(TABLE).await.expect(200);
    assert_eq!(loaded.body["metadata"]["properties"]["late"], "x");
    // The fenced catalog can still write the key ring. This must not harm the new catalog.
    let _ = app.post(ROTATE, Value::Null).await;
    next.post(ROTATE, Value::Null).await.expect(200);
    next.restart().await.get(TABLE).await.expect(200);
}

#[tokio::test]
async fn commits_continue_during_rotation_and_rewrap() {
    let (app, _file) = encrypted().await;
    fill(&app).await;
    let committing = async {
        for number in 0..60 {
            let update = set_property(&format!("under_load_{number}"), "x");
            let commit = json!({ "requirements": [], "updates": [update] });
            app.post(TABLE, commit).await.expect(200);
        }
    };
    let rotating = async {
        for round in 0..6 {
            app.post(ROTATE, Value::Null).await.expect(200);
            let ring = app.post(REWRAP, json!({})).await.expect(200).body["key-ring"].clone();
            assert_eq!(ring["active-data-key"], round + 2);
        }
    };
    tokio::join!(committing, rotating);
    let app = app.restart().await;
    let loaded = app.get(TABLE).await.expect(200);
    for number in 0..60 {
        assert_eq!(loaded.body["metadata"]["properties"][format!("under_load_{number}")], "x");
    }
}

#[tokio::test]
async fn encryption_keys_of_tables_are_stored_unchanged() {
    let (app, _file) = encrypted().await;
    fill(&app).await;
    let key = json!({
        "key-id": "k1", "encrypted-key-metadata": "AAECAwQFBgcICQ==", "encrypted-by-id": "kms-key",
        "properties": { "any": "thing" },
    });
    let updates = json!([
        { "action": "upgrade-format-version", "format-version": 3 },
        { "action": "add-encryption-key", "encryption-key": key },
    ]);
    app.post(TABLE, json!({ "requirements": [], "updates": updates })).await.expect(200);
    let commit = json!({ "requirements": [], "updates": [set_property("other", "x")] });
    app.post(TABLE, commit).await.expect(200);
    let loaded = app.restart().await.get(TABLE).await.expect(200);
    assert_eq!(loaded.body["metadata"]["encryption-keys"], json!([key]));
}

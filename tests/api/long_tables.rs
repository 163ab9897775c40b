//! Tables with so much metadata that it is stored in chunks: responses are the same as for short
//! tables, and no chunk is lost or left.

use std::collections::BTreeSet;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use serde_json::{Value, json};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::offline::OfflineCatalog;
use slateberg_store::codec::Document;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{ChunkKey, Key, MetadataKey, StoreKey, TabularKey};
use slateberg_store::read::{KeyRange, OfflineView, StoreRead};
use slateberg_store::records::FORMAT_VERSION;
use slatedb::Db;

use crate::support::app::{TestApp, bucket_opener, memory_settings};
use crate::support::fsck::{assert_sound, findings};
use crate::support::table::{append, main_is, set_property};

const TABLE: &str = "/v1/namespaces/ns/tables/t";
const DROPPED: &str = "/management/v1/dropped";

/// A table with its expected content.
struct LongTable {
    app: TestApp,
    bucket: Arc<InMemory>,
    snapshots: Vec<i64>,
    log: Vec<i64>,
    newest: i64,
}

impl LongTable {
    async fn new() -> Self {
        let bucket = Arc::new(InMemory::new());
        let app = TestApp::on(Arc::<InMemory>::clone(&bucket)).await;
        app.create_namespace(&["ns"]).await;
        app.create_table("ns", "t").await;
        Self { app, bucket, snapshots: Vec::new(), log: Vec::new(), newest: 0 }
    }

    /// Appends this many snapshots in one commit. The last one becomes current.
    async fn append(&mut self, count: i64) -> Value {
        let before = (self.newest > 0).then_some(self.newest);
        let mut updates = Vec::new();
        for id in self.newest + 1..=self.newest + count {
            updates.extend(append(id, (id > 1).then(|| id - 1), id).into_iter().take(1));
            self.snapshots.push(id);
        }
        self.newest += count;
        let set_ref = append(self.newest, None, self.newest).pop().expect("it has two");
        updates.push(set_ref);
        self.log.push(self.newest);
        let committed = self.app.commit("ns", "t", vec![main_is(before)], updates).await;
        committed.expect(200).body
    }

    /// Expires all snapshots except those for which `keep` returns true.
    async fn expire(&mut self, keep: impl Fn(i64) -> bool) -> Value {
        let expired: Vec<i64> = self.snapshots.iter().copied().filter(|id| !keep(*id)).collect();
        self.snapshots.retain(|id| keep(*id));
        // The catalog cuts the beginning of the snapshot log: all entries up to and including the
        // last one whose snapshot is expired.
        let last_gone = self.log.iter().rposition(|id| expired.contains(id));
        self.log.drain(..last_gone.map_or(0, |at| at + 1));
        let updates = vec![json!({ "action": "remove-snapshots", "snapshot-ids": expired })];
        self.app.commit("ns", "t", vec![], updates).await.expect(200).body
    }

    #[track_caller]
    fn check_metadata(&self, metadata: &Value) {
        let ids = |list: &str| {
            let entries = metadata[list].as_array().expect("a list").iter();
            entries.map(|entry| entry["snapshot-id"].as_i64().expect("an id")).collect::<Vec<_>>()
        };
        assert_eq!(ids("snapshots"), self.snapshots);
        assert_eq!(ids("snapshot-log"), self.log);
        assert_eq!(metadata["current-snapshot-id"], self.newest);
        assert_eq!(metadata["last-sequence-number"], self.newest);
        for snapshot in metadata["snapshots"].as_array().expect("a list") {
            let id = snapshot["snapshot-id"].as_i64().expect("an id");
            assert_eq!(*snapshot, append(id, (id > 1).then(|| id - 1), id)[0]["snapshot"]);
        }
    }

    /// Checks the response to a commit, and that a load and the metadata file match it.
    async fn check(&self, committed: Value) {
        self.check_metadata(&committed["metadata"]);
        let loaded = self.app.get(TABLE).await.expect(200).body;
        assert_eq!(loaded["metadata"], committed["metadata"]);
        assert_eq!(loaded["metadata-location"], committed["metadata-location"]);
        let location = loaded["metadata-location"].as_str().expect("a location");
        let file = self.app.file(location).await.expect("it is there");
        assert_eq!(serde_json::from_slice::<Value>(&file).expect("JSON"), loaded["metadata"]);
    }

    async fn restart(&mut self) {
        let bucket: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(&self.bucket);
        self.app.app.runtime.catalog.close().await.expect("the catalog closes");
        assert_sound(Arc::clone(&bucket)).await;
        self.app = TestApp::on(bucket).await;
    }

    /// Returns a copy of the store as it is in the bucket.
    async fn store(&self) -> OfflineView {
        self.app
            .app
            .runtime
            .catalog
            .maintenance()
            .remove_completed_markers()
            .await
            .expect("the catalog is open");
        let copy: Arc<dyn ObjectStore> = Arc::new(self.bucket.fork());
        let dependencies = Dependencies { opener: bucket_opener(copy), ..Dependencies::default() };
        OfflineCatalog::open(&memory_settings(), &dependencies)
            .await
            .expect("the store opens")
            .store
    }

    async fn chunks(&self) -> Vec<ChunkKey> {
        let range = KeyRange::all(KeySpace::MetadataChunks);
        let chunks = self.store().await.scan::<ChunkKey>(&range, None).await;
        chunks.expect("they can be read").into_iter().map(|(key, _)| key).collect()
    }

    async fn document(&self) -> (uuid::Uuid, Document) {
        let store = self.store().await;
        let tables = store.scan::<TabularKey>(&KeyRange::all(KeySpace::Tabulars), None).await;
        let (TabularKey(id), _) = tables.expect("they can be read").remove(0);
        (id, store.document(id).await.expect("it can be read").expect("it is there"))
    }

    /// Closes the catalog, and changes its store.
    async fn behind_its_back(&self, change: impl AsyncFnOnce(&Db)) {
        self.app.app.runtime.catalog.close().await.expect("the catalog closes");
        let bucket: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(&self.bucket);
        let db = Db::open("state", bucket).await.expect("the store opens");
        change(&db).await;
        db.close().await.expect("the store closes");
    }
}

#[tokio::test]
async fn table_with_three_thousand_snapshots_expires_half_of_them() {
    let mut table = LongTable::new().await;
    for batch in 0..28 {
        let committed = table.append(90 + batch % 3 * 10).await;
        table.check(committed).await;
    }
    while table.newest < 3000 {
        let committed = table.append(1).await;
        if table.newest % 16 == 0 {
            table.check(committed).await;
        }
    }
    let many = table.chunks().await.len();
    assert!(many > 90, "{many} chunks");
    table.restart().await;
    let committed = table.append(1).await;
    table.check(committed).await;
    assert!(table.chunks().await.len() <= many + 2, "a restart rewrites nothing");

    let committed = table.expire(|id| id > 1500).await;
    table.check(committed).await;
    let fewer = table.chunks().await.len();
    assert!(fewer < many * 2 / 3, "{fewer} chunks");
    let committed = table.expire(|id| id % 3 != 0 || id > 2800).await;
    table.check(committed).await;
    table.restart().await;
    for _ in 0..40 {
        let committed = table.append(1).await;
        table.check(committed).await;
    }
    let set = vec![set_property("a", "1")];
    let committed = table.app.commit("ns", "t", vec![], set).await.expect(200).body;
    table.check(committed).await;
    let loaded = table.app.get(&format!("{TABLE}?snapshots=refs")).await.expect(200).body;
    let snapshots = loaded["metadata"]["snapshots"].as_array().expect("a list");
    assert_eq!(snapshots.len(), 1);
    assert_eq!(snapshots[0]["snapshot-id"], table.newest);
    table.restart().await;
}

#[tokio::test]
async fn append_keeps_existing_chunks() {
    let mut table = LongTable::new().await;
    table.append(200).await;
    let set = |chunks: Vec<ChunkKey>| -> BTreeSet<_> { chunks.iter().map(|it| it.hash).collect() };
    let before = set(table.chunks().await);
    for _ in 0..40 {
        table.append(1).await;
    }
    let after = set(table.chunks().await);
    assert!(after.is_superset(&before));
    assert!((1..=3).contains(&(after.len() - before.len())), "{}", after.len() - before.len());
}

#[tokio::test]
async fn drop_and_purge_leave_no_chunks() {
    for query in ["", "?purgeRequested=true"] {
        let mut table = LongTable::new().await;
        table.append(400).await;
        assert!(!table.chunks().await.is_empty());
        table.app.delete(&format!("{TABLE}{query}")).await.expect(204);
        assert!(!table.chunks().await.is_empty(), "an undrop or a purge needs the chunks");
        assert_sound(Arc::new(table.bucket.fork())).await;
        for dropped in table.app.get(DROPPED).await.body["dropped"].as_array().expect("a list") {
            let id = dropped["id"].as_str().expect("an id");
            table.app.delete(&format!("{DROPPED}/{id}")).await.expect(204);
        }
        table.app.app.runtime.catalog.jobs().run_jobs().await.expect("jobs run");
        assert!(table.chunks().await.is_empty());
        table.restart().await;
    }
}

#[tokio::test]
async fn overwriting_registration_leaves_no_chunks_of_the_previous_table() {
    let mut table = LongTable::new().await;
    let first = table.append(100).await;
    table.append(100).await;
    let body = json!({ "name": "t", "overwrite": true,
        "metadata-location": first["metadata-location"] });
    let registered = table.app.post("/v1/namespaces/ns/register", body).await.expect(200).body;
    assert_eq!(registered["metadata"], first["metadata"]);
    assert!(table.chunks().await.is_empty(), "a registered file is stored unchanged");
    (table.newest, table.log) = (100, vec![100]);
    table.snapshots.truncate(100);
    let committed = table.append(1).await;
    table.check(committed).await;
    assert!(!table.chunks().await.is_empty());
    table.restart().await;
}

#[tokio::test]
async fn store_of_an_earlier_binary_gets_chunks_with_the_next_commit() {
    let mut table = LongTable::new().await;
    table.append(100).await;
    let before = table.app.get(TABLE).await.expect(200).body;
    let (id, document) = table.document().await;
    let format = table.store().await.get(&StoreKey).await.expect("it can be read");
    let mut format = format.expect("it is there");
    format.format_version = 1;
    // The record consists of its format version, the version of the table, and the whole metadata.
    let mut whole = vec![1];
    whole.extend_from_slice(&document.version.to_be_bytes());
    whole.extend(zstd::bulk::compress(&document.text.to_bytes(), 1).expect("it can be packed"));
    let chunks = table.chunks().await;
    table
        .behind_its_back(async |db| {
            db.put(MetadataKey(id).encode(), whole).await.expect("it is written");
            let format = slateberg_store::codec::encode_json(&format);
            db.put(StoreKey.encode(), format).await.expect("it is written");
            for chunk in chunks {
                db.delete(chunk.encode()).await.expect("it is written");
            }
        })
        .await;
    assert_sound(Arc::new(table.bucket.fork())).await;
    table.app = TestApp::on(Arc::<InMemory>::clone(&table.bucket)).await;
    assert_eq!(table.app.get(TABLE).await.expect(200).body, before);
    assert!(table.chunks().await.is_empty());
    let committed = table.append(1).await;
    table.check(committed).await;
    assert!(!table.chunks().await.is_empty());
    let format = table.store().await.get(&StoreKey).await.expect("it can be read");
    let version = format.expect("it is there").format_version;
    assert_eq!(version, FORMAT_VERSION, "the earlier binary rejects the store from now on");
    table.restart().await;
}

#[tokio::test]
async fn fsck_finds_missing_altered_and_leftover_chunks() {
    for (change, finding) in [
        ("missing", "is missing or has another length"),
        ("altered", "differs from its hash"),
        ("left", "does not reference chunk"),
        ("alone", "there are chunks for the metadata of"),
    ] {
        let mut table = LongTable::new().await;
        table.append(100).await;
        let chunk = table.chunks().await[0];
        let stored = table.store().await.get(&chunk).await.expect("it can be read");
        let text = stored.expect("it is there").0;
        table
            .behind_its_back(async |db| {
                use slateberg_model::segmented_json::ChunkHash;
                use slateberg_store::codec::{ChunkBytes, Value};
                let altered = text.iter().map(|byte| byte ^ 1).collect::<Vec<_>>();
                let altered = ChunkBytes(altered.into()).encode();
                let other = ChunkKey { hash: ChunkHash([7; 16]), ..chunk };
                let alone = ChunkKey { id: uuid::Uuid::from_u128(7), ..chunk };
                let whole = ChunkBytes(text).encode();
                match change {
                    "missing" => db.delete(chunk.encode()).await,
                    "altered" => db.put(chunk.encode(), altered).await,
                    "left" => db.put(other.encode(), whole).await,
                    _ => db.put(alone.encode(), whole).await,
                }
                .expect("it is written");
            })
            .await;
        let findings = findings(Arc::<InMemory>::clone(&table.bucket)).await;
        assert!(findings.iter().any(|it| it.contains(finding)), "{change}: {findings:?}");
    }
}

//! Reads that overlap with a change: a read returns the state of the table at a single point in
//! time, never a mixture of two states.
//!
//! A read looks up a table in steps: its namespace, its name there, its record, its metadata. These
//! tests read some steps before a change and the others after it, for every possible division.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use serde_json::json;
use slateberg_catalog::{Error, lookup};
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::segmented_json::SegmentedJson;
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::offline::OfflineCatalog;
use slateberg_store as store;
use slateberg_store::fsck::warehouse_id;
use slateberg_store::read::{KeyRange, OfflineView, StoreRead};
use uuid::Uuid;

use crate::support::app::{TestApp, bucket_opener, memory_settings};
use crate::support::table::{append, set_property};

/// Maximum number of steps of a read of one table.
const STEPS_MAX: usize = 40;

/// Reads some steps from one state, and the others from a later state.
struct SwitchingReader<'a> {
    before: &'a OfflineView,
    after: &'a OfflineView,
    switch_at: usize,
    steps: AtomicUsize,
}

impl SwitchingReader<'_> {
    fn current(&self) -> &OfflineView {
        match self.steps.fetch_add(1, Ordering::SeqCst) < self.switch_at {
            true => self.before,
            false => self.after,
        }
    }
}

impl StoreRead for SwitchingReader<'_> {
    fn get_bytes<'a>(
        &'a self,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<bytes::Bytes>, store::Error>> {
        self.current().get_bytes(key)
    }

    fn iterate<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> BoxFuture<'a, Result<slatedb::DbIterator, store::Error>> {
        self.current().iterate(range)
    }
}

/// Returns the present state of a bucket. The bucket is copied because an open store would also
/// show later writes to the bucket.
async fn state_of(bucket: &InMemory) -> OfflineView {
    let copy: Arc<dyn ObjectStore> = Arc::new(bucket.fork());
    let dependencies = Dependencies { opener: bucket_opener(copy), ..Dependencies::default() };
    OfflineCatalog::open(&memory_settings(), &dependencies).await.expect("the store opens").store
}

/// Reads the version and the metadata of a table in the same way as the server.
async fn load(
    store: &impl StoreRead,
    warehouse: Uuid,
    ident: &TabularIdent,
) -> Result<(u64, SegmentedJson), Error> {
    loop {
        let kind = TabularKind::Table;
        let record = lookup::tabular_record(store, warehouse, kind, ident).await?;
        if let Some(text) = lookup::text_of(store, &record).await? {
            return Ok((record.version, text));
        }
    }
}

/// Asserts that a read of `ns.t` returns the state either before or after `change`, no matter
/// between which two steps of the read `change` takes effect.
async fn assert_whole(change: impl AsyncFnOnce(&TestApp)) {
    assert_whole_after(async |_| {}, change).await;
}

/// Like [`assert_whole`], but runs `prepare` on the catalog before the first of the two states is
/// copied.
async fn assert_whole_after(
    prepare: impl AsyncFnOnce(&TestApp),
    change: impl AsyncFnOnce(&TestApp),
) {
    let bucket = Arc::new(InMemory::new());
    let app = TestApp::on(Arc::<InMemory>::clone(&bucket)).await;
    app.create_namespace(&["ns"]).await;
    app.create_namespace(&["other"]).await;
    app.create_table("ns", "t").await;
    prepare(&app).await;
    let before = state_of(&bucket).await;
    change(&app).await;
    let after = state_of(&bucket).await;
    let warehouse =
        warehouse_id(&before, "default").await.expect("it can be read").expect("a warehouse");
    let namespace = NamespaceIdent(vec!["ns".to_owned()]);
    let ident = TabularIdent { namespace, name: "t".to_owned() };
    let mut outcomes = Vec::new();
    for switch_at in 0..STEPS_MAX {
        let steps = AtomicUsize::new(0);
        let reader = SwitchingReader { before: &before, after: &after, switch_at, steps };
        outcomes.push(match load(&reader, warehouse, &ident).await {
            Ok(found) => Some(found),
            Err(Error::NoSuchTable(_)) => None,
            Err(error) => panic!("switching at step {switch_at}: {error:?}"),
        });
    }
    let (Some(all_after), Some(all_before)) = (outcomes.first(), outcomes.last()) else {
        unreachable!("there are some steps")
    };
    assert_ne!(all_after, all_before, "the change has no effect on the read");
    for (switch_at, outcome) in outcomes.iter().enumerate() {
        assert!(
            outcome == all_before || outcome == all_after,
            "switching at step {switch_at}, a read returned a state that never existed: {outcome:?}"
        );
    }
}

/// Renames `ns.t` to `other.t`, or back if `there` is false.
async fn rename(app: &TestApp, there: bool) {
    let identifier = |namespace: &str| json!({ "namespace": [namespace], "name": "t" });
    let (from, to) = if there { ("ns", "other") } else { ("other", "ns") };
    let body = json!({ "source": identifier(from), "destination": identifier(to) });
    app.post("/v1/tables/rename", body).await.expect(204);
}

async fn set(app: &TestApp, namespace: &str) {
    let updates = vec![set_property("later", "yes")];
    app.commit(namespace, "t", vec![], updates).await.expect(200);
}

#[tokio::test]
async fn load_during_a_commit_is_consistent() {
    assert_whole(async |app| set(app, "ns").await).await;
}

/// The metadata is stored in chunks, and the change adds and removes some of them. With 70
/// snapshots, there are few chunks, and a load reads them one by one. With 400 snapshots, there are
/// many chunks, and a load scans them.
#[tokio::test]
async fn load_during_a_commit_that_changes_chunks_is_consistent() {
    for count in [70, 400] {
        let appends = (1..=count).flat_map(|id| append(id, None, 1).into_iter().take(1));
        let appends: Vec<_> = appends.collect();
        let prepare = async |app: &TestApp| {
            app.commit("ns", "t", vec![], appends).await.expect(200);
        };
        let change = async |app: &TestApp| {
            let ids: Vec<i64> = (20..60).collect();
            let mut updates = vec![json!({ "action": "remove-snapshots", "snapshot-ids": ids })];
            updates.extend((1000..1040).flat_map(|id| append(id, None, 1).into_iter().take(1)));
            app.commit("ns", "t", vec![], updates).await.expect(200);
        };
        assert_whole_after(prepare, change).await;
    }
}

#[tokio::test]
async fn load_during_a_drop_is_consistent() {
    assert_whole(async |app| drop(app.delete("/v1/namespaces/ns/tables/t").await.expect(204)))
        .await;
}

#[tokio::test]
async fn load_during_a_rename_is_consistent() {
    assert_whole(async |app| rename(app, true).await).await;
}

/// Under the old name, no read may return changes from after the rename.
#[tokio::test]
async fn load_during_a_rename_and_a_commit_is_consistent() {
    assert_whole(async |app| {
        rename(app, true).await;
        set(app, "other").await;
    })
    .await;
}

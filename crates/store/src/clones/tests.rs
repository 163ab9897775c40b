//! Tests of clones: with garbage collections and compactions, after interruptions, and with objects
//! in wrong places.

use slatedb::object_store::ObjectStoreExt;
use slatedb::object_store::memory::InMemory;
use tempfile::NamedTempFile;

use super::*;
use crate::checkpoints::NewCheckpoint;
use crate::keys::SigningKeyKey;
use crate::records::ChangeAction;
use crate::settings::Settings;
use crate::test_support::{
    change, collect, compact, encrypted, has, location, open, permit, write,
};

/// Returns locations for a parent and its clone.
fn locations() -> (StoreLocation, StoreLocation) {
    let bucket = Arc::new(InMemory::new());
    (location(&bucket, "parent"), location(&bucket, "clone"))
}

/// Returns the locations of encrypted stores, with the file of their wrapping key.
fn encrypted_locations() -> (StoreLocation, StoreLocation, NamedTempFile) {
    let (parent, clone) = locations();
    let (parent, file) = encrypted(parent);
    let clone = StoreLocation { encryption: parent.encryption.clone(), ..clone };
    (parent, clone, file)
}

/// Creates a store with a record and a checkpoint.
async fn parent(location: &StoreLocation) -> (Store, Uuid) {
    let store = open(location).await;
    store.ensure_format(&permit(), Uuid::nil(), 0).await.expect("it is written");
    write(&store, "before").await;
    let created = store.create_checkpoint(&permit(), &NewCheckpoint::default(), 0).await;
    match created.expect("the checkpoint is created") {
        CheckpointOutcome::Checkpoint(created) => (store, created.id),
        other => panic!("{other:?}"),
    }
}

async fn pinned(parent: &StoreLocation, of: Uuid) -> Uuid {
    match Store::pin(parent, of, "clone-1", 0).await.expect("the state is pinned") {
        CheckpointOutcome::Checkpoint(made) => made.id,
        other => panic!("{other:?}"),
    }
}

fn clone_of(pin: Uuid) -> CloneOf {
    CloneOf {
        parent_url: "memory:///parent".to_owned(),
        parent_catalog: Uuid::nil(),
        pin,
        pin_name: "clone-1".to_owned(),
        checkpoint: None,
        as_of_ms: 0,
        cloned_ms: 0,
    }
}

fn entry() -> Change {
    Change { action: ChangeAction::Clone.into(), ..change("") }
}

async fn finish(clone: &Store, pin: Uuid) -> Result<(), Error> {
    clone.become_clone(&permit(), Uuid::max(), &clone_of(pin), &entry()).await
}

/// Creates a clone of a pinned state.
async fn cloned(parent: &StoreLocation, pin: Uuid, target: &StoreLocation) -> Store {
    Store::share(parent, pin, target).await.expect("the clone's store is created");
    let clone = open(target).await;
    finish(&clone, pin).await.expect("the clone is complete");
    clone
}

async fn begun(parent: &StoreLocation, target: &StoreLocation) -> Option<Uuid> {
    Store::find_unfinished_clone(parent, target).await.expect("nothing else is there")
}

async fn paths(location: &StoreLocation, below: &str) -> Vec<String> {
    let below = Path::from(format!("{}/{below}", location.path));
    let listed = location.object_store.list(Some(&below));
    let mut paths: Vec<_> =
        listed.map(|meta| meta.expect("it is listed").location.to_string()).collect().await;
    paths.sort();
    paths
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_collection_keeps_shared_objects_until_the_pin_is_deleted() {
    let (parents, clones) = locations();
    let (store, checkpoint) = parent(&parents).await;
    let pin = pinned(&parents, checkpoint).await;
    assert!(
        store.delete_checkpoint(&permit(), checkpoint).await.expect("the checkpoint is deleted")
    );
    let shared = paths(&parents, "compacted").await;
    let clone = cloned(&parents, pin, &clones).await;
    write(&clone, "of-the-clone").await;
    clone.close().await.expect("the store closes");
    compact(&store).await;
    collect(&parents).await;
    let after = paths(&parents, "compacted").await;
    assert!(shared.iter().all(|path| after.contains(path)), "all shared objects still exist");

    let clone = open(&clones).await;
    assert!(has(&clone.latest(), "before").await && has(&clone.latest(), "of-the-clone").await);
    assert!(!has(&clone.latest(), "run-0").await && !has(&store.latest(), "of-the-clone").await);
    // The clone's garbage collection deletes neither the parent's objects nor the pin.
    compact(&clone).await;
    collect(&clones).await;
    assert_eq!(paths(&parents, "compacted").await, after);
    let checkpoints = store.checkpoints(0).await.expect("the checkpoints are listed");
    assert_eq!(checkpoints.iter().map(|checkpoints| checkpoints.id).collect::<Vec<_>>(), [pin]);
    assert!(checkpoints[0].for_clone && checkpoints[0].has_name_or_id("clone-1"));

    // Without the pin, the parent deletes objects that only the clone needs.
    assert!(store.delete_checkpoint(&permit(), pin).await.expect("the checkpoint is deleted"));
    collect(&parents).await;
    assert!(paths(&parents, "compacted").await.len() < after.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn clone_writes_only_its_pin_to_the_parent() {
    let (parents, clones) = locations();
    let (store, checkpoint) = parent(&parents).await;
    store.close().await.expect("the store closes");
    let pin = pinned(&parents, checkpoint).await;
    let others = paths(&parents, "compacted").await;
    let clone = cloned(&parents, pin, &clones).await;
    let manifests = paths(&parents, "manifest").await;
    write(&clone, "more").await;
    compact(&clone).await;
    clone.close().await.expect("the store closes");
    assert_eq!(paths(&parents, "manifest").await, manifests);
    assert_eq!(paths(&parents, "compacted").await, others);
    let kept = admin(&parents).list_checkpoints(None).await.expect("the checkpoints are listed");
    assert_eq!(kept.len(), 2, "the checkpoint and its pin: {kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_keys_stay_with_the_parent() {
    let (parents, clones) = locations();
    let store = open(&parents).await;
    let (id, seed) = (Uuid::max(), slateberg_base::secret::Secret::new("seed".to_owned()));
    let key = crate::records::SigningKeyRecord { id, seed, created_ms: 0 };
    let (key, shown) = (&key, permit());
    let written = store.transact("key", &shown, |t| async move { t.put(&SigningKeyKey(id), key) });
    let ((), accepted) = written.await.expect("it is accepted");
    accepted.durable().await.expect("it is durable");
    drop(store);
    let (store, checkpoint) = parent(&parents).await;
    let clone = cloned(&parents, pinned(&parents, checkpoint).await, &clones).await;
    let at = SigningKeyKey(id);
    assert!(store.latest().get(&at).await.expect("the store is readable").is_some());
    assert!(clone.latest().get(&at).await.expect("the store is readable").is_none());
    let format = clone
        .latest()
        .get(&StoreKey)
        .await
        .expect("the store is readable")
        .expect("the record exists");
    assert_eq!((format.format_version, format.catalog_id), (FORMAT_OF_CLONES, Uuid::max()));
    let kept = clone.ensure_format(&permit(), Uuid::nil(), 0).await.expect("it is known");
    assert_eq!(kept, format, "a later start does not change the record");
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_clone_can_be_resumed_and_is_not_served() {
    let (parents, clones) = locations();
    let (_store, checkpoint) = parent(&parents).await;
    assert_eq!(begun(&parents, &clones).await, None);
    let pin = pinned(&parents, checkpoint).await;
    Store::share(&parents, pin, &clones).await.expect("the clone's store is created");
    assert_eq!(begun(&parents, &clones).await, Some(pin));
    let clone = open(&clones).await;
    let rejection = clone.ensure_format(&permit(), Uuid::nil(), 0).await;
    assert!(matches!(rejection, Err(Error::UnfinishedClone)), "{rejection:?}");
    clone.close().await.expect("the store closes");
    Store::share(&parents, pin, &clones).await.expect("the clone's store is created");
    let clone = open(&clones).await;
    finish(&clone, pin).await.expect("the clone is complete");
    assert!(matches!(finish(&clone, pin).await, Err(Error::NotEmpty)));
    let done = Store::find_unfinished_clone(&parents, &clones).await;
    assert!(matches!(done, Err(Error::NotEmpty)), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clone_into_an_occupied_location_is_rejected() {
    let (parents, clones) = locations();
    let (_store, checkpoint) = parent(&parents).await;
    let pin = pinned(&parents, checkpoint).await;
    let strange = Path::from("clone/strange");
    clones.object_store.put(&strange, "x".into()).await.expect("there is room");
    let rejection = Store::find_unfinished_clone(&parents, &clones).await;
    assert!(matches!(rejection, Err(Error::NotEmpty)), "{rejection:?}");
    let rejection = Store::share(&parents, pin, &clones).await;
    assert!(matches!(rejection, Err(Error::NotEmpty)), "{rejection:?}");
    assert_eq!(paths(&clones, "").await, ["clone/strange"]);
    // Two other occupied locations: one with another catalog, and one with a clone of another
    // catalog.
    for path in ["other", "third"] {
        let inner = Arc::clone(&parents.object_store);
        let other = StoreLocation { object_store: inner, path: path.to_owned(), ..parents.clone() };
        if path == "other" {
            open(&other).await.close().await.expect("the store closes");
        } else {
            let (_, checkpoint) =
                parent(&StoreLocation { path: "fourth".to_owned(), ..other.clone() }).await;
            let fourth = StoreLocation { path: "fourth".to_owned(), ..other.clone() };
            let pin = pinned(&fourth, checkpoint).await;
            Store::share(&fourth, pin, &other).await.expect("the clone's store is created");
        }
        let rejection = Store::find_unfinished_clone(&parents, &other).await;
        assert!(matches!(rejection, Err(Error::NotEmpty)), "{path}: {rejection:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_clone_writes_with_its_own_key() {
    let (parents, clones, _file) = encrypted_locations();
    let (store, checkpoint) = parent(&parents).await;
    let pin = pinned(&parents, checkpoint).await;
    let clone = cloned(&parents, pin, &clones).await;
    assert_ne!(clone.encrypted_catalog(), store.encrypted_catalog());
    write(&clone, "of-the-clone").await;
    compact(&clone).await;
    clone.close().await.expect("the store closes");
    compact(&store).await;
    collect(&parents).await;
    let clone = open(&clones).await;
    assert!(has(&clone.latest(), "before").await && has(&clone.latest(), "of-the-clone").await);
    // The two stores write with different keys.
    let numbers = |store: &Store| store.shared.unlocked.as_ref().map(|it| it.keys.active());
    assert_eq!((numbers(&store), numbers(&clone)), (Some(1), Some(2)));
    let of_clone = paths(&clones, "manifest").await.pop().expect("there is one");
    let bytes = clones.object_store.get(&Path::from(of_clone)).await.expect("it is there");
    assert_eq!(bytes.bytes().await.expect("the store is readable")[..5], [1, 0, 0, 0, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn parent_object_at_a_path_of_the_clone_is_rejected() {
    let (parents, clones, _file) = encrypted_locations();
    let (store, checkpoint) = parent(&parents).await;
    let pin = pinned(&parents, checkpoint).await;
    let clone = cloned(&parents, pin, &clones).await;
    clone.close().await.expect("the store closes");
    // Writes more manifests of the parent. Then each manifest of the clone has the same name as a
    // manifest of the parent.
    compact(&store).await;
    store.close().await.expect("it closes");
    // An object of the parent, sealed with real keys, replaces the clone's manifest of the same
    // name.
    let newest = paths(&clones, "manifest").await.pop().expect("there is one");
    let name = newest.strip_prefix("clone/").expect("it is the clone's");
    let theirs = Path::from(format!("parent/{name}"));
    let bucket = &clones.object_store;
    let found = bucket.get(&theirs).await.expect("the parent has one of that name");
    let bytes = found.bytes().await.expect("the store is readable");
    bucket.put(&Path::from(newest.as_str()), bytes.into()).await.expect("there is room");
    let opened = Store::open(&clones, Settings::default()).await;
    assert!(matches!(opened.err(), Some(Error::Encryption(_))), "the parent's object is rejected");
}

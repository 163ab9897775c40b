//! Clones with garbage collection and compactions, and objects in wrong places.

use std::io::Write;

use slatedb::object_store::ObjectStoreExt;
use slatedb::object_store::memory::InMemory;
use tempfile::NamedTempFile;

use super::*;
use crate::checkpoints::NewCheckpoint;
use crate::encryption::Encryption;
use crate::keys::SigningKeyKey;
use crate::settings::Settings;
use crate::trying::{collect, compact, has, open, permit, place, write};
use slateberg_base::clock::SystemClock;
use slateberg_base::ids::RandomIds;
use slateberg_kms::local::LocalKms;

/// Returns locations for a parent and its clone.
fn places() -> (Place, Place) {
    let bucket = Arc::new(InMemory::new());
    (place(&bucket, "parent"), place(&bucket, "clone"))
}

/// Returns the locations of encrypted stores, with the file of their wrapping key.
fn encrypted_places() -> (Place, Place, NamedTempFile) {
    let mut file = NamedTempFile::new().expect("there is room");
    writeln!(file, "{}=", "A".repeat(43)).expect("there is room");
    let encryption = Encryption {
        kms: Arc::new(LocalKms::open(file.path()).expect("it is a key file")),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
    };
    let (parent, clone) = places();
    let sealed = |place: Place| Place { encryption: Some(encryption.clone()), ..place };
    (sealed(parent), sealed(clone), file)
}

/// Creates a store with a record, and a checkpoint of it.
async fn parent(place: &Place) -> (Store, Uuid) {
    let store = open(place).await;
    store.ensure_format(&permit(), Uuid::nil(), 0).await.expect("it is written");
    write(&store, "before").await;
    let made = store.create_checkpoint(&permit(), &NewCheckpoint::default(), 0).await;
    match made.expect("it is made") {
        Made::Checkpoint(made) => (store, made.id),
        other => panic!("{other:?}"),
    }
}

async fn pinned(parent: &Place, of: Uuid) -> Uuid {
    match Store::pin(parent, of, "clone-1", 0).await.expect("it is pinned") {
        Made::Checkpoint(made) => made.id,
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
    Change {
        at_ms: 0,
        action: "clone".to_owned(),
        principal: "test".to_owned(),
        warehouse: Uuid::nil(),
        subject: Uuid::nil(),
        name: String::new(),
        version_before: None,
        version_after: None,
        allowed: None,
        origin: None,
    }
}

async fn finish(clone: &Store, pin: Uuid) -> Result<(), Error> {
    clone.become_clone(&permit(), Uuid::max(), &clone_of(pin), &entry()).await
}

/// Creates a clone of a pinned state.
async fn cloned(parent: &Place, pin: Uuid, target: &Place) -> Store {
    Store::share(parent, pin, target).await.expect("it is shared");
    let clone = open(target).await;
    finish(&clone, pin).await.expect("it is a clone");
    clone
}

async fn begun(parent: &Place, target: &Place) -> Option<Uuid> {
    Store::begun_clone(parent, target).await.expect("nothing else is there")
}

async fn paths(place: &Place, below: &str) -> Vec<String> {
    let below = Path::from(format!("{}/{below}", place.path));
    let listed = place.object_store.list(Some(&below));
    let mut paths: Vec<_> =
        listed.map(|meta| meta.expect("it is listed").location.to_string()).collect().await;
    paths.sort();
    paths
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_collection_passes_by_what_a_clone_needs_until_its_pin_goes() {
    let (parents, clones) = places();
    let (store, checkpoint) = parent(&parents).await;
    let pin = pinned(&parents, checkpoint).await;
    assert!(store.delete_checkpoint(&permit(), checkpoint).await.expect("it is deleted"));
    let shared = paths(&parents, "compacted").await;
    let clone = cloned(&parents, pin, &clones).await;
    write(&clone, "of-the-clone").await;
    clone.close().await.expect("it closes");
    compact(&store).await;
    collect(&parents).await;
    let after = paths(&parents, "compacted").await;
    assert!(shared.iter().all(|path| after.contains(path)), "what is shared is there");

    let clone = open(&clones).await;
    assert!(has(&clone.latest(), "before").await && has(&clone.latest(), "of-the-clone").await);
    assert!(!has(&clone.latest(), "run-0").await && !has(&store.latest(), "of-the-clone").await);
    // The clone's garbage collection skips the parent's objects, and its pin.
    compact(&clone).await;
    collect(&clones).await;
    assert_eq!(paths(&parents, "compacted").await, after);
    let known = store.checkpoints(0).await.expect("they are listed");
    assert_eq!(known.iter().map(|known| known.id).collect::<Vec<_>>(), [pin]);
    assert!(known[0].for_clone && known[0].is_called("clone-1"));

    // Without the pin, the parent deletes objects that only the clone needs.
    assert!(store.delete_checkpoint(&permit(), pin).await.expect("it is deleted"));
    collect(&parents).await;
    assert!(paths(&parents, "compacted").await.len() < after.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_clone_is_written_to_its_parent_but_the_pin() {
    let (parents, clones) = places();
    let (store, checkpoint) = parent(&parents).await;
    store.close().await.expect("it closes");
    let pin = pinned(&parents, checkpoint).await;
    let others = paths(&parents, "compacted").await;
    let clone = cloned(&parents, pin, &clones).await;
    let manifests = paths(&parents, "manifest").await;
    write(&clone, "more").await;
    compact(&clone).await;
    clone.close().await.expect("it closes");
    assert_eq!(paths(&parents, "manifest").await, manifests);
    assert_eq!(paths(&parents, "compacted").await, others);
    let kept = admin(&parents).list_checkpoints(None).await.expect("they are listed");
    assert_eq!(kept.len(), 2, "the checkpoint and its pin: {kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_one_of_two_may_have_stays_with_the_parent() {
    let (parents, clones) = places();
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
    assert!(store.latest().get(&at).await.expect("it is read").is_some());
    assert!(clone.latest().get(&at).await.expect("it is read").is_none());
    let format = clone.latest().get(&StoreKey).await.expect("it is read").expect("it is there");
    assert_eq!((format.format_version, format.catalog_id), (FORMAT_OF_CLONES, Uuid::max()));
    let kept = clone.ensure_format(&permit(), Uuid::nil(), 0).await.expect("it is known");
    assert_eq!(kept, format, "a later start changes nothing of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_that_was_begun_is_gone_on_with_and_served_by_nobody() {
    let (parents, clones) = places();
    let (_store, checkpoint) = parent(&parents).await;
    assert_eq!(begun(&parents, &clones).await, None);
    let pin = pinned(&parents, checkpoint).await;
    Store::share(&parents, pin, &clones).await.expect("it is shared");
    assert_eq!(begun(&parents, &clones).await, Some(pin));
    let clone = open(&clones).await;
    let refused = clone.ensure_format(&permit(), Uuid::nil(), 0).await;
    assert!(matches!(refused, Err(Error::UnfinishedClone)), "{refused:?}");
    clone.close().await.expect("it closes");
    Store::share(&parents, pin, &clones).await.expect("it is shared already");
    let clone = open(&clones).await;
    finish(&clone, pin).await.expect("it is a clone");
    assert!(matches!(finish(&clone, pin).await, Err(Error::NotEmpty)));
    let done = Store::begun_clone(&parents, &clones).await;
    assert!(matches!(done, Err(Error::NotEmpty)), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_taken_is_left_alone() {
    let (parents, clones) = places();
    let (_store, checkpoint) = parent(&parents).await;
    let pin = pinned(&parents, checkpoint).await;
    let strange = Path::from("clone/strange");
    clones.object_store.put(&strange, "x".into()).await.expect("there is room");
    let refused = Store::begun_clone(&parents, &clones).await;
    assert!(matches!(refused, Err(Error::NotEmpty)), "{refused:?}");
    let refused = Store::share(&parents, pin, &clones).await;
    assert!(matches!(refused, Err(Error::NotEmpty)), "{refused:?}");
    assert_eq!(paths(&clones, "").await, ["clone/strange"]);
    // Another catalog, and a clone of another one.
    for path in ["other", "third"] {
        let inner = Arc::clone(&parents.object_store);
        let other = Place { object_store: inner, path: path.to_owned(), ..parents.clone() };
        if path == "other" {
            open(&other).await.close().await.expect("it closes");
        } else {
            let (_, checkpoint) =
                parent(&Place { path: "fourth".to_owned(), ..other.clone() }).await;
            let fourth = Place { path: "fourth".to_owned(), ..other.clone() };
            let pin = pinned(&fourth, checkpoint).await;
            Store::share(&fourth, pin, &other).await.expect("it is shared");
        }
        let refused = Store::begun_clone(&parents, &other).await;
        assert!(matches!(refused, Err(Error::NotEmpty)), "{path}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_clone_writes_with_a_key_of_its_own() {
    let (parents, clones, _file) = encrypted_places();
    let (store, checkpoint) = parent(&parents).await;
    let pin = pinned(&parents, checkpoint).await;
    let clone = cloned(&parents, pin, &clones).await;
    assert_ne!(clone.encrypted_catalog(), store.encrypted_catalog());
    write(&clone, "of-the-clone").await;
    compact(&clone).await;
    clone.close().await.expect("it closes");
    compact(&store).await;
    collect(&parents).await;
    let clone = open(&clones).await;
    assert!(has(&clone.latest(), "before").await && has(&clone.latest(), "of-the-clone").await);
    // Neither sees later writes of the other.
    let numbers = |store: &Store| store.shared.unlocked.as_ref().map(|it| it.keys.active());
    assert_eq!((numbers(&store), numbers(&clone)), (Some(1), Some(2)));
    let of_clone = paths(&clones, "manifest").await.pop().expect("there is one");
    let bytes = clones.object_store.get(&Path::from(of_clone)).await.expect("it is there");
    assert_eq!(bytes.bytes().await.expect("it is read")[..5], [1, 0, 0, 0, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_the_parent_does_not_pass_for_one_of_the_clone() {
    let (parents, clones, _file) = encrypted_places();
    let (store, checkpoint) = parent(&parents).await;
    let pin = pinned(&parents, checkpoint).await;
    let clone = cloned(&parents, pin, &clones).await;
    clone.close().await.expect("it closes");
    // Gives the parent manifests with all the names that the clone has.
    compact(&store).await;
    store.close().await.expect("it closes");
    // The same name below the store, the clone's keys, and a real object of the parent.
    let newest = paths(&clones, "manifest").await.pop().expect("there is one");
    let name = newest.strip_prefix("clone/").expect("it is the clone's");
    let theirs = Path::from(format!("parent/{name}"));
    let bucket = &clones.object_store;
    let found = bucket.get(&theirs).await.expect("the parent has one of that name");
    let bytes = found.bytes().await.expect("it is read");
    bucket.put(&Path::from(newest.as_str()), bytes.into()).await.expect("there is room");
    let opened = Store::open(&clones, Settings::default()).await;
    assert!(matches!(opened.err(), Some(Error::Encryption(_))), "it is told from the clone's own");
}

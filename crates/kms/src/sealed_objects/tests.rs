//! Tests that a read of a sealed object, or of a range, returns the original data. If the object
//! was tampered with, the read must return an error.

use std::io::Write;

use proptest::prelude::*;
use slatedb::object_store::memory::InMemory;
use tempfile::NamedTempFile;
use uuid::Uuid;

use super::*;
use crate::local::LocalKms;
use crate::ring::Ring;

async fn keys() -> Arc<Keys> {
    let mut file = NamedTempFile::new().expect("there is room");
    writeln!(file, "{}=", "A".repeat(43)).expect("there is room");
    let kms = LocalKms::open(file.path()).expect("it is a key file");
    let (_, keys) = Ring::create(&kms, Uuid::max(), 0).await.expect("the key wraps");
    Arc::new(keys)
}

/// Returns an object store with sealed objects, and the object store that contains them.
async fn stores() -> (SealedObjects, Arc<InMemory>) {
    let inner = Arc::new(InMemory::new());
    let below = Path::from("a/store");
    (SealedObjects::new(Arc::clone(&inner) as _, below, keys().await), inner)
}

fn path() -> Path {
    Path::from("a/store/manifest/1")
}

fn text(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

const CHUNK: usize = PLAIN_CHUNK_BYTES as usize;
/// Lengths around chunk boundaries.
const LENGTHS: [usize; 8] = [0, 1, 100, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 7];

#[tokio::test]
async fn object_round_trips_with_its_size() {
    let (store, inner) = stores().await;
    for length in LENGTHS {
        store.put(&path(), text(length).into()).await.expect("there is room");
        let got = store.get(&path()).await.expect("it is there");
        assert_eq!((got.meta.size, got.range.clone()), (length as u64, 0..length as u64));
        assert_eq!(got.bytes().await.expect("it opens"), text(length));
        assert_eq!(store.head(&path()).await.expect("it is there").size, length as u64);
        let listed: Vec<_> = store.list(None).try_collect().await.expect("it is listed");
        assert_eq!(listed[0].size, length as u64);
        let raw = inner.get(&path()).await.expect("it is there").bytes().await.expect("bytes");
        assert_eq!(plain_size(raw.len() as u64), Some(length as u64));
        assert!(length < 100 || !raw.windows(50).any(|window| window == &text(100)[..50]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ranges_equal_those_of_the_plain_object(
        length in 1..3 * CHUNK,
        start in 0..3 * CHUNK,
        end in 0..4 * CHUNK,
        kind in 0..3,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let got = runtime.block_on(async {
            let (store, plain) = (stores().await.0, InMemory::new());
            let range = match kind {
                0 => GetRange::Bounded(start as u64..end as u64),
                1 => GetRange::Offset(start as u64),
                _ => GetRange::Suffix(start as u64 + 1),
            };
            let mut results = Vec::new();
            for store in [&store as &dyn ObjectStore, &plain] {
                store.put(&path(), text(length).into()).await.expect("there is room");
                let options = GetOptions { range: Some(range.clone()), ..GetOptions::default() };
                results.push(match store.get_opts(&path(), options).await {
                    Ok(got) => Some((got.range.clone(), got.bytes().await.expect("it opens"))),
                    Err(_) => None,
                });
            }
            results
        });
        prop_assert_eq!(&got[0], &got[1]);
    }
}

#[tokio::test]
async fn multipart_upload_is_one_object() {
    let (store, _) = stores().await;
    for lengths in [vec![], vec![0], vec![10], vec![CHUNK, CHUNK], vec![1, CHUNK, 5, 3 * CHUNK]] {
        let mut upload = store.put_multipart(&path()).await.expect("it begins");
        let whole = text(lengths.iter().sum());
        let mut at = 0;
        for length in lengths {
            let part = Bytes::copy_from_slice(&whole[at..at + length]);
            upload.put_part(part.into()).await.expect("there is room");
            at += length;
        }
        upload.complete().await.expect("it ends");
        let got = store.get(&path()).await.expect("it is there").bytes().await;
        assert_eq!(got.expect("it opens"), whole);
    }
}

/// Reads an object whose sealed bytes are `raw`.
async fn read(store: &SealedObjects, inner: &InMemory, raw: Vec<u8>) -> Result<Bytes> {
    inner.put(&path(), raw.into()).await.expect("there is room");
    store.get(&path()).await?.bytes().await
}

#[tokio::test]
async fn tampered_object_is_rejected_without_retry() {
    let (store, inner) = stores().await;
    store.put(&path(), text(2 * CHUNK + 5).into()).await.expect("there is room");
    let raw = inner.get(&path()).await.expect("it is there").bytes().await.expect("bytes").to_vec();
    for at in (0..raw.len()).step_by(97) {
        let mut flipped = raw.clone();
        flipped[at] ^= 4;
        let error = read(&store, &inner, flipped).await.expect_err("a bit was flipped");
        assert!(NonRetryable::find(&error).is_some(), "{error}");
    }
    let sealed = SEALED_CHUNK_BYTES as usize;
    for length in [0, 1, OVERHEAD, sealed - 1, sealed, sealed + 1, 2 * sealed, raw.len() - 1] {
        let cut = read(&store, &inner, raw[..length].to_vec()).await;
        assert!(cut.is_err(), "cut to {length}");
    }
    let swapped = [&raw[sealed..2 * sealed], &raw[..sealed], &raw[2 * sealed..]].concat();
    assert!(read(&store, &inner, swapped).await.is_err(), "chunks were swapped");
    let longer = [&raw[..], &raw[2 * sealed..]].concat();
    assert!(read(&store, &inner, longer).await.is_err(), "a chunk was added");
    let elsewhere = Path::from("a/store/manifest/2");
    inner.put(&elsewhere, raw.clone().into()).await.expect("there is room");
    assert!(store.get(&elsewhere).await.is_err(), "the object was moved");
    assert!(store.get(&path()).await.is_err());
    assert_eq!(read(&store, &inner, raw).await.expect("it is whole"), text(2 * CHUNK + 5));
}

#[tokio::test]
async fn sealed_store_can_be_moved() {
    let (store, inner) = stores().await;
    store.put(&path(), text(5).into()).await.expect("there is room");
    inner.rename(&path(), &Path::from("b/manifest/1")).await.expect("it is there");
    let moved = SealedObjects::new(inner, Path::from("b"), Arc::clone(&store.sealer.keys));
    let got = moved.get(&Path::from("b/manifest/1")).await.expect("it is there");
    assert_eq!(got.bytes().await.expect("it opens"), text(5));
}

#[tokio::test]
async fn clone_reads_parent_objects_and_cannot_write_them() {
    let (parent, inner) = stores().await;
    let theirs = path();
    parent.put(&theirs, text(100).into()).await.expect("there is room");
    let own = SealedObjects::new(Arc::clone(&inner) as _, Path::from("a/clone"), keys().await);
    let keys = Arc::clone(&parent.sealer.keys);
    let clone = own.sharing(Path::from("a/store"), keys, Access::Read);
    let got = clone.get(&theirs).await.expect("it is there");
    assert_eq!(got.bytes().await.expect("it opens"), text(100));
    assert!(clone.put(&theirs, text(1).into()).await.is_err());
    assert!(clone.put_multipart(&theirs).await.is_err());
    assert!(clone.delete(&theirs).await.is_err());
    let mine = Path::from("a/clone/manifest/1");
    clone.put(&mine, text(7).into()).await.expect("it is its own");
    assert!(parent.get(&mine).await.is_err(), "the clone's object has other keys");
    // The parent's object replaces the clone's own object with the same name.
    inner.copy(&theirs, &mine).await.expect("there is room");
    assert!(clone.get(&mine).await.is_err());
    clone.delete(&mine).await.expect("the object belongs to the clone");
    // A path that has the parent's path as a string prefix is not below it.
    let beside = Path::from("a/store-2/x");
    clone.put(&beside, text(1).into()).await.expect("the object does not belong to the parent");
    assert_eq!(parent.get(&theirs).await.expect("it is there").meta.size, 100);
}

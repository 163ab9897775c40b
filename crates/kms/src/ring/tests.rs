//! Tests that a ring is unlocked only if it is unchanged.

use std::error::Error as StdError;
use std::io::Write;

use tempfile::NamedTempFile;

use super::*;
use crate::keys::Purpose;
use crate::local::LocalKms;

const CATALOG: Uuid = Uuid::max();

/// Creates a file with these wrapping keys. Returns its KMS and the file.
fn kms(keys: &[u8]) -> (LocalKms, NamedTempFile) {
    let mut file = NamedTempFile::new().expect("there is room");
    write(&mut file, keys);
    (LocalKms::open(file.path()).expect("it is a key file"), file)
}

fn write(file: &mut NamedTempFile, keys: &[u8]) {
    file.as_file().set_len(0).expect("it can be emptied");
    let text: String = keys.iter().map(|key| STANDARD.encode([*key; 32]) + "\n").collect();
    std::fs::write(file.path(), text).expect("there is room");
    file.flush().expect("there is room");
}

async fn new_ring(kms: &LocalKms) -> (Ring, Keys) {
    Ring::create(kms, CATALOG, 5).await.expect("the key wraps")
}

#[tokio::test]
async fn ring_round_trips_with_its_keys() {
    let (kms, _file) = kms(&[1]);
    let (ring, keys) = new_ring(&kms).await;
    let back = Ring::from_bytes(&ring.to_bytes().expect("it is JSON")).expect("it is a ring");
    assert_eq!(back, ring);
    let sealed = keys.seal(Purpose::Block, b"text").expect("it is short");
    let unlocked = back.unlock(&kms).await.expect("it is the same file");
    assert_eq!(unlocked.open(Purpose::Block, &sealed).ok().as_deref(), Some(&b"text"[..]));
}

#[tokio::test]
async fn flipped_bit_in_a_ring_is_rejected() {
    let (kms, _file) = kms(&[1]);
    let (ring, keys) = new_ring(&kms).await;
    let (ring, _) = ring.rotate(&kms, &keys, 6).await.expect("the key wraps");
    let bytes = ring.to_bytes().expect("it is JSON");
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let unlocked = match Ring::from_bytes(&flipped) {
            Ok(ring) => ring.unlock(&kms).await.map(|_| ()),
            Err(error) => Err(error),
        };
        assert!(unlocked.is_err(), "bit {bit}: {}", String::from_utf8_lossy(&flipped));
    }
}

#[tokio::test]
async fn resetting_the_active_key_is_rejected() {
    let (kms, _file) = kms(&[1]);
    let (ring, keys) = new_ring(&kms).await;
    let (rotated, _) = ring.rotate(&kms, &keys, 6).await.expect("the key wraps");
    let set_back = Ring { active: 1, ..rotated };
    let rejection = set_back.unlock(&kms).await.map(|_| ()).expect_err("the ring was changed");
    assert!(matches!(rejection, Error::Ring(_)), "{rejection}");
    assert!(rejection.to_string().ends_with(": its MAC does not match"), "{rejection}");
}

#[tokio::test]
async fn rotated_ring_opens_data_of_all_its_keys() {
    let (kms, _file) = kms(&[1]);
    let (mut ring, mut keys) = new_ring(&kms).await;
    let mut sealed = vec![keys.seal(Purpose::Block, &[1]).expect("it is short")];
    for number in 2..=4 {
        (ring, keys) = ring.rotate(&kms, &keys, i64::from(number)).await.expect("the key wraps");
        assert_eq!((ring.active(), ring.revision()), (number, u64::from(number)));
        sealed.push(keys.seal(Purpose::Block, &[number as u8]).expect("it is short"));
    }
    let keys = ring.unlock(&kms).await.expect("all are wrapped by one key");
    for (index, sealed) in sealed.iter().enumerate() {
        assert_eq!(keys.open(Purpose::Block, sealed).ok(), Some(vec![index as u8 + 1]));
    }
}

#[tokio::test]
async fn rewrapped_ring_does_not_need_the_old_wrapping_key() {
    let (kms, mut file) = kms(&[1]);
    let (ring, keys) = new_ring(&kms).await;
    let (ring, rotated) = ring.rotate(&kms, &keys, 6).await.expect("the key wraps");
    keys.take_over(&rotated).expect("the active key is there");
    write(&mut file, &[2, 1]);
    let rewrapped = ring.rewrap(&kms, (&keys, None), None, 7).await.expect("the key wraps");
    write(&mut file, &[2]);
    assert!(ring.unlock(&kms).await.is_err(), "it is still wrapped by the old key");
    let unlocked = rewrapped.unlock(&kms).await.expect("it is wrapped by the new key");
    assert_eq!(unlocked.active(), 2);
    let times: Vec<_> = rewrapped.data_keys().map(|key| (key.created_ms, key.wrapped_ms)).collect();
    assert_eq!(times, [(5, 7), (6, 7)]);
}

#[tokio::test]
async fn ring_of_another_kms_kind_is_rejected_by_name() {
    let (kms, _file) = kms(&[1]);
    let (mut ring, _) = new_ring(&kms).await;
    ring.data_keys[0].kms = "aws".to_owned();
    let error = ring.unlock(&kms).await.map(|_| ()).expect_err("it is not local");
    assert!(error.to_string().contains("wrapped by KMS \"aws\""), "{error}");
}

#[tokio::test]
async fn clone_ring_opens_parent_data_and_seals_with_its_own_key() {
    let (kms, mut file) = kms(&[1]);
    let (parents, parent_keys) = new_ring(&kms).await;
    let (parents, rotated) = parents.rotate(&kms, &parent_keys, 6).await.expect("the key wraps");
    parent_keys.take_over(&rotated).expect("the active key is there");
    let (ring, own) = parents.cloned(&kms, "a/parent", Uuid::nil(), 7).await.expect("it wraps");
    let ring = Ring::from_bytes(&ring.to_bytes().expect("it is JSON")).expect("it is a ring");
    assert_eq!((ring.catalog(), ring.active(), own.active()), (Uuid::nil(), 3, 3));
    let numbers: Vec<_> = ring.data_keys().map(|key| key.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let inherited =
        ring.unlock_inherited(&kms, None).await.expect("the ring unlocks").expect("a clone's ring");
    let sealed = parent_keys.seal(Purpose::Block, b"text").expect("it is short");
    assert!(inherited.knows(&sealed) && !own.knows(&sealed));
    assert_eq!(inherited.open(Purpose::Block, &sealed).ok().as_deref(), Some(&b"text"[..]));
    assert!(own.open(Purpose::Block, &sealed).is_err());
    let sealed = own.seal(Purpose::Block, b"text").expect("it is short");
    assert!(!inherited.knows(&sealed) && inherited.open(Purpose::Block, &sealed).is_err());

    // All keys are rewrapped: the clone's own keys and the inherited keys. They no longer require
    // the old wrapping key.
    write(&mut file, &[2, 1]);
    let known = (&own, Some(&inherited));
    let rewrapped = ring.rewrap(&kms, known, None, 8).await.expect("the key wraps");
    assert!(ring.rewrap(&kms, (&own, None), None, 8).await.is_err());
    write(&mut file, &[2]);
    rewrapped.unlock(&kms).await.expect("it is wrapped by the new key");
    rewrapped.unlock_inherited(&kms, None).await.expect("the inherited keys are rewrapped, too");
    assert!(ring.unlock_inherited(&kms, None).await.is_err(), "it is still wrapped by the old key");
    assert!(
        ring.cloned(&kms, "a/clone", Uuid::max(), 9).await.is_err(),
        "it is the ring of a clone"
    );
}

#[tokio::test]
async fn changed_parent_of_a_clone_ring_is_rejected() {
    let (kms, _file) = kms(&[1]);
    let (parents, _) = new_ring(&kms).await;
    let (ring, _) = parents.cloned(&kms, "a/parent", Uuid::nil(), 7).await.expect("it wraps");
    let text = String::from_utf8(ring.to_bytes().expect("it is JSON")).expect("it is text");
    for changed in [
        text.replace("a/parent", "a/Parent"),
        text.replace(&CATALOG.to_string(), &Uuid::from_u128(1).to_string()),
        text.replace("\"form\": 2", "\"form\": 1"),
    ] {
        assert_ne!(changed, text);
        let unlocked = match Ring::from_bytes(changed.as_bytes()) {
            Ok(ring) => ring.unlock(&kms).await.map(|_| ()),
            Err(error) => Err(error),
        };
        assert!(unlocked.is_err(), "{changed}");
    }
}

#[test]
fn error_of_a_damaged_ring_keeps_its_source() {
    let error = Ring::from_bytes(b"{").expect_err("it is no JSON");
    let source = error.source().and_then(StdError::source);
    assert!(source.is_some_and(|source| source.is::<serde_json::Error>()), "{error:?}");
    assert!(error.to_string().starts_with("the key ring is damaged or was tampered with: EOF"));
}

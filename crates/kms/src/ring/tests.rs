//! A ring is unlocked unchanged, or not at all.

use std::io::Write;

use tempfile::NamedTempFile;

use super::*;
use crate::keys::Purpose;
use crate::local::LocalKms;

const CATALOG: Uuid = Uuid::max();

/// A file with these wrapping keys, and its KMS.
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

async fn found(kms: &LocalKms) -> (Ring, Keys) {
    Ring::found(kms, CATALOG, 5).await.expect("the key wraps")
}

#[tokio::test]
async fn a_ring_comes_back_with_its_keys() {
    let (kms, _file) = kms(&[1]);
    let (ring, keys) = found(&kms).await;
    let back = Ring::from_bytes(&ring.to_bytes().expect("it is JSON")).expect("it is a ring");
    assert_eq!(back, ring);
    let sealed = keys.seal(Purpose::Block, b"text").expect("it is short");
    let unlocked = back.unlock(&kms).await.expect("it is the same file");
    assert_eq!(unlocked.open(Purpose::Block, &sealed).as_deref(), Ok(&b"text"[..]));
}

#[tokio::test]
async fn no_flipped_bit_goes_by() {
    let (kms, _file) = kms(&[1]);
    let (ring, keys) = found(&kms).await;
    let (ring, _) = ring.rotated(&kms, &keys, 6).await.expect("the key wraps");
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
async fn the_active_key_cannot_be_set_back() {
    let (kms, _file) = kms(&[1]);
    let (ring, keys) = found(&kms).await;
    let (rotated, _) = ring.rotated(&kms, &keys, 6).await.expect("the key wraps");
    let set_back = Ring { active: 1, ..rotated };
    let refused = set_back.unlock(&kms).await.map(|_| ());
    assert_eq!(refused, Err(Error::Ring("its MAC does not fit".to_owned())));
}

#[tokio::test]
async fn a_rotated_ring_opens_what_all_its_keys_have_sealed() {
    let (kms, _file) = kms(&[1]);
    let (mut ring, mut keys) = found(&kms).await;
    let mut sealed = vec![keys.seal(Purpose::Block, &[1]).expect("it is short")];
    for number in 2..=4 {
        (ring, keys) = ring.rotated(&kms, &keys, i64::from(number)).await.expect("the key wraps");
        assert_eq!((ring.active(), ring.revision()), (number, u64::from(number)));
        sealed.push(keys.seal(Purpose::Block, &[number as u8]).expect("it is short"));
    }
    let keys = ring.unlock(&kms).await.expect("all are wrapped by one key");
    for (index, sealed) in sealed.iter().enumerate() {
        assert_eq!(keys.open(Purpose::Block, sealed), Ok(vec![index as u8 + 1]));
    }
}

#[tokio::test]
async fn wrapped_anew_it_needs_the_old_key_no_more() {
    let (kms, mut file) = kms(&[1]);
    let (ring, keys) = found(&kms).await;
    let (ring, rotated) = ring.rotated(&kms, &keys, 6).await.expect("the key wraps");
    keys.take_over(&rotated).expect("the active key is there");
    write(&mut file, &[2, 1]);
    let rewrapped = ring.rewrapped(&kms, (&keys, None), None, 7).await.expect("the key wraps");
    write(&mut file, &[2]);
    assert!(ring.unlock(&kms).await.is_err(), "it is still wrapped by the old key");
    let unlocked = rewrapped.unlock(&kms).await.expect("it is wrapped by the new key");
    assert_eq!(unlocked.active(), 2);
    let times: Vec<_> = rewrapped.data_keys().map(|key| (key.created_ms, key.wrapped_ms)).collect();
    assert_eq!(times, [(5, 7), (6, 7)]);
}

#[tokio::test]
async fn a_ring_of_another_kind_of_kms_is_refused_with_its_name() {
    let (kms, _file) = kms(&[1]);
    let (mut ring, _) = found(&kms).await;
    ring.data_keys[0].kms = "aws".to_owned();
    let refused = ring.unlock(&kms).await.map(|_| ()).expect_err("it is not local");
    assert!(refused.to_string().contains("wrapped by KMS \"aws\""), "{refused}");
}

#[tokio::test]
async fn a_clone_opens_what_its_parent_has_sealed_and_seals_with_its_own() {
    let (kms, mut file) = kms(&[1]);
    let (parents, parent_keys) = found(&kms).await;
    let (parents, rotated) = parents.rotated(&kms, &parent_keys, 6).await.expect("the key wraps");
    parent_keys.take_over(&rotated).expect("the active key is there");
    let (ring, own) = parents.cloned(&kms, "a/parent", Uuid::nil(), 7).await.expect("it wraps");
    let ring = Ring::from_bytes(&ring.to_bytes().expect("it is JSON")).expect("it is a ring");
    assert_eq!((ring.catalog(), ring.active(), own.active()), (Uuid::nil(), 3, 3));
    let numbers: Vec<_> = ring.data_keys().map(|key| key.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let inherited = ring.unlock_inherited(&kms).await.expect("it unlocks").expect("it has some");
    let sealed = parent_keys.seal(Purpose::Block, b"text").expect("it is short");
    assert!(inherited.knows(&sealed) && !own.knows(&sealed));
    assert_eq!(inherited.open(Purpose::Block, &sealed).as_deref(), Ok(&b"text"[..]));
    assert!(own.open(Purpose::Block, &sealed).is_err());
    let sealed = own.seal(Purpose::Block, b"text").expect("it is short");
    assert!(!inherited.knows(&sealed) && inherited.open(Purpose::Block, &sealed).is_err());

    // Both the own and the inherited keys are rewrapped, and no longer require the old wrapping
    // key.
    write(&mut file, &[2, 1]);
    let known = (&own, Some(&inherited));
    let rewrapped = ring.rewrapped(&kms, known, None, 8).await.expect("the key wraps");
    assert!(ring.rewrapped(&kms, (&own, None), None, 8).await.is_err());
    write(&mut file, &[2]);
    rewrapped.unlock(&kms).await.expect("it is wrapped by the new key");
    rewrapped.unlock_inherited(&kms).await.expect("it is, too");
    assert!(ring.unlock_inherited(&kms).await.is_err(), "it is still wrapped by the old key");
    assert!(ring.cloned(&kms, "a/clone", Uuid::max(), 9).await.is_err(), "it is a clone's");
}

#[tokio::test]
async fn nobody_gives_a_clone_another_parent() {
    let (kms, _file) = kms(&[1]);
    let (parents, _) = found(&kms).await;
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

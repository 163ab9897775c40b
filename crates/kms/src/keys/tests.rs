//! Tests that sealed data can be opened only for its own purpose and catalog.

use proptest::prelude::*;

use super::*;
use crate::mac_key::CODE_LENGTH;

fn keys(catalog: u128, numbers: &[u32], active: u32) -> Keys {
    let data_key = |number: &u32| {
        (*number, DataKey::from_bytes(&[*number as u8; 32]).expect("there are 32 bytes"))
    };
    let data_keys = numbers.iter().map(data_key).collect();
    Keys::new(Uuid::from_u128(catalog), data_keys, active).expect("the active key is there")
}

const FRAME: Purpose<'_> = Purpose::Frame { number: 7, epoch: 1 };

proptest! {
    #[test]
    fn sealed_data_opens(plain: Vec<u8>) {
        let sealed = keys(1, &[1], 1).seal(Purpose::Block, &plain).expect("it is short");
        prop_assert_eq!(sealed.len(), plain.len() + OVERHEAD);
        prop_assert!(looks_sealed(&sealed));
        // Another process has another active session key, but can derive the session key of this
        // data.
        prop_assert_eq!(keys(1, &[1], 1).open(Purpose::Block, &sealed).ok(), Some(plain));
    }

    #[test]
    fn random_bytes_do_not_open(bytes: Vec<u8>) {
        prop_assert!(keys(1, &[1], 1).open(Purpose::Block, &bytes).is_err());
    }
}

#[test]
fn flipped_or_truncated_data_does_not_open() {
    let keys = keys(1, &[1, 2], 1);
    let sealed = keys.seal(FRAME, b"rows").expect("it is short");
    for bit in 0..sealed.len() * 8 {
        let mut flipped = sealed.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(keys.open(FRAME, &flipped).is_err(), "bit {bit}");
    }
    for length in 0..sealed.len() {
        assert!(keys.open(FRAME, &sealed[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn data_opens_only_for_its_own_purpose() {
    let keys = keys(1, &[1], 1);
    let chunk = |path, index, is_last| Purpose::Chunk { path, index, is_last };
    let purposes = [
        Purpose::Block,
        FRAME,
        Purpose::Frame { number: 8, epoch: 1 },
        Purpose::Frame { number: 7, epoch: 2 },
        chunk("manifest/1", 0, false),
        chunk("manifest/1", 0, true),
        chunk("manifest/1", 1, true),
        chunk("manifest/2", 1, true),
    ];
    for (at, purpose) in purposes.iter().enumerate() {
        let sealed = keys.seal(*purpose, b"text").expect("it is short");
        for (other, opened_as) in purposes.iter().enumerate() {
            assert_eq!(keys.open(*opened_as, &sealed).is_ok(), at == other, "{purpose:?}");
        }
    }
}

#[test]
fn data_of_another_catalog_or_key_does_not_open() {
    let sealed = keys(1, &[1], 1).seal(Purpose::Block, b"text").expect("it is short");
    let tampered = |error| matches!(error, Error::Tampered { .. });
    assert!(keys(2, &[1], 1).open(Purpose::Block, &sealed).is_err_and(tampered));
    let unknown = |error| matches!(error, Error::UnknownDataKey(1));
    assert!(keys(1, &[2], 2).open(Purpose::Block, &sealed).is_err_and(unknown));
}

#[test]
fn rotated_keys_seal_with_the_new_key_and_open_the_old() {
    let (keys, rotated) = (keys(1, &[1], 1), keys(1, &[1, 2], 2));
    let before = keys.seal(Purpose::Block, b"before").expect("it is short");
    keys.take_over(&rotated).expect("the active key is there");
    assert_eq!(keys.active(), 2);
    let after = keys.seal(Purpose::Block, b"after").expect("it is short");
    assert_eq!(after[1..5], 2_u32.to_be_bytes());
    assert_eq!(keys.open(Purpose::Block, &before).ok().as_deref(), Some(&b"before"[..]));
    assert_eq!(rotated.open(Purpose::Block, &after).ok().as_deref(), Some(&b"after"[..]));
}

#[test]
fn nonces_are_unique() {
    let keys = keys(1, &[1], 1);
    let header = |_| keys.seal(Purpose::Block, b"").expect("it is short")[..HEADER].to_vec();
    let headers: std::collections::HashSet<_> = (0..1000).map(header).collect();
    assert_eq!(headers.len(), 1000);
}

#[test]
fn mac_key_depends_on_catalog_and_purpose_but_not_on_later_data_keys() {
    let code = |keys: &Keys, purpose: &[u8]| {
        keys.mac_key(purpose).expect("there is a data key").sign(b"message")
    };
    let first = keys(1, &[1], 1);
    let rotated = keys(1, &[1, 2, 3], 3);
    assert_eq!(code(&first, b"a"), code(&rotated, b"a"));
    first.take_over(&rotated).expect("the active key is there");
    assert_eq!(code(&first, b"a"), code(&rotated, b"a"));
    assert_ne!(code(&first, b"a"), code(&first, b"b"));
    assert_ne!(code(&first, b"a"), code(&keys(2, &[1], 1), b"a"));
    assert_ne!(code(&first, b"a"), code(&keys(1, &[2], 2), b"a"));
}

#[test]
fn code_of_another_message_is_rejected() {
    let key = keys(1, &[1], 1).mac_key(b"a").expect("there is a data key");
    let code = key.sign(b"message");
    assert_eq!(code.len(), CODE_LENGTH);
    assert!(key.verify(b"message", code.as_bytes()));
    assert!(!key.verify(b"massage", code.as_bytes()));
    assert!(!key.verify(b"message", &code.as_bytes()[4..]));
    assert!(!key.verify(b"message", b""));
    assert_eq!(format!("{key:?}"), "MacKey(..)");
}

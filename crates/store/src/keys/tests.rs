//! Keys come back as they went in, keep their order, and never meet.

use proptest::prelude::*;

use super::*;

fn round_trip<K: Key + PartialEq + std::fmt::Debug>(key: &K) {
    assert_eq!(K::decode(&key.encode()).as_ref(), Some(key));
}

proptest! {
    #[test]
    fn every_key_comes_back(id: [u8; 16], name in ".*", number: u64) {
        let id = Uuid::from_bytes(id);
        round_trip(&StoreKey);
        round_trip(&WarehouseKey(name.clone()));
        round_trip(&NamespaceNameKey { parent: id, name: name.clone() });
        round_trip(&NamespaceKey(id));
        round_trip(&TabularNameKey { kind: TabularKind::Table, namespace: id, name: name.clone() });
        round_trip(&TabularNameKey { kind: TabularKind::View, namespace: id, name: name.clone() });
        round_trip(&TabularKey(id));
        round_trip(&MetadataKey(id));
        round_trip(&PieceKey { id, hash: PieceHash(*Uuid::max().as_bytes()) });
        round_trip(&PublicationKey { id, version: number });
        let parts = name.split(|c: char| c.is_control()).filter(|part| !part.is_empty());
        round_trip(&PlaceKey { parts: parts.map(ToOwned::to_owned).collect(), id });
        round_trip(&JobKey(id));
        round_trip(&EndedJobKey(id));
        round_trip(&UuidKey { uuid: id, id });
        round_trip(&ApiKeyKey(id));
        round_trip(&SigningKeyKey(id));
        round_trip(&RevokedKeyKey(id));
        round_trip(&IdempotencyKey { key: id, principal: name });
        round_trip(&ChangeKey(number));
    }

    #[test]
    fn names_below_one_parent_sort_as_they_read(id: [u8; 16], a in ".*", b in ".*") {
        let key = |name: &String| {
            NamespaceNameKey { parent: Uuid::from_bytes(id), name: name.clone() }.encode()
        };
        prop_assert_eq!(key(&a).cmp(&key(&b)), a.as_bytes().cmp(b.as_bytes()));
    }

    #[test]
    fn garbage_is_no_key(bytes: Vec<u8>) {
        if let Some(key) = TabularNameKey::decode(&bytes) {
            prop_assert_eq!(key.encode(), bytes.clone());
        }
        if let Some(key) = PublicationKey::decode(&bytes) {
            prop_assert_eq!(key.encode(), bytes);
        }
    }
}

#[test]
fn a_dotted_name_and_two_levels_never_meet() {
    let parent = Uuid::nil();
    let dotted = NamespaceNameKey { parent, name: "a.b".to_owned() }.encode();
    let inner = NamespaceNameKey { parent: Uuid::max(), name: "b".to_owned() }.encode();
    assert_ne!(dotted, inner);
}

#[test]
fn what_lies_below_a_place_begins_with_its_key_and_what_lies_beside_it_does_not() {
    let parts = |path: &str| path.split('/').map(ToOwned::to_owned).collect::<Vec<_>>();
    let key = |path| PlaceKey { parts: parts(path), id: Uuid::max() }.encode();
    let below = PlaceKey::below(&parts("s3/b/t"));
    assert!(key("s3/b/t").starts_with(&below) && key("s3/b/t/x").starts_with(&below));
    assert!(!key("s3/b/t2").starts_with(&below) && !key("s3/b").starts_with(&below));
    let at = PlaceKey::at(&parts("s3/b/t"));
    assert!(key("s3/b/t").starts_with(&at) && !key("s3/b/t/x").starts_with(&at));
}

//! Tests that keys survive a round trip, sort correctly, and are unique.

use proptest::prelude::*;

use super::*;
use crate::key_visitor::{KeyVisitor, visit};

fn round_trip<K: Key + PartialEq + std::fmt::Debug>(space: KeySpace, key: &K) {
    let bytes = key.encode();
    assert_eq!(KeySpace::of(&bytes), Some(space));
    assert_eq!(K::decode(&bytes).as_ref(), Some(key));
}

fn round_trip_in(space: KeySpace, id: Uuid, name: &str, number: u64) {
    let text = || name.to_owned();
    let tabular = |kind| TabularNameKey { kind, namespace: id, name: text() };
    match space {
        KeySpace::Store => round_trip(space, &StoreKey),
        KeySpace::WarehouseNames => round_trip(space, &WarehouseKey(text())),
        KeySpace::NamespaceNames => {
            round_trip(space, &NamespaceNameKey { parent: id, name: text() });
        }
        KeySpace::Namespaces => round_trip(space, &NamespaceKey(id)),
        KeySpace::TableNames => round_trip(space, &tabular(TabularKind::Table)),
        KeySpace::ViewNames => round_trip(space, &tabular(TabularKind::View)),
        KeySpace::Tabulars => round_trip(space, &TabularKey(id)),
        KeySpace::Metadata => round_trip(space, &MetadataKey(id)),
        KeySpace::MetadataChunks => {
            round_trip(space, &ChunkKey { id, hash: ChunkHash(*Uuid::max().as_bytes()) });
        }
        KeySpace::Locations => {
            let parts = name.split(|c: char| c.is_control()).filter(|part| !part.is_empty());
            round_trip(space, &LocationKey { parts: parts.map(ToOwned::to_owned).collect(), id });
        }
        KeySpace::Uuids => round_trip(space, &UuidKey { uuid: id, id }),
        KeySpace::Dropped => round_trip(space, &DroppedKey(id)),
        KeySpace::Protections => round_trip(space, &ProtectionKey(id)),
        KeySpace::Functions => round_trip(space, &FunctionKey { namespace: id, name: text() }),
        KeySpace::DroppedNamespaces => round_trip(space, &DroppedNamespaceKey(id)),
        KeySpace::DroppedFunctions => {
            round_trip(space, &DroppedFunctionKey { namespace: id, name: text() });
        }
        KeySpace::Publications => round_trip(space, &PublicationKey { id, version: number }),
        KeySpace::Jobs => round_trip(space, &JobKey(id)),
        KeySpace::EndedJobs => round_trip(space, &EndedJobKey(id)),
        KeySpace::Abandoned => round_trip(space, &AbandonedKey(id)),
        KeySpace::Usage => round_trip(space, &UsageKey(id)),
        KeySpace::OrphanSearches => round_trip(space, &OrphanSearchKey(id)),
        KeySpace::Labels => round_trip(space, &LabelsKey(id)),
        KeySpace::MetricsReports => round_trip(space, &MetricsReportsKey(id)),
        KeySpace::Idempotency => round_trip(space, &IdempotencyKey { key: id, principal: text() }),
        KeySpace::Changes => round_trip(space, &ChangeKey(number)),
        KeySpace::PolicyHead => round_trip(space, &PolicyHeadKey),
        KeySpace::PolicyLog => round_trip(space, &PolicyRevisionKey(number)),
        KeySpace::Policies => round_trip(space, &PolicyKey(text())),
        KeySpace::Grants => round_trip(space, &GrantKey(id)),
        KeySpace::ApiKeys => round_trip(space, &ApiKeyKey(id)),
        KeySpace::SigningKeys => round_trip(space, &SigningKeyKey(id)),
        KeySpace::RevokedKeys => round_trip(space, &RevokedKeyKey(id)),
        KeySpace::Webhooks => round_trip(space, &WebhookKey(id)),
        KeySpace::WebhookCursors => round_trip(space, &WebhookCursorKey(id)),
        KeySpace::WatchCursors => round_trip(space, &WatchCursorKey(text())),
    }
}

/// Bytes that may be a key.
struct DecodedKey<'a>(&'a [u8]);

impl KeyVisitor for DecodedKey<'_> {
    type Output = ();

    fn visit<K: Key>(self) {
        if let Some(key) = K::decode(self.0) {
            assert_eq!(key.encode(), self.0);
        }
    }
}

proptest! {
    #[test]
    fn keys_round_trip(id: [u8; 16], name in ".*", number: u64) {
        let id = Uuid::from_bytes(id);
        for &space in KeySpace::ALL {
            round_trip_in(space, id, &name, number);
        }
    }

    #[test]
    fn name_keys_sort_like_names(id: [u8; 16], a in ".*", b in ".*") {
        let key = |name: &String| {
            NamespaceNameKey { parent: Uuid::from_bytes(id), name: name.clone() }.encode()
        };
        prop_assert_eq!(key(&a).cmp(&key(&b)), a.as_bytes().cmp(b.as_bytes()));
    }

    #[test]
    fn decoded_keys_encode_to_the_same_bytes(mut bytes: Vec<u8>) {
        for &space in KeySpace::ALL {
            if let Some(first) = bytes.first_mut() {
                *first = space.byte();
            }
            visit(space, DecodedKey(&bytes));
        }
    }
}

#[test]
fn dotted_name_and_nested_name_have_different_keys() {
    let parent = Uuid::nil();
    let dotted = NamespaceNameKey { parent, name: "a.b".to_owned() }.encode();
    let inner = NamespaceNameKey { parent: Uuid::max(), name: "b".to_owned() }.encode();
    assert_ne!(dotted, inner);
}

#[test]
fn location_key_is_a_prefix_of_nested_locations_only() {
    let parts = |path: &str| path.split('/').map(ToOwned::to_owned).collect::<Vec<_>>();
    let key = |path| LocationKey { parts: parts(path), id: Uuid::max() }.encode();
    let below = LocationKey::below(&parts("s3/b/t"));
    assert!(key("s3/b/t").starts_with(&below) && key("s3/b/t/x").starts_with(&below));
    assert!(!key("s3/b/t2").starts_with(&below) && !key("s3/b").starts_with(&below));
    let at = LocationKey::at(&parts("s3/b/t"));
    assert!(key("s3/b/t").starts_with(&at) && !key("s3/b/t/x").starts_with(&at));
}

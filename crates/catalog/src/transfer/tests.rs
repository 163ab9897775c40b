//! Tests that export and import follow the [`ExportRule`] of every key space.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::memory::InMemory;
use serde_json::{Value as Json, json};
use slateberg_authz::action::Maintain;
use slateberg_authz::permit::{Permit, Task};
use slateberg_base::progress::Progress;
use slateberg_model::segmented_json::{Chunk, Segment, SegmentedJson};
use slateberg_objects::reserved::Reserved;
use slateberg_store::Store;
use slateberg_store::codec::{Document, Value};
use slateberg_store::key_space::{ExportRule, KeySpace, LineKind};
use slateberg_store::key_visitor::{KeyVisitor, visit};
use slateberg_store::keys::{Key, TabularKey};
use slateberg_store::open::StoreLocation;
use slateberg_store::policy_snapshot::PolicySnapshot;
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::{ChangeAction, PolicyRevision};
use slateberg_store::settings::Settings;
use slateberg_store::txn::Transaction;
use uuid::Uuid;

use super::line::Line;
use super::{check, export, import};

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// One line of each kind.
fn lines() -> Vec<Json> {
    let fields = json!({"type": "struct", "schema-id": 0, "fields": []});
    let table = json!({
        "format-version": 2, "table-uuid": id(30), "location": "s3://b/w/t", "last-sequence-number": 0,
        "last-updated-ms": 0, "last-column-id": 0, "current-schema-id": 0, "schemas": [fields],
        "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
        "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}],
    });
    let view = json!({
        "format-version": 1, "view-uuid": id(31), "location": "s3://b/w/v", "current-version-id": 1,
        "versions": [{
            "version-id": 1, "timestamp-ms": 0, "schema-id": 0, "summary": {}, "default-namespace": ["ns"],
            "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
        }],
        "version-log": [{"version-id": 1, "timestamp-ms": 0}], "schemas": [fields],
    });
    let tabular = |kind: &str, number, metadata: Json| {
        json!({
            "type": kind, "warehouse": "w", "namespace": ["ns"], "name": kind, "id": id(number + 10),
            "uuid": id(number), "metadata-location": "s3://b/w/m", "version": 3, "created-at-ms": 0,
            "updated-at-ms": 0, "owner": null, "metadata": metadata.to_string(),
        })
    };
    let function = json!({
        "function-uuid": id(32), "format-version": 1, "definitions": [{
            "definition-id": "int", "parameters": [{"type": "int", "name": "x"}], "return-type": "int",
            "return-nullable": true, "function-type": "udf", "current-version-id": 1, "versions": [{
                "version-id": 1, "deterministic": true, "on-null-input": "call", "timestamp-ms": 0,
                "representations": [{"type": "sql", "dialect": "spark", "sql": "x"}],
            }],
        }],
        "definition-log": [],
    });
    // The line of the view has no labels, as in exports before version 5.
    let mut table = tabular("table", 30, table);
    table["labels"] = json!({ "revision": id(9), "object-labels": {"a": "b"},
        "fields": [{"field-id": 4, "labels": {"c": "d"}}]});
    vec![
        json!({"type": "slateberg-export", "version": 3, "catalog-id": id(1), "as-of": "now"}),
        json!({"type": "warehouse", "name": "w", "id": id(2), "location": "s3://b/w", "created-at-ms": 0,
            "definition": null}),
        json!({"type": "namespace", "warehouse": "w", "namespace": ["ns"], "id": id(3), "properties": {},
            "version": 1, "created-at-ms": 0, "owner": null}),
        table,
        tabular("view", 31, view),
        json!({"type": "function", "warehouse": "w", "namespace": ["ns"], "name": "f", "id": id(12),
            "version": 2, "created-at-ms": 0, "updated-at-ms": 0, "owner": null, "metadata": function}),
        json!({"type": "protection", "id": id(12), "resource": "function:w/ns/f", "protected-at-ms": 0,
            "protected-by": "admin", "comment": null}),
        json!({"type": "policy", "id": "p", "text": "permit (principal, action, resource);",
            "changed-at-ms": 0, "changed-by": "admin"}),
        json!({"type": "grant", "id": id(4), "template": "reader", "grantee": "role:r", "resource": "table:t",
            "created-at-ms": 0, "created-by": "admin"}),
        json!({"type": "api-key", "id": id(5), "name": "k", "sha256": "00", "roles": [], "warehouses": null,
            "created-at-ms": 0, "created-by": "admin", "expires-at-ms": null}),
        json!({"type": "end", "lines": 11}),
    ]
}

/// Returns a record of a key space that is not exported.
fn unexported(space: KeySpace) -> Json {
    let job = json!({"warehouse": id(2), "files": {"listed": []}, "created_ms": 0});
    match space {
        KeySpace::Jobs | KeySpace::EndedJobs => job,
        KeySpace::Abandoned => json!({"warehouse": id(2), "table": {"id": id(7), "uuid": id(8),
            "places": []}, "since_ms": 0}),
        KeySpace::Usage => json!({"since_ms": 0, "loads": 1}),
        KeySpace::OrphanSearches => json!({"at_ms": 1}),
        KeySpace::MetricsReports => {
            json!({"reports": [{"at_ms": 0, "principal": "p", "report": {}}]})
        }
        KeySpace::Idempotency => json!({"fingerprint": "00", "outcome": "done", "expires_ms": 0}),
        KeySpace::Changes => {
            json!({"at_ms": 0, "action": "a", "principal": "p", "warehouse": id(2),
            "subject": id(3), "name": "n", "version_before": null, "version_after": null})
        }
        KeySpace::Dropped => {
            json!({"record": {"id": id(7), "kind": "table", "warehouse": id(2), "namespace": id(3),
            "name": "d", "uuid": id(8), "location": "s3://b/w/d", "metadata_location": "s3://b/w/d/m",
            "version": 1, "created_ms": 0, "updated_ms": 0}, "namespace": ["ns"], "dropped_ms": 0,
            "dropped_by": "admin"})
        }
        KeySpace::DroppedNamespaces => {
            json!({"record": {"id": id(9), "warehouse": id(2), "parent": id(3), "name": "d",
            "properties": {}, "version": 1, "created_ms": 0}, "namespace": ["ns", "d"],
            "dropped_ms": 0, "dropped_by": "admin", "dropped_with": id(10)})
        }
        KeySpace::DroppedFunctions => {
            json!({"id": id(11), "warehouse": id(2), "namespace": id(9), "name": "f", "version": 1,
            "metadata": {"function-uuid": id(13), "format-version": 1, "definitions": [],
            "definition-log": []}, "created_ms": 0, "updated_ms": 0})
        }
        KeySpace::SigningKeys => {
            json!({"id": id(6), "seed": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "created_ms": 0})
        }
        KeySpace::Webhooks => {
            json!({"id": id(6), "name": "w", "url": "https://example.com", "secret": "AA==",
            "created_ms": 0, "created_by": "a", "version": 1})
        }
        KeySpace::WebhookCursors => json!({"position": "p"}),
        KeySpace::WatchCursors => {
            json!({"position": "p", "consumer": id(6), "created_ms": 0, "stored_ms": 0,
            "stored_by": "a"})
        }
        KeySpace::RevokedKeys => {
            json!({"revoked_ms": 0, "revoked_by": "admin", "key": {"id": id(6), "name": "k",
            "hash": "00", "roles": [], "warehouses": null, "created_ms": 0, "created_by": "a", "expires_ms": null}})
        }
        space => panic!("{space:?} is not exported, and has no example here"),
    }
}

/// Writes a record from its stored bytes.
struct Written<'a> {
    t: &'a Transaction,
    key: &'a [u8],
    value: &'a [u8],
}

impl KeyVisitor for Written<'_> {
    type Output = Result<(), slateberg_store::Error>;

    fn visit<K: Key>(self) -> Self::Output {
        let key = K::decode(self.key).expect("it is a key of its space");
        self.t.put(&key, &K::Value::decode(self.value).expect("it is a record of its space"))
    }
}

fn permit() -> Permit<Maintain> {
    Permit::for_task(Task::Import)
}

async fn empty_store() -> Store {
    let location = StoreLocation {
        object_store: Arc::new(InMemory::new()),
        path: "state".to_owned(),
        conditional_update: true,
        directory: None,
        log: None,
        encryption: None,
        storage: Default::default(),
    };
    let store = Store::open(&location, Settings::default()).await.expect("the store opens");
    store.ensure_format(&permit(), id(1), 0).await.expect("it is written");
    store
}

/// Imports lines as the command does: policies and grants become one revision.
async fn import_into(store: &Store, lines: &[u8]) {
    let phase = &Progress::default().phase("test", None);
    let checked = check::check(lines, &Reserved::default(), phase).expect("they are lines");
    import::check_target(store, &checked).await.expect("it is empty");
    let permit = permit();
    import::write(store, &permit, &checked, lines, phase).await.expect("they are written");
    let revision = &PolicyRevision {
        number: 1,
        at_ms: 0,
        by: "admin".to_owned(),
        action: ChangeAction::Import.into(),
        comment: None,
        in_force: "r".to_owned(),
        rolled_back_to: None,
        changes: PolicySnapshot::default().changes_to(&checked.book),
    };
    let written =
        store.transact("test", &permit, |t| async move { t.revise_policies(revision).await });
    let ((), accepted) = written.await.expect("it is written");
    accepted.durable().await.expect("it is durable");
}

/// Returns a store with records of every kind.
async fn full_store() -> Store {
    let store = empty_store().await;
    let lines: String = lines().iter().map(|line| format!("{line}\n")).collect();
    import_into(&store, lines.as_bytes()).await;
    let table = store.latest().document(id(40)).await.expect("it is read").expect("it is there");
    let text = table.text.to_bytes();
    let text = SegmentedJson::new(vec![
        Segment::Chunk(Chunk::new(text[..9].to_vec().into())),
        Segment::Inline(text[9..].to_vec().into()),
    ]);
    let (document, permit) = (&Document { text, ..table }, permit());
    let written = store.transact("test", &permit, |t| async move {
        t.put_document(id(40), None, document).await?;
        for &space in KeySpace::ALL {
            if space.rules().export != ExportRule::LeaveOut {
                continue;
            }
            let value = [b"\x01", unexported(space).to_string().as_bytes()].concat();
            let rest: &[u8] = if space == KeySpace::Changes { &[0; 8] } else { &[0; 16] };
            let key = [&[space.byte()], rest].concat();
            visit(space, Written { t: &t, key: &key, value: &value })?;
        }
        Ok::<_, slateberg_store::Error>(())
    });
    let ((), accepted) = written.await.expect("they are written");
    accepted.durable().await.expect("it is durable");
    store
}

async fn records(store: &Store, space: KeySpace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let latest = store.latest();
    let mut entries = latest.iterate(&KeyRange::all(space)).await.expect("it is read");
    let mut found = BTreeMap::new();
    while let Some(entry) = entries.next().await.expect("it is read") {
        found.insert(entry.key.to_vec(), entry.value.to_vec());
    }
    found
}

#[tokio::test]
async fn import_follows_the_export_rules_of_all_key_spaces() {
    let (parent, copy) = (full_store().await, empty_store().await);
    let mut lines = Vec::new();
    let exported = export::export(&parent.latest(), "now", &mut lines, &Progress::default()).await;
    assert_eq!(exported.expect("it is exported").lines, 11);
    import_into(&copy, &lines).await;
    for &space in KeySpace::ALL {
        let (was, is) = (records(&parent, space).await, records(&copy, space).await);
        assert!(!was.is_empty(), "{space:?} has no record");
        match space.rules().export {
            ExportRule::Header => assert_eq!(is.len(), 1, "{space:?}"),
            ExportRule::Lines(_) | ExportRule::Derive => assert_eq!(is, was, "{space:?}"),
            // The metadata may be divided into other segments. Its text is compared below.
            ExportRule::WithTabular if space != KeySpace::Labels => {}
            ExportRule::WithTabular => assert_eq!(is, was, "{space:?}"),
            ExportRule::LeaveOut => assert_eq!(is, BTreeMap::new(), "{space:?}"),
        }
    }
    for key in records(&parent, KeySpace::Tabulars).await.keys() {
        let TabularKey(id) = TabularKey::decode(key).expect("it is a key");
        let (was, is) = (parent.latest().document(id).await, copy.latest().document(id).await);
        let text = |found: Result<Option<Document>, _>| {
            found.expect("it is read").map(|it| it.text.to_bytes())
        };
        assert_eq!(text(is), text(was));
    }
}

#[test]
fn every_export_line_belongs_to_a_key_space() {
    let kinds = lines().into_iter().filter_map(|line| {
        match serde_json::from_value(line).expect("it is a line") {
            Line::SlatebergExport(_) | Line::End(_) => None,
            Line::Warehouse(_) => Some(LineKind::Warehouse),
            Line::Namespace(_) => Some(LineKind::Namespace),
            Line::Table(_) | Line::View(_) => Some(LineKind::Tabular),
            Line::Function(_) => Some(LineKind::Function),
            Line::Protection(_) => Some(LineKind::Protection),
            Line::Policy(_) => Some(LineKind::Policy),
            Line::Grant(_) => Some(LineKind::Grant),
            Line::ApiKey(_) => Some(LineKind::ApiKey),
        }
    });
    for kind in kinds {
        let rule = ExportRule::Lines(kind);
        assert!(KeySpace::ALL.iter().any(|space| space.rules().export == rule), "{kind:?}");
    }
}

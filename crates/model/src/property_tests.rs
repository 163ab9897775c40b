//! Properties of the whole model: no input from outside causes a panic, written documents can be
//! read, and documents stay valid after any sequence of accepted commits.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::commit::{CommitBase, apply};
use super::requirement::parse_requirement;
use super::segmented_json::{Chunk, Segment, SegmentedJson};
use super::table::TableMetadata;
use super::testing::steps::{any_step, append, config, updates_of};
use super::testing::{
    CREATED_MS, METADATA_LOCATION, add_snapshot, columns, commit, ctx, raw, set_ref, snapshot,
    table, table_with_snapshots, updates,
};
use super::update::TableUpdate;
use super::view::ViewMetadata;
use super::view_update::{ViewRequirement, ViewUpdate};

/// Values that are edge cases for parsers.
fn any_leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        prop::sample::select(vec![i64::MIN, i64::MAX, i64::from(i32::MAX), i64::from(i32::MIN)])
            .prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "main",
            "struct",
            "list",
            "int",
            "variant",
            "unknown",
            "decimal(1,",
            "fixed[",
            "geometry(",
            "geography(,",
            "bucket[",
            "truncate[0]",
            "void",
            "identity",
            "1000",
        ])
        .prop_map(Value::from),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    any_leaf().prop_recursive(4, 24, 4, |inner| {
        let names = prop::sample::select(vec![
            "action",
            "type",
            "schema",
            "fields",
            "id",
            "name",
            "required",
            "snapshot-id",
            "spec",
            "snapshot",
            "uuid",
            "format-version",
            "location",
            "refs",
            "snapshots",
            "schemas",
            "element",
            "element-id",
            "key",
            "value",
            "summary",
            "updates",
            "x",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names, inner), 0..6).prop_map(|members| {
                let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(members.collect::<Map<_, _>>())
            }),
        ]
    })
}

/// A change at one position in a document.
#[derive(Debug, Clone)]
enum Mutation {
    Replace(Value),
    Remove,
    Repeat,
}

fn any_mutation() -> impl Strategy<Value = (prop::sample::Index, Mutation)> {
    let mutation = prop_oneof![
        4 => any_leaf().prop_map(Mutation::Replace),
        1 => any_value().prop_map(Mutation::Replace),
        2 => Just(Mutation::Remove),
        1 => Just(Mutation::Repeat),
    ];
    (any::<prop::sample::Index>(), mutation)
}

/// Collects the JSON pointers to all positions below the root.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut visit = |name: &str, inner: &Value| {
        let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        found.push(pointer.clone());
        pointers(inner, &pointer, found);
    };
    match value {
        Value::Array(elements) => {
            elements.iter().enumerate().for_each(|(i, inner)| visit(&i.to_string(), inner));
        }
        Value::Object(members) => members.iter().for_each(|(name, inner)| visit(name, inner)),
        _ => {}
    }
}

fn mutate(document: &mut Value, index: prop::sample::Index, mutation: Mutation) {
    let mut found = Vec::new();
    pointers(document, "", &mut found);
    if found.is_empty() {
        return;
    }
    let pointer = index.get(&found);
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    match (document.pointer_mut(parent), mutation) {
        (Some(Value::Object(members)), Mutation::Remove) => {
            members.remove(&name.replace("~1", "/").replace("~0", "~"));
        }
        (Some(Value::Array(elements)), Mutation::Remove) => {
            elements.remove(name.parse().expect("an index"));
        }
        (Some(Value::Array(elements)), Mutation::Repeat) => {
            let index: usize = name.parse().expect("an index");
            elements.push(elements[index].clone());
        }
        (_, Mutation::Replace(value)) => {
            if let Some(old) = document.pointer_mut(pointer) {
                *old = value;
            }
        }
        _ => {}
    }
}

fn document(metadata: &TableMetadata) -> Value {
    serde_json::from_slice(&metadata.to_json()).expect("JSON")
}

/// A document with an example of every part.
fn rich_document() -> Value {
    let mut json = document(&table_with_snapshots(3, 3));
    json["statistics"] = json!([{"snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1, "blob-metadata": [{"type": "t", "snapshot-id": 1,
        "sequence-number": 1, "fields": [1], "properties": {"a": "b"}}]}]);
    json["partition-statistics"] =
        json!([{"snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 1}]);
    json["encryption-keys"] = json!([{"key-id": "k", "encrypted-key-metadata": "AAAA"}]);
    json["refs"]["v1"] = json!({"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 10});
    json["future"] = json!({"a": 1.5});
    json
}

fn view_document() -> Value {
    json!({"view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385", "format-version": 1,
        "location": "s3://b/v", "current-version-id": 1, "properties": {"a": "b"},
        "schemas": [columns()], "version-log": [{"timestamp-ms": 1, "version-id": 1}],
        "versions": [{"version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {"a": "b"},
            "default-namespace": ["ns"], "default-catalog": "c",
            "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}]}]})
}

/// A list of updates with most actions. A table of format version 3 accepts all of them except the
/// sort order by a variant.
fn rich_updates() -> Value {
    let mut next = snapshot(4, Some(3), 4);
    next["first-row-id"] = json!(30);
    next["added-rows"] = json!(10);
    json!([
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "add-schema", "schema": {"type": "struct", "fields": [
            columns()["fields"][0], columns()["fields"][1], columns()["fields"][2],
            {"id": 9, "name": "v", "required": false, "type": "variant"},
            {"id": 10, "name": "d", "required": true, "type": "int", "initial-default": 1}]}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": [
            {"name": "h", "transform": "hour", "source-id": 3}]}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "remove-partition-specs", "spec-ids": [0]},
        {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [
            {"transform": "identity", "source-id": 9, "direction": "asc",
             "null-order": "nulls-first"}]}},
        {"action": "set-default-sort-order", "sort-order-id": 1},
        add_snapshot(next),
        set_ref("main", "branch", 4),
        {"action": "remove-snapshots", "snapshot-ids": [2]},
        {"action": "remove-snapshot-ref", "ref-name": "v1"},
        {"action": "set-location", "location": "s3://b/u"},
        {"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "2"}},
        {"action": "remove-properties", "removals": ["a"]},
        {"action": "remove-statistics", "snapshot-id": 1},
        {"action": "remove-partition-statistics", "snapshot-id": 1},
        {"action": "add-encryption-key", "encryption-key":
            {"key-id": "l", "encrypted-key-metadata": "AAAA"}},
        {"action": "remove-encryption-key", "key-id": "k"},
    ])
}

/// Parses and applies all updates that can be parsed, and checks the result.
fn check_commit(base: &TableMetadata, changes: &Value) {
    let list = changes.as_array().map(Vec::as_slice).unwrap_or_default();
    let parsed: Vec<TableUpdate> =
        list.iter().filter_map(|update| TableUpdate::parse(&raw(update)).ok()).collect();
    let base = CommitBase { metadata: base, metadata_location: Some(METADATA_LOCATION) };
    if let Ok(applied) = apply(Some(base), &[], &parsed, &ctx(i64::MAX)) {
        assert_readable(&applied.metadata);
    }
    if let Ok(applied) = apply(None, &[], &parsed, &ctx(0)) {
        assert_readable(&applied.metadata);
    }
}

fn assert_readable(metadata: &TableMetadata) {
    let text = metadata.to_segmented_json();
    let json = text.to_bytes();
    match TableMetadata::from_segmented_json(&text) {
        Ok(kept) => {
            assert_eq!(&kept, metadata);
            assert_eq!(kept.to_segmented_json().segments(), text.segments());
        }
        Err(refusal) => panic!("{refusal}: {}", String::from_utf8_lossy(&json)),
    }
    match TableMetadata::parse(&json) {
        Ok(parsed) => {
            assert_eq!(&parsed, metadata);
            assert_eq!(parsed.to_json(), json);
        }
        Err(refusal) => panic!("{refusal}: {}", String::from_utf8_lossy(&json)),
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn garbage_is_refused_without_a_panic(value in any_value(), bytes in any::<Vec<u8>>()) {
        let raw = raw(&value);
        let json = value.to_string();
        for json in [json.as_bytes(), &bytes] {
            let _ = TableMetadata::parse(json);
            let _ = ViewMetadata::parse(json);
        }
        let _ = TableUpdate::parse(&raw);
        let _ = ViewUpdate::parse(&raw);
        let _ = parse_requirement(&raw);
        let _ = ViewRequirement::parse(&raw);
    }

    #[test]
    fn mutated_documents_are_refused_or_round_trip(
        mutations in prop::collection::vec(any_mutation(), 1..4),
    ) {
        let mut json = rich_document();
        let mut view = view_document();
        for (index, mutation) in mutations {
            mutate(&mut json, index, mutation.clone());
            mutate(&mut view, index, mutation);
        }
        if let Ok(table) = TableMetadata::parse(json.to_string().as_bytes()) {
            assert_readable(&table);
            check_commit(&table, &rich_updates());
            let _ = table.with_referenced_snapshots_only().to_json();
        }
        if let Ok(view) = ViewMetadata::parse(view.to_string().as_bytes()) {
            prop_assert_eq!(ViewMetadata::parse(&view.to_json()), Ok(view));
        }
    }

    #[test]
    fn mutated_updates_are_refused_or_lead_to_valid_documents(
        mutations in prop::collection::vec(any_mutation(), 1..6),
        new in any::<bool>(),
    ) {
        let base = if new { table(2) } else {
            TableMetadata::parse(rich_document().to_string().as_bytes()).expect("a document")
        };
        let mut changes = rich_updates();
        for (index, mutation) in mutations {
            mutate(&mut changes, index, mutation);
        }
        check_commit(&base, &changes);
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn accepted_commits_keep_the_document_valid(
        version in 1_u8..4,
        steps in prop::collection::vec(any_step(), 1..40),
    ) {
        let mut current = table(version);
        for step in &steps {
            let Ok(applied) = commit(&current, updates_of(&current, step)) else { continue };
            let next = applied.metadata;
            prop_assert_eq!(next.check(), Ok(()));
            assert_readable(&next);
            prop_assert!(next.last_sequence_number >= current.last_sequence_number);
            prop_assert!(next.last_column_id >= current.last_column_id);
            prop_assert!(next.last_partition_id >= current.last_partition_id);
            prop_assert!(next.next_row_id >= current.next_row_id);
            prop_assert!(next.last_updated_ms >= current.last_updated_ms);
            prop_assert_eq!(applied.changed, next != current);
            if let (Some(id), Some(last)) = (next.current_snapshot_id, next.snapshot_log.last()) {
                prop_assert_eq!(last.snapshot_id, id);
            }
            current = next;
        }
    }
}

/// A table with `count` snapshots, a branch `side` and a tag `old`. Each snapshot has been current.
fn long_table(count: i64) -> TableMetadata {
    let mut json = document(&table(2));
    let snapshots = (1..=count).map(|id| snapshot(id, (id > 1).then(|| id - 1), id));
    let log = |id: i64| json!({"timestamp-ms": CREATED_MS, "snapshot-id": id});
    json["snapshots"] = snapshots.collect();
    json["snapshot-log"] = (1..=count).map(log).collect();
    json["last-sequence-number"] = count.into();
    json["last-updated-ms"] = (CREATED_MS + count).into();
    json["current-snapshot-id"] = count.into();
    json["refs"] = json!({"main": {"snapshot-id": count, "type": "branch"},
        "side": {"snapshot-id": (count + 1) / 2, "type": "branch"},
        "old": {"snapshot-id": 1, "type": "tag"}});
    TableMetadata::parse(json.to_string().as_bytes()).expect("a document")
}

/// Returns the document with its lists rendered item by item, without chunks.
fn plain_json(metadata: &TableMetadata) -> String {
    let list = |items: Vec<String>| format!("[{}]", items.join(","));
    let snapshots = metadata.snapshots.iter().map(|snapshot| snapshot.json().to_owned());
    let log = metadata.snapshot_log.iter().map(|entry| {
        let (ms, id) = (entry.timestamp_ms, entry.snapshot_id);
        format!("{{\"timestamp-ms\":{ms},\"snapshot-id\":{id}}}")
    });
    let mut bare = metadata.clone();
    bare.snapshots.retain_ids(|_| false);
    bare.snapshot_log.retain_ids(|_| false);
    let bare = String::from_utf8(bare.to_json().to_vec()).expect("UTF-8");
    let bare =
        bare.replace("\"snapshots\":[]", &format!("\"snapshots\":{}", list(snapshots.collect())));
    bare.replace("\"snapshot-log\":[]", &format!("\"snapshot-log\":{}", list(log.collect())))
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn segmented_json_equals_json_after_any_commits(
        count in 1..300_i64,
        steps in prop::collection::vec(any_step(), 1..12),
        ranges in prop::collection::vec((0..300_i64, 1..120_i64), 1..3),
    ) {
        let mut current = long_table(count);
        let expiries = ranges.iter().map(|(from, many)| {
            let ids: Vec<i64> = (*from..from + many).filter(|id| *id != count).collect();
            json!([{"action": "remove-snapshots", "snapshot-ids": ids}])
        });
        let mut changes: Vec<Value> = expiries.collect();
        for step in &steps {
            let between = changes.pop();
            for change in [Some(updates_of(&current, step)), between].into_iter().flatten() {
                let Ok(applied) = commit(&current, change) else { continue };
                current = applied.metadata;
                assert_readable(&current);
                prop_assert_eq!(current.to_json(), plain_json(&current));
            }
        }
    }

    #[test]
    fn arbitrarily_divided_document_is_read_or_refused(
        cuts in prop::collection::btree_set(0..30_000_usize, 0..6),
        first_is_chunk: bool,
    ) {
        let json = long_table(60).to_json();
        let mut segments = Vec::new();
        let (mut from, mut is_chunk) = (0, first_is_chunk);
        for cut in cuts.iter().map(|cut| (*cut).min(json.len())).chain([json.len()]) {
            let part = json.slice(from..cut);
            segments.push(if is_chunk { Segment::Chunk(Chunk::new(part)) } else { Segment::Inline(part) });
            (from, is_chunk) = (cut, !is_chunk);
        }
        let whole = TableMetadata::parse(&json).expect("a document");
        if let Ok(read) = TableMetadata::from_segmented_json(&SegmentedJson::new(segments)) {
            prop_assert_eq!(read, whole);
        }
    }
}

#[test]
fn append_reuses_the_chunks_of_the_base() {
    let base = long_table(1000);
    let next = commit(&base, append(&base, "main", true)).expect("a commit").metadata;
    let (before, after) = (base.to_segmented_json(), next.to_segmented_json());
    let pointer =
        |text: &SegmentedJson| text.chunks().map(|it| it.text().as_ptr()).collect::<Vec<_>>();
    assert_eq!(pointer(&before), pointer(&after), "both versions share all chunks");
    assert!(before.chunks().count() > 30);
    assert!(after.inline().len() < after.len() / 5);
}

#[test]
fn unmutated_updates_are_accepted() {
    let base = TableMetadata::parse(rich_document().to_string().as_bytes()).expect("a document");
    let mut changes = rich_updates();
    // The list contains one invalid update on purpose: sorting by a variant is not allowed.
    changes.as_array_mut().expect("a list").remove(6);
    let applied = commit(&base, changes).expect("a commit");
    assert!(applied.changed);
    assert!(updates(&rich_updates()).is_ok());
}

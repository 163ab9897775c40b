//! Tests of commits to tables.

use serde_json::{Value, json};

use super::super::snapshot::SnapshotRefKind;
use super::super::testing::{
    CREATED_MS, METADATA_LOCATION, add_snapshot, assert_round_trip, columns, commit,
    commit_with_requirements, committed, conflict, ctx, invalid, set_ref, snapshot, table,
    table_with_snapshots, updates,
};
use super::*;

/// Returns the columns of the test tables and one more column.
fn columns_and(name: &str, field_type: &str) -> Value {
    let mut columns = columns();
    let more = json!({"id": 9, "name": name, "required": false, "type": field_type});
    columns["fields"].as_array_mut().expect("fields").push(more);
    columns
}

fn add_schema(schema: Value) -> Value {
    json!({"action": "add-schema", "schema": schema})
}

fn set_current_schema(id: i32) -> Value {
    json!({"action": "set-current-schema", "schema-id": id})
}

fn add_spec(fields: Value) -> Value {
    json!({"action": "add-spec", "spec": {"spec-id": 77, "fields": fields}})
}

fn set_default_spec(id: i32) -> Value {
    json!({"action": "set-default-spec", "spec-id": id})
}

fn set_properties(properties: Value) -> Value {
    json!({"action": "set-properties", "updates": properties})
}

fn snapshot_ids(table: &TableMetadata) -> Vec<i64> {
    table.snapshots.iter().map(|snapshot| snapshot.snapshot_id).collect()
}

fn log(table: &TableMetadata) -> Vec<(i64, i64)> {
    let seconds = |ms: i64| (ms - CREATED_MS) / 1000;
    table
        .snapshot_log
        .iter()
        .map(|entry| (seconds(entry.timestamp_ms), entry.snapshot_id))
        .collect()
}

#[test]
fn a_commit_without_effect_changes_nothing() {
    let table = table_with_snapshots(2, 2);
    let main = set_ref("main", "branch", 2);
    let no_effect = json!([
        {"action": "assign-uuid", "uuid": table.table_uuid},
        {"action": "upgrade-format-version", "format-version": 2},
        add_schema(columns()),
        set_current_schema(0),
        {"action": "set-default-spec", "spec-id": 0},
        {"action": "set-default-sort-order", "sort-order-id": 1},
        {"action": "remove-schemas", "schema-ids": [5]},
        {"action": "remove-partition-specs", "spec-ids": []},
        main,
        {"action": "remove-snapshots", "snapshot-ids": [99]},
        {"action": "remove-snapshot-ref", "ref-name": "none"},
        {"action": "remove-statistics", "snapshot-id": 1},
        {"action": "set-location", "location": "s3://b/t/"},
        set_properties(json!({"write.parquet.compression-codec": "zstd"})),
        {"action": "remove-properties", "removals": ["none"]},
        {"action": "remove-encryption-key", "key-id": "none"},
    ]);
    for changes in [json!([]), no_effect] {
        let applied = commit(&table, changes).expect("the commit is accepted");
        assert!(!applied.changed);
        assert_eq!(applied.metadata, table);
    }
}

#[test]
fn a_commit_logs_the_document_it_replaces_and_the_time() {
    let table = table(2);
    let next = committed(&table, json!([set_properties(json!({"a": "1"}))]));
    assert_eq!(next.last_updated_ms, CREATED_MS + 1000);
    assert_eq!(next.metadata_log.len(), 1);
    assert_eq!(next.metadata_log[0].timestamp_ms, CREATED_MS);
    assert_eq!(next.metadata_log[0].metadata_file(), METADATA_LOCATION);

    // If the server's clock is behind the time of the document, the document keeps its time.
    let base = CommitBase { metadata: &next, metadata_location: Some(METADATA_LOCATION) };
    let changes = updates(&json!([set_properties(json!({"a": "2"}))])).expect("updates");
    let applied = apply(Some(base), &[], &changes, &ctx(CREATED_MS - 500_000)).expect("a commit");
    assert_eq!(applied.metadata.last_updated_ms, next.last_updated_ms);
}

#[test]
fn metadata_log_is_limited_by_the_table_property() {
    let grow = |table: TableMetadata, count: i32| {
        (0..count).fold(table, |table, number| {
            committed(&table, json!([set_properties(json!({"n": number.to_string()}))]))
        })
    };
    let full = grow(table(2), 103);
    assert_eq!(full.metadata_log.len(), 100);
    let limit = |value: &str| {
        let limit = json!({"write.metadata.previous-versions-max": value});
        committed(&full, json!([set_properties(limit)])).metadata_log
    };
    assert_eq!(limit("4").len(), 4);
    assert_eq!(limit("0").len(), 1);
    assert_eq!(limit("-7").len(), 1);
    assert_eq!(limit("many").len(), 100);
    assert_eq!(limit("4").last().map(|entry| entry.timestamp_ms), Some(full.last_updated_ms));
}

#[test]
fn table_uuid_cannot_be_reassigned() {
    let other = Uuid::from_u128(8);
    assert_eq!(
        invalid(&table(2), json!([{"action": "assign-uuid", "uuid": other}])),
        format!("Cannot reassign uuid: {} != {other}", Uuid::from_u128(7))
    );
    assert_eq!(
        invalid(&table(2), json!([{"action": "assign-uuid", "uuid": Uuid::nil()}])),
        "Cannot set uuid to null"
    );
}

#[test]
fn format_version_cannot_be_downgraded() {
    let upgrade =
        |version: i64| json!([{"action": "upgrade-format-version", "format-version": version}]);
    let v2 = committed(&table(1), upgrade(2));
    assert_eq!(v2.format_version, 2);
    let v3 = committed(&v2, upgrade(3));
    assert_eq!((v3.format_version, v3.next_row_id), (3, 0));
    assert_eq!(invalid(&v3, upgrade(2)), "Cannot downgrade v3 table to v2");
    assert_eq!(invalid(&v3, upgrade(-1)), "Cannot downgrade v3 table to v-1");
    let v4 = committed(&v3, upgrade(4));
    assert_eq!((v4.format_version, v4.next_row_id), (4, 0));
    assert_eq!(invalid(&v4, upgrade(3)), "Cannot downgrade v4 table to v3");
    assert_eq!(
        invalid(&v4, upgrade(5)),
        "Cannot upgrade table to unsupported format version: v5 (supported: v4)"
    );
}

#[test]
fn a_schema_is_added_once_and_becomes_current() {
    let base = table(2);
    let next = committed(
        &base,
        json!([add_schema(columns_and("price", "decimal(9,2)")), set_current_schema(-1)]),
    );
    assert_eq!((next.current_schema_id, next.last_column_id, next.schemas.len()), (1, 9, 2));
    assert!(std::sync::Arc::ptr_eq(&base.schemas[0], &next.schemas[0]), "the old schema is shared");

    // A return to the old schema reuses its id, which then counts as the last added.
    let back = committed(&next, json!([add_schema(columns()), set_current_schema(-1)]));
    assert_eq!((back.current_schema_id, back.last_column_id, back.schemas.len()), (0, 9, 2));
    let removed = committed(&back, json!([{"action": "remove-schemas", "schema-ids": [1, 8]}]));
    assert_eq!(removed.schemas.len(), 1);

    let expected = [
        (json!([set_current_schema(-1)]), "Cannot set last added schema: no schema has been added"),
        (json!([set_current_schema(7)]), "Cannot set current schema to unknown schema: 7"),
        (
            json!([{"action": "remove-schemas", "schema-ids": [1, 0]}]),
            "Cannot remove the current schema",
        ),
        (
            json!([add_schema(columns_and("v", "variant"))]),
            "Invalid schema for v2:\n- Invalid type for v: variant is not supported until v3",
        ),
        (
            json!([add_schema(columns_and("at_day", "int")), set_current_schema(-1)]),
            "Cannot create identity partition sourced from different field in schema: at_day",
        ),
        (
            json!([add_schema(json!({"type": "struct", "fields": []})), set_current_schema(-1)]),
            "Cannot find source column for partition field: 1000: id_bucket: bucket[16](1)",
        ),
    ];
    for (changes, text) in expected {
        assert_eq!(invalid(&base, changes), text);
    }
    let v3 = json!([
        {"action": "upgrade-format-version", "format-version": 3},
        add_schema(columns_and("v", "variant")),
        set_current_schema(-1)]);
    assert_eq!(committed(&base, v3).current_schema_id, 1);
}

#[test]
fn a_spec_is_added_once_and_keeps_field_ids() {
    let day = json!({"name": "day", "transform": "day", "source-id": 3});
    let hour = json!({"name": "hour", "transform": "hour", "source-id": 3});
    let v2 = committed(&table(2), json!([add_spec(json!([day, hour])), set_default_spec(-1)]));
    let spec = v2.default_spec().expect("a spec");
    let ids: Vec<i32> = spec.fields.iter().map(|field| field.field_id).collect();
    assert_eq!((spec.spec_id, ids), (1, vec![1001, 1002]), "day keeps its id, hour gets a new one");
    assert_eq!(v2.last_partition_id, 1002);

    let same = json!([
        {"name": "id_bucket", "transform": "BUCKET[16]", "source-id": 1, "field-id": 5000},
        {"name": "at_day", "transform": "day", "source-id": 3, "field-id": 5001}]);
    let back = committed(&v2, json!([add_spec(same), set_default_spec(-1)]));
    assert_eq!((back.default_spec_id, back.partition_specs.len()), (0, 2));
    let removed = committed(&back, json!([{"action": "remove-partition-specs", "spec-ids": [1]}]));
    assert_eq!((removed.partition_specs.len(), removed.last_partition_id), (1, 1002));

    let v1 = committed(&table(1), json!([add_spec(json!([hour])), set_default_spec(-1)]));
    assert_eq!(v1.default_spec().expect("a spec").fields[0].field_id, 1000);
    let gap = json!([{"name": "hour", "transform": "hour", "source-id": 3, "field-id": 1001}]);
    let expected = [
        (
            json!([add_spec(gap)]),
            "Spec does not use sequential IDs that are required in v1: [\n  1001: hour: hour(3)\n]",
        ),
        (json!([set_default_spec(-1)]), "Cannot set last added spec: no spec has been added"),
        (json!([set_default_spec(3)]), "Cannot set default partition spec to unknown spec: 3"),
        (
            json!([{"action": "remove-partition-specs", "spec-ids": [0]}]),
            "Cannot remove the default partition spec",
        ),
        (
            json!([add_spec(json!([{"name": "p", "transform": "day", "source-id": 2}]))]),
            "Invalid source type string for transform: day",
        ),
    ];
    for (changes, text) in expected {
        assert_eq!(invalid(&table(1), changes), text);
    }
    let last = json!([{"name": "p", "transform": "void", "source-id": 2, "field-id": i32::MAX}]);
    let full = committed(&table(2), json!([add_spec(last)]));
    assert!(invalid(&full, json!([add_spec(json!([hour]))])).contains("ids are exhausted"));
}

#[test]
fn a_sort_order_is_added_once() {
    let order = |id: i32, fields: Value| json!({"action": "add-sort-order", "sort-order": {"order-id": id, "fields": fields}});
    let by = |source_id: i32| {
        json!([{"transform": "identity", "source-id": source_id, "direction": "asc",
            "null-order": "nulls-first"}])
    };
    let set = |id: i32| json!({"action": "set-default-sort-order", "sort-order-id": id});
    let base = table(2);
    let next = committed(&base, json!([order(1, by(1)), set(-1)]));
    assert_eq!(next.default_sort_order_id, 2);
    let back = committed(&next, json!([order(9, by(2)), set(-1)]));
    assert_eq!((back.default_sort_order_id, back.sort_orders.len()), (1, 2));
    let unsorted = committed(&back, json!([order(0, json!([])), set(-1)]));
    assert_eq!((unsorted.default_sort_order_id, unsorted.sort_orders.len()), (0, 3));
    let expected = [
        (json!([set(-1)]), "Cannot set last added sort order: no sort order has been added"),
        (json!([set(5)]), "Cannot set default sort order to unknown sort order: 5"),
        (json!([order(1, by(5))]), "Cannot sort by non-primitive source field: list<string>"),
    ];
    for (changes, text) in expected {
        assert_eq!(invalid(&base, changes), text);
    }
}

#[test]
fn new_snapshot_is_logged_at_its_time_and_a_rollback_at_the_current_time() {
    let table = table_with_snapshots(2, 3);
    assert_eq!(snapshot_ids(&table), [1, 2, 3]);
    assert_eq!(log(&table), [(1, 1), (2, 2), (3, 3)]);
    assert_eq!((table.current_snapshot_id, table.last_sequence_number), (Some(3), 3));
    let rolled_back = committed(&table, json!([set_ref("main", "branch", 1)]));
    assert_eq!(log(&rolled_back), [(1, 1), (2, 2), (3, 3), (4, 1)]);
    assert_eq!(rolled_back.current_snapshot_id, Some(1));
    let branch = committed(
        &table,
        json!([add_snapshot(snapshot(4, Some(3), 4)), set_ref("audit", "branch", 4)]),
    );
    assert_eq!(log(&branch), log(&table), "only main is logged");
}

#[test]
fn snapshots_that_were_current_only_within_a_commit_are_not_logged() {
    let base = table_with_snapshots(2, 1);
    let next = committed(
        &base,
        json!([
            add_snapshot(snapshot(2, Some(1), 2)),
            set_ref("main", "branch", 2),
            add_snapshot(snapshot(3, Some(2), 3)),
            set_ref("main", "branch", 3),
        ]),
    );
    assert_eq!(log(&next), [(1, 1), (3, 3)]);
    assert_eq!(snapshot_ids(&next), [1, 2, 3]);
}

#[test]
fn conflicting_snapshots_are_refused() {
    let base = table_with_snapshots(2, 2);
    let behind = conflict(&base, json!([add_snapshot(snapshot(3, Some(2), 2))]));
    assert_eq!(
        behind,
        "Validation failed, please retry: Cannot add snapshot with sequence number 2 older than \
         last sequence number 2"
    );
    let replaces = committed(&base, json!([add_snapshot(snapshot(3, None, 2))]));
    assert_eq!(replaces.last_sequence_number, 2);
    assert!(conflict(&base, json!([add_snapshot(snapshot(3, None, 1))])).contains("please retry"));
    assert_eq!(
        invalid(&base, json!([add_snapshot(snapshot(2, Some(1), 3))])),
        "Snapshot already exists for id: 2"
    );
    assert_eq!(
        invalid(&table(1), json!([add_snapshot(snapshot(1, None, 1))])),
        "Sequence number must be 0 in v1: 1"
    );
    let ctx = CommitContext { default_location: Some("s3://b".to_owned()), ..ctx(CREATED_MS) };
    let early = updates(&json!([add_snapshot(snapshot(1, None, 1))])).expect("updates");
    assert_eq!(
        apply(None, &[], &early, &ctx).map(|_| ()),
        Err(Refusal::invalid("Attempting to add a snapshot before a schema is added"))
    );
}

#[test]
fn clock_skew_of_more_than_a_minute_is_refused() {
    let base = table(2);
    let at = |offset_ms: i64| {
        let mut snapshot = snapshot(1, None, 1);
        snapshot["timestamp-ms"] = (base.last_updated_ms + 1000 + offset_ms).into();
        json!([add_snapshot(snapshot), set_ref("main", "branch", 1)])
    };
    committed(&base, at(60_000));
    assert!(invalid(&base, at(60_001)).starts_with("Invalid update timestamp"));
    let next = committed(&base, at(0));
    let behind = |offset_ms: i64| {
        let mut snapshot = snapshot(2, Some(1), 2);
        snapshot["timestamp-ms"] = (next.last_updated_ms + offset_ms).into();
        json!([add_snapshot(snapshot), set_ref("main", "branch", 2)])
    };
    committed(&next, behind(-60_000));
    assert!(invalid(&next, behind(-60_001)).contains("not sorted by time"));
    assert!(commit(&base, at(i64::MIN / 2)).is_ok(), "an old first snapshot is accepted");
}

#[test]
fn row_ids_of_version_3_are_unique() {
    let with_rows = |id: i64, first: Option<i64>, added: i64| {
        let mut snapshot = snapshot(id, (id > 1).then(|| id - 1), id);
        snapshot["added-rows"] = added.into();
        if let Some(first) = first {
            snapshot["first-row-id"] = first.into();
        }
        json!([add_snapshot(snapshot)])
    };
    let base = table(3);
    assert_eq!(
        invalid(&base, with_rows(1, None, 5)),
        "Cannot add a snapshot: first-row-id is null"
    );
    let one = committed(&base, with_rows(1, Some(0), 5));
    assert_eq!(one.next_row_id, 5);
    assert_eq!(
        conflict(&one, with_rows(2, Some(4), 5)),
        "Validation failed, please retry: Cannot add a snapshot, first-row-id is behind table \
         next-row-id: 4 < 5"
    );
    assert_eq!(committed(&one, with_rows(2, Some(5), 7)).next_row_id, 12);
    assert_eq!(committed(&one, with_rows(2, Some(10), 7)).next_row_id, 17, "after the gap");
    assert!(invalid(&one, with_rows(2, Some(i64::MAX), 7)).contains("row ids are exhausted"));
}

#[test]
fn references_require_a_snapshot_and_main_is_a_branch() {
    let base = table_with_snapshots(2, 2);
    let tagged = committed(&base, json!([set_ref("v1", "tag", 1)]));
    assert_eq!(tagged.refs["v1"].kind, SnapshotRefKind::Tag);
    let moved = committed(&tagged, json!([set_ref("v1", "branch", 2)]));
    assert_eq!(moved.refs["v1"].snapshot_id, 2);
    let removed = committed(&moved, json!([{"action": "remove-snapshot-ref", "ref-name": "main"}]));
    assert_eq!(removed.current_snapshot_id, None);
    assert_eq!(log(&removed), log(&base), "earlier entries stay in the log");
    assert_eq!(
        invalid(&base, json!([set_ref("main", "branch", 9)])),
        "Cannot set main to unknown snapshot: 9"
    );
    assert_eq!(
        invalid(&base, json!([set_ref("main", "tag", 1)])),
        "Cannot set main to a tag, it must be a branch"
    );
}

#[test]
fn removing_a_snapshot_removes_its_references_and_statistics() {
    let base = table_with_snapshots(2, 4);
    let base = committed(
        &base,
        json!([
            set_ref("v2", "tag", 2),
            {"action": "set-statistics", "statistics": statistics(2, "a")},
            {"action": "set-partition-statistics", "partition-statistics": partition_statistics(2)},
            {"action": "set-statistics", "statistics": statistics(4, "b")},
        ]),
    );
    let one = json!({"action": "remove-snapshots", "snapshot-ids": [2, 77]});
    let next = committed(&base, json!([one]));
    assert_eq!(snapshot_ids(&next), [1, 3, 4]);
    assert_eq!(next.refs.keys().collect::<Vec<_>>(), ["main"]);
    assert_eq!((next.statistics.len(), next.partition_statistics.len()), (1, 0));
    assert_eq!(log(&next), [(3, 3), (4, 4)], "history before a gap is cut");

    let each = json!([
        {"action": "remove-snapshots", "snapshot-ids": [1]},
        {"action": "remove-statistics", "snapshot-id": 2},
        {"action": "remove-snapshots", "snapshot-ids": [2]},
        {"action": "remove-partition-statistics", "snapshot-id": 2},
        {"action": "remove-snapshot-ref", "ref-name": "v2"},
        {"action": "remove-snapshots", "snapshot-ids": [3]},
    ]);
    let next = committed(&base, each);
    assert_eq!(snapshot_ids(&next), [4]);
    assert_eq!(log(&next), [(4, 4)]);

    let next = committed(&base, json!([{"action": "remove-snapshots", "snapshot-ids": [4]}]));
    assert_eq!((next.current_snapshot_id, next.refs.contains_key("main")), (None, false));
    assert_eq!(log(&next), []);

    let again = json!([
        {"action": "remove-snapshots", "snapshot-ids": [4]},
        add_snapshot(snapshot(4, Some(3), 5)),
        set_ref("main", "branch", 4)]);
    let next = committed(&base, again);
    assert_eq!(snapshot_ids(&next), [1, 2, 3, 4]);
    assert_eq!(next.current_snapshot_id, Some(4));
}

fn statistics(snapshot_id: i64, path: &str) -> Value {
    json!({"snapshot-id": snapshot_id, "statistics-path": path, "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1, "blob-metadata": [], "key-metadata": "x"})
}

fn partition_statistics(snapshot_id: i64) -> Value {
    json!({"snapshot-id": snapshot_id, "statistics-path": "p", "file-size-in-bytes": 1})
}

#[test]
fn statistics_are_kept_once_for_each_snapshot() {
    let set = |id: i64, path: &str| json!({"action": "set-statistics", "statistics": statistics(id, path)});
    let base =
        committed(&table_with_snapshots(2, 2), json!([set(1, "a"), set(2, "b"), set(1, "c")]));
    let paths: Vec<&str> = base.statistics.iter().map(|file| file.json().get()).collect();
    assert_eq!(paths.len(), 2);
    assert!(paths[0].contains("\"c\"") && paths[0].contains("key-metadata"));
    assert!(!commit(&base, json!([set(1, "c")])).expect("a commit").changed);
    let removed = committed(&base, json!([{"action": "remove-statistics", "snapshot-id": 1}]));
    assert_eq!(removed.statistics.len(), 1);
}

#[test]
fn encryption_keys_are_added_and_removed_by_id() {
    let add = |id: &str, metadata: &str| {
        json!({"action": "add-encryption-key", "encryption-key": {"key-id": id,
            "encrypted-key-metadata": metadata, "properties": {"a": "b"}, "future": 1}})
    };
    let base = committed(&table(3), json!([add("k", "AAAA"), add("l", "AA"), add("k", "BBBB")]));
    assert_eq!(base.encryption_keys.len(), 2);
    assert!(base.encryption_keys[0].json().get().contains("AAAA"));
    let removed = committed(&base, json!([{"action": "remove-encryption-key", "key-id": "k"}]));
    assert_eq!(removed.encryption_keys.len(), 1);
}

#[test]
fn a_replaced_table_keeps_its_history() {
    let base = table_with_snapshots(2, 2);
    let next = committed(
        &base,
        json!([
            {"action": "remove-snapshot-ref", "ref-name": "main"},
            add_schema(json!({"type": "struct", "fields": [
                {"id": 9, "name": "n", "required": true, "type": "int"}]})),
            set_current_schema(-1),
            add_spec(json!([])),
            set_default_spec(-1),
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": "s3://b/u"},
            add_snapshot(snapshot(3, None, 3)),
            set_ref("main", "branch", 3),
        ]),
    );
    assert_eq!(snapshot_ids(&next), [1, 2, 3]);
    assert_eq!(log(&next), [(1, 1), (2, 2), (3, 3)]);
    assert_eq!(
        (next.current_schema_id, next.default_spec_id, next.default_sort_order_id),
        (1, 1, 0)
    );
}

#[test]
fn many_removals_and_additions_in_one_commit_stay_linear() {
    const COUNT: i64 = 20_000;
    let add = |id: i64| add_snapshot(snapshot(id, None, 1));
    let all: Vec<Value> = (1..=COUNT).map(add).collect();
    let base = commit(&table(2), json!(all)).expect("a commit").metadata;
    assert_eq!(base.snapshots.len(), usize::try_from(COUNT).expect("a count"));
    let remove = |id: i64| json!({"action": "remove-snapshots", "snapshot-ids": [id]});
    let most: Vec<Value> = (2..=COUNT).map(remove).collect();
    let next = commit(&base, json!(most)).expect("a commit").metadata;
    assert_eq!(snapshot_ids(&next), [1]);
    assert_round_trip(&next);
}

/// The append of snapshot 3 to `table_with_snapshots(2, 2)`, with the requirements of its client.
fn third_append() -> (Value, Value) {
    let requirements = json!([
        {"type": "assert-table-uuid", "uuid": table(2).table_uuid},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2},
    ]);
    (requirements, json!([add_snapshot(snapshot(3, Some(2), 3)), set_ref("main", "branch", 3)]))
}

fn after_third_append() -> TableMetadata {
    let (requirements, changes) = third_append();
    let applied = commit_with_requirements(&table_with_snapshots(2, 2), requirements, changes);
    applied.expect("the first append is accepted").metadata
}

#[test]
fn repeated_append_is_accepted_without_effect() {
    let (requirements, changes) = third_append();
    let once = after_third_append();
    let appended = json!([add_snapshot(snapshot(4, Some(3), 4)), set_ref("main", "branch", 4)]);
    let with_a_later_append = committed(&once, appended);
    let with_other_properties = committed(&once, json!([set_properties(json!({"owner": "b"}))]));
    for table in [once, with_a_later_append, with_other_properties] {
        let again = commit_with_requirements(&table, requirements.clone(), changes.clone());
        let again = again.expect("the repetition is accepted");
        assert!(!again.changed);
        assert_eq!(again.metadata, table);
    }
}

#[test]
fn repeated_append_with_another_update_that_does_not_hold_is_refused() {
    let (requirements, changes) = third_append();
    let once = after_third_append();
    let with = |update: Value| {
        let mut changes = changes.clone();
        changes.as_array_mut().expect("updates").push(update);
        commit_with_requirements(&once, requirements.clone(), changes)
    };
    assert!(with(set_properties(json!({"new": "property"}))).is_err());
    assert!(with(set_ref("audit", "branch", 3)).is_err());
    assert!(with(set_ref("main", "branch", 1)).is_err());
    assert!(with(json!({"action": "remove-snapshots", "snapshot-ids": [1]})).is_err());
    let held = json!({"write.parquet.compression-codec": "zstd"});
    assert!(!with(set_properties(held)).expect("the property is set already").changed);
}

#[test]
fn append_with_the_id_of_a_different_snapshot_is_refused() {
    let once = after_third_append();
    let mut other = snapshot(3, Some(2), 3);
    other["manifest-list"] = "s3://b/t/metadata/snap-other.avro".into();
    let changes = json!([add_snapshot(other), set_ref("main", "branch", 3)]);
    assert_eq!(invalid(&once, changes), "Snapshot already exists for id: 3");
}

#[test]
fn repeated_append_after_a_rollback_is_refused() {
    let (requirements, changes) = third_append();
    let rolled_back = committed(&after_third_append(), json!([set_ref("main", "branch", 1)]));
    assert!(commit_with_requirements(&rolled_back, requirements, changes).is_err());
}

#[test]
fn repeated_append_to_another_table_is_refused() {
    let (_, changes) = third_append();
    let requirements = json!([{"type": "assert-table-uuid", "uuid": Uuid::from_u128(404)}]);
    assert!(commit_with_requirements(&after_third_append(), requirements, changes).is_err());
}

#[test]
fn repeated_append_to_a_table_with_a_cycle_of_parents_is_refused() {
    let cycle = json!([
        add_snapshot(snapshot(5, Some(6), 5)),
        add_snapshot(snapshot(6, Some(5), 6)),
        add_snapshot(snapshot(7, None, 7)),
        set_ref("main", "branch", 6),
    ]);
    let table = committed(&table_with_snapshots(2, 2), cycle);
    let changes = json!([add_snapshot(snapshot(7, None, 7)), set_ref("main", "branch", 7)]);
    assert_eq!(invalid(&table, changes), "Snapshot already exists for id: 7");
}

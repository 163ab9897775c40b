//! Generates random sequences of changes to a table, for property tests.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{CREATED_MS, add_snapshot, set_ref, snapshot};
use crate::table::TableMetadata;

/// Returns a configuration with `cases` cases. Past failures are not stored in a file, because each
/// of them should become a test of its own.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A change that a client makes to a table.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the name of each variant describes the change")]
pub(crate) enum Step {
    AddColumn(&'static str),
    BackToSchema(u8),
    AddSpec(&'static str, i32),
    BackToSpec(u8),
    SortBy(i32),
    Append { branch: &'static str, current: bool },
    Tag(&'static str, u8),
    Rollback(u8),
    Expire(u8),
    RemoveRef(&'static str),
    SetStatistics(u8),
    SetProperty(u8),
    RemoveUnused,
}

/// Generates one step.
pub(crate) fn any_step() -> impl Strategy<Value = Step> {
    let types = prop::sample::select(vec!["int", "string", "date", "timestamp", "decimal(9, 2)"]);
    let transforms =
        prop::sample::select(vec!["day", "hour", "bucket[4]", "identity", "truncate[2]", "void"]);
    let branch = || prop::sample::select(vec!["main", "main", "audit"]);
    let name = || prop::sample::select(vec!["main", "audit", "v1"]);
    prop_oneof![
        1 => types.prop_map(Step::AddColumn),
        1 => any::<u8>().prop_map(Step::BackToSchema),
        1 => (transforms, 1..12_i32).prop_map(|(transform, id)| Step::AddSpec(transform, id)),
        1 => any::<u8>().prop_map(Step::BackToSpec),
        1 => (0..12_i32).prop_map(Step::SortBy),
        6 => (branch(), any::<bool>())
            .prop_map(|(branch, current)| Step::Append { branch, current }),
        2 => (name(), any::<u8>()).prop_map(|(name, id)| Step::Tag(name, id)),
        1 => any::<u8>().prop_map(Step::Rollback),
        2 => any::<u8>().prop_map(Step::Expire),
        1 => name().prop_map(Step::RemoveRef),
        1 => any::<u8>().prop_map(Step::SetStatistics),
        1 => any::<u8>().prop_map(Step::SetProperty),
        1 => Just(Step::RemoveUnused),
    ]
}

/// Returns the updates that a client would send for a step.
pub(crate) fn updates_of(table: &TableMetadata, step: &Step) -> Value {
    let nth = |n: u8| {
        let ids: Vec<i64> = table.snapshots.iter().map(|snapshot| snapshot.snapshot_id).collect();
        if ids.is_empty() { 404 } else { ids[usize::from(n) % ids.len()] }
    };
    match step {
        Step::AddColumn(field_type) => {
            let id = table.last_column_id + 1;
            let schema = table.current_schema().expect("a schema");
            let mut schema = serde_json::to_value(schema).expect("JSON");
            schema["fields"].as_array_mut().expect("fields").push(
                json!({"id": id, "name": format!("c{id}"), "required": false, "type": field_type}),
            );
            json!([{"action": "add-schema", "schema": schema},
                {"action": "set-current-schema", "schema-id": -1}])
        }
        Step::BackToSchema(n) => {
            let schema = &table.schemas[usize::from(*n) % table.schemas.len()];
            json!([{"action": "set-current-schema", "schema-id": schema.schema_id()}])
        }
        Step::AddSpec(transform, source_id) => {
            let field_id = table.last_partition_id + 1;
            let name = format!("p{field_id}");
            json!([
                {"action": "add-spec", "spec": {"spec-id": 0, "fields": [{"name": name,
                    "transform": transform, "source-id": source_id, "field-id": field_id}]}},
                {"action": "set-default-spec", "spec-id": -1}])
        }
        Step::BackToSpec(n) => {
            let spec = &table.partition_specs[usize::from(*n) % table.partition_specs.len()];
            json!([{"action": "set-default-spec", "spec-id": spec.spec_id}])
        }
        Step::SortBy(source_id) => {
            let order = if *source_id == 0 {
                json!({"order-id": 0, "fields": []})
            } else {
                json!({"order-id": 1, "fields": [{"transform": "identity", "source-id": source_id,
                    "direction": "desc", "null-order": "nulls-last"}]})
            };
            json!([{"action": "add-sort-order", "sort-order": order},
                {"action": "set-default-sort-order", "sort-order-id": -1}])
        }
        Step::Append { branch, current } => append(table, branch, *current),
        Step::Tag(name, n) => json!([set_ref(name, "tag", nth(*n))]),
        Step::Rollback(n) => json!([set_ref("main", "branch", nth(*n))]),
        Step::Expire(n) => json!([{"action": "remove-snapshots", "snapshot-ids": [nth(*n)]}]),
        Step::RemoveRef(name) => json!([{"action": "remove-snapshot-ref", "ref-name": name}]),
        Step::SetStatistics(n) => {
            let id = nth(*n);
            json!([{"action": "set-statistics", "snapshot-id": id, "statistics": {
                "snapshot-id": id, "statistics-path": format!("p{n}"), "file-size-in-bytes": 1,
                "file-footer-size-in-bytes": 1, "blob-metadata": []}}])
        }
        Step::SetProperty(n) => json!([{"action": "set-properties", "updates":
            {"write.metadata.previous-versions-max": n.to_string()}}]),
        Step::RemoveUnused => {
            let specs = table.partition_specs.iter().map(|spec| spec.spec_id);
            let specs: Vec<i32> = specs.filter(|id| *id != table.default_spec_id).collect();
            let schemas = table.schemas.iter().map(|schema| schema.schema_id());
            let schemas: Vec<i32> = schemas.filter(|id| *id != table.current_schema_id).collect();
            json!([{"action": "remove-partition-specs", "spec-ids": specs},
                {"action": "remove-schemas", "schema-ids": schemas}])
        }
    }
}

/// Returns the updates of an append to a branch.
pub(crate) fn append(table: &TableMetadata, branch: &str, current: bool) -> Value {
    let parent = table.refs.get(branch).map(|reference| reference.snapshot_id);
    let number = table.last_sequence_number + 1;
    let v1 = table.format_version == 1;
    let id = table.last_updated_ms - CREATED_MS + 1;
    let mut next = snapshot(id, parent, if v1 { 0 } else { number });
    next["timestamp-ms"] = (table.last_updated_ms + 500).into();
    if table.format_version == 3 {
        next["first-row-id"] = table.next_row_id.into();
        next["added-rows"] = 3.into();
    }
    let mut changes = vec![add_snapshot(next)];
    if current {
        changes.push(set_ref(branch, "branch", id));
    }
    Value::from(changes)
}

//! Compares slateberg's table metadata with that of the `iceberg` crate. The crate must be able to
//! read the metadata of slateberg, and the same updates must lead to the same table.

use std::collections::{BTreeMap, BTreeSet};

use iceberg::TableUpdate as CrateUpdate;
use iceberg::spec::TableMetadata as CrateMetadata;
use proptest::prelude::*;
use serde_json::Value;

use slateberg_model::table::TableMetadata;
use slateberg_model::{
    commit, create, partition, refusal, requirement, schema, sort, table, update,
};
use testing::steps::{Step, any_step, config, updates_of};
use testing::{METADATA_LOCATION, commit, table as new_table, table_with_snapshots};

// Fixtures of the model's own tests. A cargo feature for them would build the model twice.
#[allow(dead_code, unreachable_pub, reason = "the model's own tests use the rest")]
#[path = "../crates/model/src/testing.rs"]
mod testing;

#[path = "differential/scan.rs"]
mod scan;

fn read(metadata: &TableMetadata) -> CrateMetadata {
    let json = metadata.to_json();
    serde_json::from_slice(&json).unwrap_or_else(|error| {
        let error: String = error.to_string().chars().take(300).collect();
        panic!("{error}: {}", String::from_utf8_lossy(&json))
    })
}

/// Whether the current schema has the source column of each field of the default partition spec.
fn has_columns_of_default_spec(table: &TableMetadata) -> bool {
    let schema = table.current_schema().expect("a schema");
    let mut ids = BTreeSet::new();
    collect_ids(&serde_json::to_value(schema).expect("JSON"), &mut ids);
    let spec = table.default_spec().expect("a spec");
    spec.fields.iter().all(|field| ids.contains(&i64::from(field.source_id)))
}

/// Collects the ids of all fields of a schema, nested ones too.
fn collect_ids(json: &Value, ids: &mut BTreeSet<i64>) {
    match json {
        Value::Array(values) => values.iter().for_each(|value| collect_ids(value, ids)),
        Value::Object(members) => {
            let names = ["id", "element-id", "key-id", "value-id"];
            ids.extend(names.iter().filter_map(|name| members.get(*name)?.as_i64()));
            members.values().for_each(|value| collect_ids(value, ids));
        }
        _ => {}
    }
}

fn apply(base: &TableMetadata, changes: &Value) -> iceberg::Result<CrateMetadata> {
    let mut builder = read(base).into_builder(Some(METADATA_LOCATION.to_owned()));
    for update in changes.as_array().expect("a list") {
        let update: CrateUpdate = serde_json::from_value(update.clone()).expect("an update");
        builder = update.apply(builder)?;
    }
    Ok(builder.build()?.metadata)
}

/// Returns the parts in which both implementations must agree: everything except the order of lists
/// and the times.
fn essence(metadata: &CrateMetadata, step: &Step) -> Value {
    let mut json = serde_json::to_value(metadata).expect("JSON");
    let members = json.as_object_mut().expect("an object");
    members.remove("last-updated-ms");
    match step {
        // Rollbacks are logged with the current time, and the crate uses its own clock.
        Step::Rollback(_) => members.remove("snapshot-log"),
        // The crate retains the statistics of removed snapshots.
        Step::Expire(_) => members.remove("statistics"),
        _ => None,
    };
    for name in ["schemas", "partition-specs", "sort-orders", "snapshots", "statistics"] {
        let id = match name {
            "schemas" => "schema-id",
            "partition-specs" => "spec-id",
            "sort-orders" => "order-id",
            _ => "snapshot-id",
        };
        if let Some(Value::Array(list)) = members.get_mut(name) {
            list.sort_by_key(|element| element[id].as_i64());
        }
    }
    json
}

/// Whether only the crate accepts this step, in contrast to the reference implementation and
/// slateberg.
fn crate_is_lenient(step: &Step) -> bool {
    match step {
        // The crate lets the branch main become a tag.
        Step::Tag(name, _) => *name == "main",
        // The crate partitions by the elements of a list (field 8).
        Step::AddSpec(_, source_id) => *source_id == 8,
        _ => false,
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn iceberg_crate_reads_our_metadata_and_applies_updates_equally(
        version in 1_u8..4,
        steps in prop::collection::vec(any_step(), 1..30),
    ) {
        let mut current = new_table(version);
        for step in &steps {
            let changes = updates_of(&current, step);
            let ours = commit(&current, changes.clone());
            // The crate rejects some valid changes: it fails on its own snapshot log when the
            // current snapshot expires, and on void fields whose column was removed.
            let theirs = apply(&current, &changes);
            match (&ours, &theirs) {
                (Ok(ours), Ok(theirs)) if ours.changed => {
                    let ours = essence(&read(&ours.metadata), step);
                    prop_assert_eq!(ours, essence(theirs, step), "{:?}", step);
                }
                (Err(refusal), Ok(_)) => {
                    prop_assert!(crate_is_lenient(step), "only we reject {:?}: {}", step, refusal);
                }
                _ => {}
            }
            // The crate cannot read a void field of the default spec whose column was removed.
            if let Some(ours) = ours.ok().filter(|ours| has_columns_of_default_spec(&ours.metadata)) {
                read(&ours.metadata);
                current = ours.metadata;
            }
        }
    }
}

#[test]
fn iceberg_crate_reads_the_same_snapshots_and_references() {
    for version in 1..=3 {
        let ours = table_with_snapshots(version, 5);
        let theirs = read(&ours);
        assert_eq!(theirs.current_snapshot_id(), ours.current_snapshot_id);
        assert_eq!(theirs.current_schema_id(), ours.current_schema_id);
        assert_eq!(theirs.last_sequence_number(), ours.last_sequence_number);
        assert_eq!(theirs.uuid(), ours.table_uuid);
        let ids =
            |ids: &mut dyn Iterator<Item = i64>| ids.map(|id| (id, ())).collect::<BTreeMap<_, _>>();
        assert_eq!(
            ids(&mut theirs.snapshots().map(|snapshot| snapshot.snapshot_id())),
            ids(&mut ours.snapshots.iter().map(|snapshot| snapshot.snapshot_id)),
        );
        assert_eq!(theirs.history().len(), ours.snapshot_log.len());
        for (name, reference) in &ours.refs {
            let theirs = theirs.snapshot_for_ref(name).map(|snapshot| snapshot.snapshot_id());
            assert_eq!(theirs, Some(reference.snapshot_id));
        }
    }
}

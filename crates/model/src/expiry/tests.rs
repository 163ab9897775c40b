//! Tests of the expiry of snapshots.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::testing::steps::config;
use super::super::testing::{
    CREATED_MS, add_snapshot, commit, committed, set_ref, snapshot, table, table_with_snapshots,
};
use super::*;

/// A time at which the snapshots of the test tables are ten days old.
const LATER_MS: i64 = CREATED_MS + 10 * 24 * 60 * 60 * 1000;

fn with_properties(base: &TableMetadata, properties: Value) -> TableMetadata {
    committed(base, json!([{"action": "set-properties", "updates": properties}]))
}

fn with_ref(base: &TableMetadata, name: &str, kind: &str, id: i64, rules: Value) -> TableMetadata {
    let mut set = set_ref(name, kind, id);
    let rules = rules.as_object().expect("an object").clone();
    set.as_object_mut().expect("an object").extend(rules);
    committed(base, json!([set]))
}

#[track_caller]
fn expired(table: &TableMetadata, request: ExpiryRequest) -> Expiry {
    Expiry::of(table, request, &BTreeMap::new(), LATER_MS).expect("the table allows expiry")
}

/// Applies an expiry, and returns the ids of the remaining snapshots.
fn remaining(base: &TableMetadata, expiry: &Expiry) -> Vec<i64> {
    let changes: Vec<_> = expiry.updates(base).iter().map(|it| json!(it)).collect();
    let applied = commit(base, Value::Array(changes)).expect("the expiry is accepted");
    let after = applied.metadata;
    let is_known = |id: &i64| after.snapshot(*id).is_some();
    assert!(after.refs.values().all(|it| is_known(&it.snapshot_id)), "{:?}", after.refs);
    after.snapshots.iter().map(|it| it.snapshot_id).collect()
}

#[test]
fn only_the_current_snapshot_of_an_old_table_remains() {
    let table = table_with_snapshots(2, 5);
    let expiry = expired(&table, ExpiryRequest::default());
    assert_eq!(expiry.snapshots, [1, 2, 3, 4]);
    assert_eq!(expiry.files.manifest_lists[0], "s3://b/t/metadata/snap-1.avro");
    assert_eq!(remaining(&table, &expiry), [5]);
}

#[test]
fn young_snapshots_and_the_last_ones_of_a_branch_remain() {
    let table = table_with_snapshots(2, 5);
    let age_ms = LATER_MS - (CREATED_MS + 3000);
    let request = ExpiryRequest { older_than_ms: Some(age_ms), retain_last: None };
    assert_eq!(expired(&table, request).snapshots, [1, 2]);
    let request = ExpiryRequest { older_than_ms: Some(0), retain_last: Some(4) };
    assert_eq!(expired(&table, request).snapshots, [1]);
    let request = ExpiryRequest { older_than_ms: Some(0), retain_last: Some(0) };
    assert_eq!(remaining(&table, &expired(&table, request)), [5]);
    let table = with_properties(
        &table,
        json!({ MIN_SNAPSHOTS_PROPERTY: "3", MAX_SNAPSHOT_AGE_PROPERTY: "1000" }),
    );
    assert_eq!(expired(&table, ExpiryRequest::default()).snapshots, [1, 2]);
}

#[test]
fn branches_and_tags_have_their_own_rules() {
    let table = table_with_snapshots(2, 6);
    let table = with_ref(&table, "kept", "tag", 2, json!({}));
    let table = with_ref(&table, "old", "tag", 1, json!({ "max-ref-age-ms": 1 }));
    let rules = json!({ "min-snapshots-to-keep": 2, "max-snapshot-age-ms": 1 });
    let table = with_ref(&table, "audit", "branch", 4, rules);
    let expiry = expired(&table, ExpiryRequest::default());
    assert_eq!((&*expiry.refs, &*expiry.snapshots), (&["old".to_owned()][..], &[1, 5][..]));
    assert_eq!(remaining(&table, &expiry), [2, 3, 4, 6]);
    let table = with_properties(&table, json!({ MAX_REF_AGE_PROPERTY: "1" }));
    let expiry = expired(&table, ExpiryRequest::default());
    assert_eq!(expiry.refs, ["audit", "kept", "old"]);
    assert_eq!(remaining(&table, &expiry), [6], "main never expires");
}

#[test]
fn young_snapshot_without_a_branch_remains() {
    let base = table_with_snapshots(2, 2);
    let staged = |id: i64, at_ms: i64, base: &TableMetadata| {
        let mut staged = snapshot(id, Some(2), id);
        staged["timestamp-ms"] = at_ms.into();
        committed(base, json!([add_snapshot(staged)]))
    };
    let table = staged(8, CREATED_MS + 3000, &base);
    let table = staged(9, LATER_MS - 1000, &table);
    assert_eq!(expired(&table, ExpiryRequest::default()).snapshots, [1, 8]);
}

#[test]
fn statistics_of_expired_snapshots_are_removed() {
    let table = table_with_snapshots(2, 3);
    let statistics = |id: i64| {
        json!({"action": "set-statistics", "snapshot-id": id, "statistics": {
            "snapshot-id": id, "statistics-path": format!("s3://b/t/metadata/{id}.stats"),
            "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []}})
    };
    let table = committed(&table, json!([statistics(1), statistics(3)]));
    let expiry = expired(&table, ExpiryRequest::default());
    assert_eq!(expiry.files.statistics, ["s3://b/t/metadata/1.stats"]);
    let changes: Vec<_> = expiry.updates(&table).iter().map(|it| json!(it)).collect();
    let after = committed(&table, Value::Array(changes));
    assert_eq!(after.statistics.iter().map(|it| it.snapshot_id).collect::<Vec<_>>(), [3]);
}

#[test]
fn nothing_expires_in_an_empty_table() {
    let table = table(2);
    let expiry = expired(&table, ExpiryRequest::default());
    assert!(expiry.is_empty() && expiry.updates(&table).is_empty());
}

#[test]
fn table_without_garbage_collection_and_invalid_properties_are_rejected() {
    for (name, value) in [
        (GC_PROPERTY, "False"),
        (MAX_SNAPSHOT_AGE_PROPERTY, "x"),
        (MIN_SNAPSHOTS_PROPERTY, "-1"),
        (MAX_REF_AGE_PROPERTY, "1.5"),
    ] {
        let table = with_properties(&table_with_snapshots(2, 2), json!({ name: value }));
        let rejected = Expiry::of(&table, ExpiryRequest::default(), &BTreeMap::new(), LATER_MS);
        assert!(matches!(&rejected, Err(Refusal::Invalid(text)) if text.contains(name)), "{name}");
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn retained_references_keep_their_snapshots_and_min_ancestors(
        count in 1..12_i64,
        branch in 1..12_i64,
        tag in 1..12_i64,
        retain_last in 0..5_usize,
        age_s in 0..15_i64,
    ) {
        let table = table_with_snapshots(2, count);
        let table = with_ref(&table, "b", "branch", branch.min(count), json!({}));
        let table = with_ref(&table, "t", "tag", tag.min(count), json!({}));
        let now_ms = CREATED_MS + 13_000;
        let request = ExpiryRequest { older_than_ms: Some(age_s * 1000), retain_last: Some(retain_last) };
        let expiry = Expiry::of(&table, request, &BTreeMap::new(), now_ms).expect("the table allows expiry");
        let remaining = remaining(&table, &expiry);
        let expected: Vec<i64> = (1..=count)
            .filter(|id| {
                let is_young = CREATED_MS + id * 1000 >= now_ms - age_s * 1000;
                let last = |head: i64| *id <= head && *id > head - retain_last.max(1) as i64;
                is_young || last(count) || last(branch.min(count)) || *id == tag.min(count)
            })
            .collect();
        prop_assert_eq!(remaining, expected);
    }
}

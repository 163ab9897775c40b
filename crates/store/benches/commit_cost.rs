//! Measures the CPU time of a commit up to its write: the time to apply the updates, to render the
//! metadata and to encode it. The tables have few or many snapshots.
//!
//! `cargo bench -p slateberg-store --bench commit_cost`

#![expect(clippy::print_stdout, reason = "the benchmark prints its results")]

use std::collections::HashSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use slateberg_model::commit::{AppliedCommit, CommitBase, CommitContext, apply};
use slateberg_model::requirement::{TableRequirement, parse_requirement};
use slateberg_model::table::TableMetadata;
use slateberg_model::update::TableUpdate;
use slateberg_store::codec::{ChunkBytes, Document, Value};

/// Number of commits in one measurement.
const ROUNDS: usize = 200;
/// Time before all snapshots of the tables.
const CREATED_MS: i64 = 1_700_000_000_000;

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    to_raw_value(value).expect("a value is JSON")
}

/// Returns the id of a snapshot. The ids look random, like those that writers create.
fn snapshot_id(number: i64) -> i64 {
    (number.wrapping_mul(0x5851_F42D_4C95_7F2D) ^ 0x1405_7B7E_F767_814F) & i64::MAX
}

/// Returns a snapshot with a summary like Spark's, about 700 bytes.
fn snapshot(number: i64) -> serde_json::Value {
    let id = snapshot_id(number);
    json!({
        "sequence-number": number, "snapshot-id": id,
        "parent-snapshot-id": snapshot_id(number - 1), "timestamp-ms": CREATED_MS + number,
        "summary": {
            "operation": "append", "spark.app.id": "application_1700000000000_0042",
            "added-data-files": "8", "added-records": "123456", "added-files-size": "98765432",
            "changed-partition-count": "4", "total-records": (number * 123_456).to_string(),
            "total-files-size": (number * 98_765_432).to_string(),
            "total-data-files": (number * 8).to_string(), "total-delete-files": "0",
            "total-position-deletes": "0", "total-equality-deletes": "0",
            "engine-version": "3.5.1", "engine-name": "spark",
            "iceberg-version": "Apache Iceberg 1.11.0",
        },
        "manifest-list": format!("s3://bucket/warehouse/ns/t/metadata/snap-{id}-1-0190b2a1-7d5e-7cc4-a1f5-4a5e3c9b8f10.avro"),
        "schema-id": 0,
    })
}

fn table(snapshots: i64) -> TableMetadata {
    let log = |n: i64| json!({ "timestamp-ms": CREATED_MS + n, "snapshot-id": snapshot_id(n) });
    let file = |n: i64| {
        format!(
            "s3://bucket/warehouse/ns/t/metadata/{n:05}-0190b2a1-7d5e-7cc4-a1f5-4a5e3c9b8f10.metadata.json"
        )
    };
    let earlier = (0..100).map(|n| json!({ "timestamp-ms": CREATED_MS, "metadata-file": file(n) }));
    let document = json!({
        "format-version": 2, "table-uuid": "fb072c92-a02b-11e9-ae9c-1bb7bc9eca94",
        "location": "s3://bucket/warehouse/ns/t", "last-sequence-number": snapshots,
        "last-updated-ms": CREATED_MS + snapshots, "last-column-id": 3, "current-schema-id": 0,
        "schemas": [{ "type": "struct", "schema-id": 0, "fields": [
            { "id": 1, "name": "id", "required": true, "type": "long" },
            { "id": 2, "name": "data", "required": false, "type": "string" },
            { "id": 3, "name": "at", "required": false, "type": "timestamptz" }] }],
        "partition-specs": [{ "spec-id": 0, "fields": [] }], "default-spec-id": 0,
        "last-partition-id": 999, "sort-orders": [{ "order-id": 0, "fields": [] }],
        "default-sort-order-id": 0, "properties": { "owner": "somebody" },
        "current-snapshot-id": snapshot_id(snapshots),
        "refs": { "main": { "snapshot-id": snapshot_id(snapshots), "type": "branch" } },
        "snapshots": (1..=snapshots).map(snapshot).collect::<Vec<_>>(),
        "snapshot-log": (1..=snapshots).map(log).collect::<Vec<_>>(),
        "metadata-log": earlier.collect::<Vec<_>>(),
    });
    TableMetadata::parse(document.to_string().as_bytes()).expect("a valid document")
}

/// Returns the requirements and updates with which a client appends the next snapshot.
fn append(base: &TableMetadata) -> (Vec<TableRequirement>, Vec<TableUpdate>) {
    let number = base.last_sequence_number + 1;
    let id = snapshot_id(number);
    let requirements = [
        json!({ "type": "assert-table-uuid", "uuid": base.table_uuid }),
        json!({ "type": "assert-ref-snapshot-id", "ref": "main",
            "snapshot-id": base.current_snapshot_id }),
    ];
    let updates = [
        json!({ "action": "add-snapshot", "snapshot": snapshot(number) }),
        json!({ "action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
            "snapshot-id": id }),
    ];
    let requirement = |it: &serde_json::Value| parse_requirement(&raw(it)).expect("a requirement");
    let update = |it: &serde_json::Value| TableUpdate::parse(&raw(it)).expect("an update");
    (requirements.iter().map(requirement).collect(), updates.iter().map(update).collect())
}

/// Durations of the steps of a commit.
#[derive(Default)]
struct Cost {
    apply: Duration,
    render: Duration,
    encode: Duration,
    bytes_inline: usize,
    bytes_written: usize,
    chunks_written: usize,
}

fn commits(base: TableMetadata) -> Cost {
    let mut cost = Cost::default();
    let mut current = base;
    let mut text = current.to_segmented_json();
    for _ in 0..ROUNDS {
        let (requirements, updates) = append(&current);
        let context = CommitContext {
            now_ms: current.last_updated_ms + 1,
            new_uuid: current.table_uuid,
            default_location: None,
            format_version_max: 3,
        };
        let start = Instant::now();
        let base =
            CommitBase { metadata: &current, metadata_location: Some("s3://b/m.metadata.json") };
        let applied = apply(Some(base), &requirements, &updates, &context);
        cost.apply += start.elapsed();
        let AppliedCommit { metadata, .. } = applied.expect("the commit is accepted");
        let start = Instant::now();
        let next = metadata.to_segmented_json();
        cost.render += start.elapsed();
        let known: HashSet<_> = text.chunks().map(|chunk| chunk.hash()).collect();
        let new: Vec<_> = next.chunks().filter(|chunk| !known.contains(&chunk.hash())).collect();
        let start = Instant::now();
        let document = Document { version: 1, text: next.clone() };
        let head = document.head().encode();
        let chunks = new.iter().map(|chunk| ChunkBytes(chunk.text().clone()).encode().len());
        cost.bytes_written += head.len() + chunks.sum::<usize>();
        cost.encode += start.elapsed();
        cost.bytes_inline += next.inline().len();
        cost.chunks_written += new.len();
        (current, text) = (metadata, next);
    }
    cost
}

fn per_round(total: Duration) -> f64 {
    total.as_secs_f64() * 1e6 / ROUNDS as f64
}

fn measure(mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..7 {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| work());
        best = best.min(per_round(start.elapsed()));
    }
    best
}

fn main() {
    println!("microseconds for a commit (mean of {ROUNDS}, best of 5)");
    for snapshots in [10, 100, 1_000, 10_000] {
        let base = table(snapshots);
        let costs = (0..5).map(|_| commits(base.clone()));
        let total = |cost: &Cost| cost.apply + cost.render + cost.encode;
        let cost = costs.min_by_key(total).expect("five costs were measured");
        println!(
            "{snapshots:>6} snapshots: apply {:>6.1}  to_text {:>6.1}  encode {:>6.1}  sum {:>6.1}   \
             inline {:>6} B, written {:>6} B, {:.2} chunks",
            per_round(cost.apply),
            per_round(cost.render),
            per_round(cost.encode),
            per_round(total(&cost)),
            cost.bytes_inline / ROUNDS,
            cost.bytes_written / ROUNDS,
            cost.chunks_written as f64 / ROUNDS as f64,
        );
        let text = base.to_segmented_json();
        let json = text.to_bytes();
        let missing = || black_box(base.snapshot(black_box(-5))).is_none();
        println!(
            "        whole text {} B; a missing id {:.1} us; clone {:.1} us; parse {:.0} us; \
             from_text {:.0} us; zstd of all of it {:.0} us",
            text.len(),
            measure(|| assert!(missing())),
            measure(|| drop(black_box(base.clone()))),
            once(|| drop(TableMetadata::parse(&json))),
            once(|| drop(TableMetadata::from_segmented_json(&text))),
            once(|| drop(zstd::bulk::compress(&json, 1))),
        );
    }
    contexts();
}

fn once(mut work: impl FnMut()) -> f64 {
    let times = (0..5).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    times.min().unwrap_or_default().as_secs_f64() * 1e6
}

/// Measures the cost of a new zstd context for each document.
fn contexts() {
    let json = table(10).to_json();
    for size in [1_000, 5_000, 20_000] {
        let source = &json.repeat(2)[..size];
        let fresh = measure(|| drop(black_box(zstd::bulk::compress(source, 1))));
        let mut compressor = zstd::bulk::Compressor::new(1).expect("a compressor");
        let reused = measure(|| drop(black_box(compressor.compress(source))));
        let packed = compressor.compress(source).expect("it is compressed");
        let unpack = measure(|| drop(black_box(zstd::bulk::decompress(&packed, size))));
        let mut decompressor = zstd::bulk::Decompressor::new().expect("a decompressor");
        let again = measure(|| drop(black_box(decompressor.decompress(&packed, size))));
        println!(
            "{size:>6} B: compress {fresh:.1} us fresh, {reused:.1} us reused; decompress \
             {unpack:.1} us fresh, {again:.1} us reused"
        );
    }
}

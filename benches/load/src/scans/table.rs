//! A table with many data files. Only its manifests exist: nothing reads the data files.

use std::sync::Arc;

use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, Literal, ManifestListWriter,
    ManifestWriterBuilder, PartitionSpec, Schema, Struct,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::connection::Call;
use crate::prepare::{namespace, snapshot_id};
use crate::target::{Target, TargetError};
use slateberg_base::clock::{Clock, SystemClock};

/// Number of data files in a manifest: a manifest has about 8 MB then.
const FILES_PER_MANIFEST: u64 = 20_000;
/// Number of rows in a data file.
pub const ROWS: u64 = 1000;
/// Number of partitions.
pub const DAYS: u64 = 1000;
/// The columns with their types. All of them have statistics.
pub const COLUMNS: [(&str, &str); 12] = [
    ("id", "long"),
    ("day", "date"),
    ("region", "string"),
    ("device", "string"),
    ("ts", "timestamp"),
    ("amount", "double"),
    ("quantity", "int"),
    ("name", "string"),
    ("code", "string"),
    ("score", "float"),
    ("reference", "long"),
    ("note", "string"),
];
/// First day of the table: 2024-01-01, in days since 1970.
const FIRST_DAY: u64 = 19_723;
/// Microseconds in a day.
const DAY_MICROS: u64 = 86_400_000_000;

#[derive(Deserialize)]
struct Loaded {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata {
    location: String,
    schemas: Vec<Schema>,
    partition_specs: Vec<PartitionSpec>,
}

fn failed(error: impl std::fmt::Display) -> TargetError {
    TargetError::Unsupported(format!("writing the table failed: {error}"))
}

/// Creates a table with this number of data files, partitioned by day. The directory of the
/// warehouse must be on this machine. Returns the path of the table.
///
/// # Errors
///
/// Errors if the server rejects the table, or if its files cannot be written.
pub async fn create(target: &Target, files: u64) -> Result<String, TargetError> {
    let (namespace_name, name) = (target.unique_name("scans"), format!("files_{files}"));
    namespace(target, &namespace_name).await?;
    let fields = (1..).zip(COLUMNS).map(
        |(id, (name, kind))| json!({ "id": id, "name": name, "required": false, "type": kind }),
    );
    let day = json!({ "source-id": 2, "field-id": 1000, "name": "day", "transform": "identity" });
    let body = json!({
        "name": name,
        "schema": { "type": "struct", "schema-id": 0, "fields": fields.collect::<Vec<_>>() },
        "partition-spec": { "spec-id": 0, "fields": [day] },
    });
    target.create(Call::post(target.tables(&namespace_name), body.to_string())).await?;
    let path = target.table(&namespace_name, &name);
    let body = target.request(Call::get(&path)).await?.body;
    let table: Loaded = serde_json::from_slice(&body).map_err(failed)?;
    let commit = write(table.metadata, files).await.map_err(failed)?;
    target.request(Call::post(&path, commit.to_string())).await?;
    Ok(path)
}

/// Writes the manifests and the manifest list. Returns the commit that adds the snapshot.
async fn write(table: Metadata, files: u64) -> Result<Value, iceberg::Error> {
    let (io, id) = (FileIO::new_with_fs(), snapshot_id());
    let schema = Arc::new(table.schemas[0].clone());
    let mut manifests = Vec::new();
    for first in (0..files).step_by(FILES_PER_MANIFEST as usize) {
        let output = io.new_output(format!("{}/metadata/m-{id}-{first}.avro", table.location))?;
        let spec = table.partition_specs[0].clone();
        let builder = ManifestWriterBuilder::new(output, Some(id), Arc::clone(&schema), spec);
        let mut writer = builder.build_v2_data();
        for number in first..files.min(first + FILES_PER_MANIFEST) {
            writer.add_file(data_file(&table.location, number, files), 1)?;
        }
        manifests.push(writer.write_manifest_file().await?);
    }
    let list = format!("{}/metadata/snap-{id}.avro", table.location);
    let mut writer = ManifestListWriter::v2(io.new_output(&list)?.writer().await?, id, None, 1);
    writer.add_manifests(manifests.into_iter())?;
    writer.close().await?;
    let snapshot = json!({
        "snapshot-id": id, "sequence-number": 1, "timestamp-ms": SystemClock.now_ms(),
        "manifest-list": list, "schema-id": 0,
        "summary": { "operation": "append", "added-data-files": files.to_string() },
    });
    Ok(json!({ "requirements": [], "updates": [
        { "action": "add-snapshot", "snapshot": snapshot },
        { "action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id },
    ]}))
}

/// Returns the days since 1970 of a file.
pub fn day_of(number: u64, files: u64) -> u64 {
    FIRST_DAY + number * DAYS / files
}

/// Returns a data file. Its ids follow those of the file before it.
fn data_file(location: &str, number: u64, files: u64) -> DataFile {
    let day = day_of(number, files);
    let bounds = |row: u64| {
        let (id, mixed) = (number * ROWS + row, number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        [
            Datum::long(id.cast_signed()),
            Datum::date(i32::try_from(day).unwrap_or(i32::MAX)),
            Datum::string(format!("region-{:02}", (mixed + row / 500) % 40)),
            Datum::string(format!("device-{:08}", mixed % 100_000_000)),
            Datum::timestamp_micros((day * DAY_MICROS + row * 1_000_000).cast_signed()),
            Datum::double((mixed % 10_000) as f64 + row as f64),
            Datum::int((mixed % 100 + row) as i32),
            Datum::string(format!("customer {:010}", mixed % 10_000_000_000)),
            Datum::string(format!("{:016x}", mixed)),
            Datum::float((mixed % 1000) as f32),
            Datum::long((mixed >> 2).cast_signed()),
            Datum::string(format!("note {}", mixed % 1_000_000)),
        ]
    };
    let numbered = |values: [Datum; COLUMNS.len()]| (1..).zip(values).collect();
    let counts = |count: u64| (1..).zip([count; COLUMNS.len()]).collect();
    DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(format!("{location}/data/day={day}/{number:08}-0-part.parquet"))
        .file_format(DataFileFormat::Parquet)
        .partition(Struct::from_iter([Some(Literal::date(i32::try_from(day).unwrap_or(i32::MAX)))]))
        .partition_spec_id(0)
        .record_count(ROWS)
        .file_size_in_bytes(1 << 20)
        .column_sizes(counts(4000))
        .value_counts(counts(ROWS))
        .null_value_counts(counts(0))
        .lower_bounds(numbered(bounds(0)))
        .upper_bounds(numbered(bounds(ROWS - 1)))
        .split_offsets(Some(vec![4]))
        .sort_order_id(0)
        .build()
        .expect("all required values are set")
}

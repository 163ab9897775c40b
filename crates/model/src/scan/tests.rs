//! Tests of scan planning.

mod blocks;
mod deletes;
mod filters;
mod partitions;
mod pruning;
mod restricted;
mod rows;
mod snapshots;
mod soundness;
mod writer;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{
    BoundField, BoundSpec, EqualLengthBounds, FileStatistics, FilterLimits, ManifestStatistics,
    ScanError, ScanFilter, Side,
};
use crate::manifest_file::{FieldSummary, ManifestFile};
use crate::schema::Schema;
use crate::testing::schema;
use crate::transform::Transform;
use crate::value::Datum;

/// The columns of the tests: field id, name and type.
const COLUMNS: [(i32, &str, &str); 13] = [
    (1, "i", "int"),
    (2, "l", "long"),
    (3, "f", "float"),
    (4, "d", "double"),
    (5, "dec", "decimal(9,2)"),
    (6, "s", "string"),
    (7, "b", "binary"),
    (8, "day", "date"),
    (9, "ts", "timestamp"),
    (10, "tz", "timestamptz"),
    (11, "ns", "timestamp_ns"),
    (12, "u", "uuid"),
    (13, "ok", "boolean"),
];

/// Returns a schema with all [`COLUMNS`] and further columns, with their ids in parentheses: the
/// struct `place` (20) with `x` (21) and `Y` (22), the list `tags` (30, 31), the required column
/// `id` (40), and the columns `ID2` (41) and `id2` (42).
fn columns() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(build_columns);
    &SCHEMA
}

fn build_columns() -> Schema {
    let column = |(id, name, kind): &(i32, &str, &str)| json!({"id": id, "name": name, "required": false, "type": kind});
    let mut fields: Vec<Value> = COLUMNS.iter().map(column).collect();
    fields.push(json!({"id": 20, "name": "place", "required": false, "type": {"type": "struct",
        "fields": [{"id": 21, "name": "x", "required": true, "type": "int"},
            {"id": 22, "name": "Y", "required": false, "type": "string"}]}}));
    fields.push(json!({"id": 30, "name": "tags", "required": false, "type": {"type": "list",
        "element-id": 31, "element-required": true, "element": "string"}}));
    fields.push(json!({"id": 40, "name": "id", "required": true, "type": "long"}));
    fields.push(json!({"id": 41, "name": "ID2", "required": false, "type": "long"}));
    fields.push(json!({"id": 42, "name": "id2", "required": false, "type": "long"}));
    schema(&json!({"type": "struct", "schema-id": 0, "fields": fields}))
}

fn parse(filter: &Value) -> Result<ScanFilter, ScanError> {
    ScanFilter::parse(&filter.to_string(), &FilterLimits::default(), columns(), true)
}

#[track_caller]
fn filter(json: &Value) -> ScanFilter {
    parse(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

/// Returns a comparison in the older grammar.
fn compare(name: &str, term: &str, value: Value) -> Value {
    json!({"type": name, "term": term, "value": value})
}

/// Returns a spec with fields on columns of [`columns`].
fn spec(spec_id: i32, fields: &[(i32, Transform)]) -> BoundSpec {
    let fields = fields.iter().zip(1000..).map(|((source_id, transform), field_id)| {
        let source_type = columns().primitive_type(*source_id);
        let result_type = source_type.as_ref().and_then(|source| transform.result_type(source));
        BoundField {
            field_id,
            source_id: *source_id,
            name: format!("p{field_id}"),
            transform: transform.clone(),
            source_type,
            result_type,
        }
    });
    BoundSpec { spec_id, fields: fields.collect() }
}

/// Returns a manifest of one added file of snapshot 1.
fn manifest(content: i32, partitions: Option<Vec<FieldSummary>>) -> ManifestFile {
    ManifestFile {
        path: "s3://b/t/metadata/m.avro".to_owned(),
        length: 1,
        spec_id: 0,
        content,
        sequence_number: 1,
        min_sequence_number: 1,
        added_snapshot_id: 1,
        added_files_count: Some(1),
        existing_files_count: Some(0),
        deleted_files_count: Some(0),
        added_rows_count: None,
        existing_rows_count: None,
        deleted_rows_count: None,
        partitions,
        key_metadata: None,
        first_row_id: None,
    }
}

/// The statistics of a file, by field id.
#[derive(Debug, Clone, Default)]
struct TestFile {
    records: i64,
    values: BTreeMap<i32, i64>,
    nulls: BTreeMap<i32, i64>,
    nans: BTreeMap<i32, i64>,
    lower: BTreeMap<i32, Vec<u8>>,
    upper: BTreeMap<i32, Vec<u8>>,
}

impl TestFile {
    /// Returns the statistics of ten rows, of which `nulls` are null in column `id`.
    fn of_column(id: i32, nulls: i64, bounds: Option<(Datum, Datum)>) -> Self {
        let primitive = columns().primitive_type(id).expect("a primitive column");
        let mut file = Self { records: 10, ..Self::default() };
        file.values.insert(id, 10);
        file.nulls.insert(id, nulls);
        if let Some((lower, upper)) = bounds {
            file.lower.insert(id, lower.to_bytes(&primitive));
            file.upper.insert(id, upper.to_bytes(&primitive));
        }
        file
    }

    fn with_nans(mut self, id: i32, nans: i64) -> Self {
        self.nans.insert(id, nans);
        self
    }
}

impl FileStatistics for TestFile {
    fn record_count(&self) -> i64 {
        self.records
    }

    fn value_count(&self, field_id: i32) -> Option<i64> {
        self.values.get(&field_id).copied()
    }

    fn null_count(&self, field_id: i32) -> Option<i64> {
        self.nulls.get(&field_id).copied()
    }

    fn nan_count(&self, field_id: i32) -> Option<i64> {
        self.nans.get(&field_id).copied()
    }

    fn lower_bound(&self, field_id: i32) -> Option<&[u8]> {
        self.lower.get(&field_id).map(Vec::as_slice)
    }

    fn upper_bound(&self, field_id: i32) -> Option<&[u8]> {
        self.upper.get(&field_id).map(Vec::as_slice)
    }
}

/// A manifest with this file only.
impl ManifestStatistics for TestFile {
    type File<'a> = Self;

    fn file(&self, _row: usize) -> Self {
        self.clone()
    }

    fn equal_length_bounds(&self, field_id: i32, side: Side) -> Option<EqualLengthBounds<'_>> {
        let bounds = match side {
            Side::Lower => &self.lower,
            Side::Upper => &self.upper,
        };
        let bound = bounds.get(&field_id)?.as_slice();
        let four = bound.try_into().ok().map(std::slice::from_ref).map(EqualLengthBounds::Four);
        let eight =
            || bound.try_into().ok().map(std::slice::from_ref).map(EqualLengthBounds::Eight);
        four.or_else(eight)
    }

    fn block_extremes(&self, _field_id: i32, _side: Side) -> &[i64] {
        &[]
    }
}

//! Scan planning: the `iceberg` crate writes manifests, and plans the same files for the same
//! filter.
//!
//! The crate has no residuals, transforms in filters or incremental scans, and it does not match
//! all delete files, so only the pruning of data files is compared.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use iceberg::expr::{Predicate, Reference};
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum as CrateDatum, Literal,
    ManifestFile as CrateManifestFile, ManifestListWriter, ManifestWriterBuilder, Struct,
    TableMetadata as CrateMetadata, Type as CrateType,
};
use iceberg::table::Table;
use iceberg::transform::create_transform_function;
use iceberg::{Runtime, TableIdent};
use serde_json::{Value, json};

use slateberg_model::expression::FilterLimits;
use slateberg_model::manifest_file::{FieldSummary, ManifestFile};
use slateberg_model::scan::{BoundSpec, FileStatistics, ScanFilter};
use slateberg_model::table::TableMetadata;
use slateberg_model::transform::Transform;
use slateberg_model::types::PrimitiveType;
use slateberg_model::value::Datum;

/// The id of the only column.
const COLUMN: i32 = 1;
const SNAPSHOT: i64 = 7;
const FILES_PER_MANIFEST: usize = 4;

/// A data file: the bounds of its column, its partition and its number of null values.
struct TestFile {
    path: String,
    bounds: Option<(Vec<u8>, Vec<u8>)>,
    partition: Option<Datum>,
    nulls: i64,
}

impl FileStatistics for TestFile {
    fn record_count(&self) -> i64 {
        10
    }

    fn value_count(&self, _: i32) -> Option<i64> {
        Some(10)
    }

    fn null_count(&self, _: i32) -> Option<i64> {
        Some(self.nulls)
    }

    fn nan_count(&self, _: i32) -> Option<i64> {
        None
    }

    fn lower_bound(&self, _: i32) -> Option<&[u8]> {
        self.bounds.as_ref().map(|(lower, _)| lower.as_slice())
    }

    fn upper_bound(&self, _: i32) -> Option<&[u8]> {
        self.bounds.as_ref().map(|(_, upper)| upper.as_slice())
    }
}

/// A table with one column, which is partitioned by a transform of this column, and the column's
/// values.
struct Fixture {
    json: Value,
    primitive: PrimitiveType,
    crate_type: iceberg::spec::PrimitiveType,
    spec: BoundSpec,
    values: Vec<Datum>,
}

impl Fixture {
    fn new(type_name: &str, transform: &str, values: Vec<Datum>) -> Self {
        let json = json!({
            "format-version": 2, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": "memory:/t", "last-sequence-number": 1, "last-updated-ms": 1_700_000_000_000_i64,
            "last-column-id": 1, "current-schema-id": 0, "default-spec-id": 0,
            "last-partition-id": 1000, "default-sort-order-id": 0, "properties": {},
            "sort-orders": [{"order-id": 0, "fields": []}],
            "schemas": [{"type": "struct", "schema-id": 0, "fields": [
                {"id": COLUMN, "name": "c", "required": false, "type": type_name}]}],
            "partition-specs": [{"spec-id": 0, "fields": [
                {"name": "p", "transform": transform, "source-id": COLUMN, "field-id": 1000}]}],
            "current-snapshot-id": SNAPSHOT,
            "refs": {"main": {"snapshot-id": SNAPSHOT, "type": "branch"}},
            "snapshots": [{"snapshot-id": SNAPSHOT, "sequence-number": 1, "schema-id": 0,
                "timestamp-ms": 1_700_000_000_000_i64, "manifest-list": "memory:/t/metadata/list.avro",
                "summary": {"operation": "append"}}]});
        let table = TableMetadata::parse(json.to_string().as_bytes()).expect("table metadata");
        let schema = table.current_schema().expect("a schema");
        let spec = BoundSpec::all(&table, schema).remove(&0).expect("a spec");
        let primitive = spec.fields[0].source_type.clone().expect("a type");
        let crate_type = serde_json::from_value(json!(type_name)).expect("a type");
        Self { json, primitive, crate_type, spec, values }
    }

    fn table(&self) -> TableMetadata {
        TableMetadata::parse(self.json.to_string().as_bytes()).expect("table metadata")
    }

    fn crate_metadata(&self) -> CrateMetadata {
        serde_json::from_value(self.json.clone()).expect("the crate reads the metadata")
    }

    /// Returns a file for each pair of values of one partition, and one of null.
    fn files(&self) -> Vec<TestFile> {
        let mut files = Vec::new();
        for (position, lower) in self.values.iter().enumerate() {
            for upper in &self.values[position..] {
                let partition = self.partition_of(lower);
                if self.partition_of(upper) == partition {
                    let bounds = (lower.to_bytes(&self.primitive), upper.to_bytes(&self.primitive));
                    let path = format!("memory:/t/data/{}.parquet", files.len());
                    let nulls = i64::try_from(files.len() % 2).expect("a bit");
                    files.push(TestFile { path, bounds: Some(bounds), partition, nulls });
                }
            }
        }
        let path = "memory:/t/data/null.parquet".to_owned();
        files.push(TestFile { path, bounds: None, partition: None, nulls: 10 });
        files
    }

    fn partition_of(&self, value: &Datum) -> Option<Datum> {
        self.spec.fields[0].transform.apply(&self.primitive, value)
    }

    fn crate_datum(&self, value: &Datum) -> CrateDatum {
        let bytes = value.to_bytes(&self.primitive);
        CrateDatum::try_from_bytes(&bytes, self.crate_type.clone()).expect("the same value")
    }

    fn crate_file(&self, file: &TestFile) -> DataFile {
        let result = self.spec.fields[0].result_type.clone().expect("a type");
        let result_type: CrateType =
            serde_json::from_value(json!(result.to_string())).expect("a type");
        let partition = file.partition.as_ref().map(|value| {
            let json = value.to_json(&result);
            Literal::try_from_json(json, &result_type).expect("a literal").expect("not null")
        });
        let bound = |bytes: &[u8]| {
            let bound = CrateDatum::try_from_bytes(bytes, self.crate_type.clone());
            (COLUMN, bound.expect("a bound"))
        };
        let nulls = u64::try_from(file.nulls).expect("a count");
        DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path(file.path.clone())
            .file_format(DataFileFormat::Parquet)
            .file_size_in_bytes(100)
            .record_count(10)
            .partition_spec_id(0)
            .partition(Struct::from_iter([partition]))
            .value_counts([(COLUMN, 10)].into())
            .null_value_counts([(COLUMN, nulls)].into())
            .lower_bounds(file.bounds.iter().map(|(lower, _)| bound(lower)).collect())
            .upper_bounds(file.bounds.iter().map(|(_, upper)| bound(upper)).collect())
            .build()
            .expect("a data file")
    }

    /// Returns filters as the crate and as slateberg read them.
    fn filters(&self) -> Vec<(Predicate, Value)> {
        let column = || Reference::new("c");
        let mut filters = vec![
            (column().is_null(), json!({"type": "is-null", "term": "c"})),
            (column().is_not_null(), json!({"type": "not-null", "term": "c"})),
        ];
        for value in &self.values {
            let (datum, literal) = (self.crate_datum(value), value.to_json(&self.primitive));
            let mut add = |kind: &str, predicate: Predicate| {
                filters.push((predicate, json!({"type": kind, "term": "c", "value": literal})));
            };
            add("lt", column().less_than(datum.clone()));
            add("lt-eq", column().less_than_or_equal_to(datum.clone()));
            add("gt", column().greater_than(datum.clone()));
            add("gt-eq", column().greater_than_or_equal_to(datum.clone()));
            add("eq", column().equal_to(datum.clone()));
            if self.primitive == PrimitiveType::String {
                add("starts-with", column().starts_with(datum.clone()));
                add("not-starts-with", column().not_starts_with(datum));
            }
        }
        for pair in self.values.windows(2) {
            let crate_set: Vec<_> = pair.iter().map(|value| self.crate_datum(value)).collect();
            let set: Vec<_> = pair.iter().map(|value| value.to_json(&self.primitive)).collect();
            let json = json!({"type": "in", "term": "c", "values": set});
            filters.push((column().is_in(crate_set), json));
        }
        let combined: Vec<_> = filters
            .iter()
            .zip(filters.iter().skip(9))
            .flat_map(|((one, one_json), (other, other_json))| {
                let two = |kind: &str| json!({"type": kind, "left": one_json, "right": other_json});
                let negated = json!({"type": "not", "child": two("and")});
                [
                    (one.clone().and(other.clone()), two("and")),
                    (one.clone().or(other.clone()), two("or")),
                    (one.clone().and(other.clone()).negate(), negated),
                ]
            })
            .collect();
        filters.extend(combined);
        filters
    }
}

fn integers(values: &[i64]) -> Vec<Datum> {
    values.iter().copied().map(Datum::Integer).collect()
}

fn fixtures() -> Vec<Fixture> {
    let numbers = || integers(&[-21, -20, -11, -1, 0, 1, 9, 10, 19, 20, 21]);
    let texts = || ["a", "ab", "abc", "abcd", "abd", "b", "ba", "ö"].map(Datum::string).to_vec();
    let days = || integers(&[-366, -31, -1, 0, 1, 30, 31, 364, 365, 800]);
    let hour = 3_600_000_000;
    let times = || integers(&[-25 * hour, -hour, -1, 0, 1, hour - 1, hour, 24 * hour, 800 * hour]);
    // Without times before 1970: for these, slateberg widens filters because of old writers, and
    // the crate does not.
    let late_times = || integers(&[0, 1, hour - 1, hour, 24 * hour - 1, 24 * hour, 800 * hour]);
    let decimals = || [-1001, -50, -1, 0, 1, 49, 50, 1000].map(Datum::Decimal).to_vec();
    vec![
        Fixture::new("int", "identity", numbers()),
        Fixture::new("int", "bucket[4]", numbers()),
        Fixture::new("long", "truncate[10]", numbers()),
        Fixture::new("string", "identity", texts()),
        Fixture::new("string", "bucket[3]", texts()),
        Fixture::new("string", "truncate[2]", texts()),
        Fixture::new("date", "day", days()),
        Fixture::new("date", "month", days()),
        Fixture::new("date", "year", days()),
        Fixture::new("timestamp", "hour", late_times()),
        Fixture::new("timestamptz", "day", late_times()),
        Fixture::new("timestamp", "day", times()),
        Fixture::new("timestamp", "month", times()),
        Fixture::new("decimal(9, 2)", "truncate[50]", decimals()),
        Fixture::new("decimal(9, 2)", "bucket[5]", decimals()),
    ]
}

/// Writes the manifests and the manifest list. Returns the table and its manifests.
async fn write(fixture: &Fixture, files: &[TestFile]) -> (Table, Vec<CrateManifestFile>) {
    let io = FileIO::new_with_memory();
    let metadata = fixture.crate_metadata();
    let mut manifests = Vec::new();
    for (number, chunk) in files.chunks(FILES_PER_MANIFEST).enumerate() {
        let output = io.new_output(format!("memory:/t/metadata/{number}.avro")).expect("an output");
        let spec = metadata.default_partition_spec().as_ref().clone();
        let schema = metadata.current_schema().clone();
        let mut writer =
            ManifestWriterBuilder::new(output, Some(SNAPSHOT), schema, spec).build_v2_data();
        for file in chunk {
            writer.add_file(fixture.crate_file(file), 1).expect("an entry");
        }
        manifests.push(writer.write_manifest_file().await.expect("a manifest"));
    }
    let output = io.new_output("memory:/t/metadata/list.avro").expect("an output");
    let writer = output.writer().await.expect("a writer");
    let mut list = ManifestListWriter::v2(writer, SNAPSHOT, None, 1);
    list.add_manifests(manifests.clone().into_iter()).expect("manifests");
    list.close().await.expect("a manifest list");
    let table = Table::builder()
        .metadata(metadata)
        .identifier(TableIdent::from_strs(["n", "t"]).expect("a name"))
        .file_io(io)
        .metadata_location("memory:/t/metadata/v1.json")
        .runtime(Runtime::current())
        .build()
        .expect("a table");
    (table, manifests)
}

/// Returns a manifest of the crate as slateberg reads it.
fn manifest(of: &CrateManifestFile) -> ManifestFile {
    let count = |count: Option<u32>| count.and_then(|count| i32::try_from(count).ok());
    let summary = |summary: &iceberg::spec::FieldSummary| FieldSummary {
        contains_null: summary.contains_null,
        contains_nan: summary.contains_nan,
        lower_bound: summary.lower_bound.as_ref().map(|bytes| bytes.to_vec().into()),
        upper_bound: summary.upper_bound.as_ref().map(|bytes| bytes.to_vec().into()),
    };
    ManifestFile {
        path: of.manifest_path.clone(),
        length: of.manifest_length,
        spec_id: of.partition_spec_id,
        content: 0,
        sequence_number: of.sequence_number,
        min_sequence_number: of.min_sequence_number,
        added_snapshot_id: of.added_snapshot_id,
        added_files_count: count(of.added_files_count),
        existing_files_count: count(of.existing_files_count),
        deleted_files_count: count(of.deleted_files_count),
        added_rows_count: None,
        existing_rows_count: None,
        deleted_rows_count: None,
        partitions: of.partitions.as_ref().map(|all| all.iter().map(summary).collect()),
        key_metadata: None,
        first_row_id: None,
    }
}

async fn planned_by_crate(table: &Table, filter: &Predicate) -> BTreeSet<String> {
    let scan = table.scan().with_filter(filter.clone()).build().expect("a scan");
    let tasks = scan.plan_files().await.expect("a plan");
    tasks.map_ok(|task| task.data_file_path).try_collect().await.expect("tasks")
}

fn planned(
    fixture: &Fixture,
    manifests: &[CrateManifestFile],
    files: &[TestFile],
    filter: &Value,
) -> BTreeSet<String> {
    let table = fixture.table();
    let schema = table.current_schema().expect("a schema");
    let text = filter.to_string();
    let filter =
        ScanFilter::parse(&text, &FilterLimits::default(), schema, true).expect("a filter");
    let projected = filter.for_spec(&fixture.spec);
    let matching = manifests
        .iter()
        .zip(files.chunks(FILES_PER_MANIFEST))
        .filter(|(one, _)| projected.may_match_manifest(&manifest(one)));
    let files = matching.flat_map(|(_, files)| files).filter(|file| {
        projected.may_match_partition(std::slice::from_ref(&file.partition))
            && filter.may_match(*file)
    });
    files.map(|file| file.path.clone()).collect()
}

#[tokio::test]
async fn iceberg_crate_plans_the_same_files() {
    for fixture in fixtures() {
        let field = &fixture.spec.fields[0];
        // The crate loses the scale of decimals when it truncates a literal.
        if matches!(field.transform, Transform::Truncate(_))
            && matches!(fixture.primitive, PrimitiveType::Decimal { .. })
        {
            continue;
        }
        let files = fixture.files();
        let (table, manifests) = write(&fixture, &files).await;
        let mut pruned = 0;
        for (predicate, json) in fixture.filters() {
            let theirs = planned_by_crate(&table, &predicate).await;
            let ours = planned(&fixture, &manifests, &files, &json);
            let case = format!("{} of {}: {json}", field.transform, fixture.primitive);
            if json["type"] == "not" {
                // The crate does not prune a file whose only value is excluded by `not-eq`.
                assert!(ours.is_subset(&theirs), "{case}");
            } else {
                assert_eq!(ours, theirs, "{case}");
            }
            pruned += files.len() - ours.len();
        }
        assert!(pruned > files.len(), "the filters prune files");
    }
}

#[test]
fn iceberg_crate_computes_the_same_partition_values() {
    for fixture in fixtures() {
        let field = &fixture.spec.fields[0];
        let transform = field.transform.to_string().parse().expect("a transform");
        let function = create_transform_function(&transform).expect("a function");
        for value in &fixture.values {
            let theirs = function.transform_literal(&fixture.crate_datum(value)).expect("a value");
            let bytes = theirs.expect("not null").to_bytes().expect("bytes");
            let result = field.result_type.as_ref().expect("a type");
            let ours = fixture.partition_of(value).expect("a value");
            assert_eq!(ours.to_bytes(result), bytes.to_vec(), "{transform} of {value:?}");
        }
    }
}

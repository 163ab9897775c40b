//! Tests of the delete files that apply to a data file.

use super::{TestFile, columns, spec};
use crate::scan::{
    BoundSpec, DELETE_FILE_PATH_ID, DataFileHead, DeleteFile, DeleteFileHead, DeleteIndex,
    DeleteKind,
};
use crate::transform::Transform;
use crate::value::Datum;

const PATH: &str = "s3://b/t/data/1.parquet";

fn by_region() -> BoundSpec {
    spec(1, &[(6, Transform::Identity)])
}

fn region(name: &str) -> Vec<Option<Datum>> {
    vec![Some(Datum::string(name))]
}

/// A delete file of the region `eu`, with sequence number 5.
fn head<'a>(
    kind: DeleteKind,
    spec: &'a BoundSpec,
    partition: &'a [Option<Datum>],
) -> DeleteFileHead<'a> {
    DeleteFileHead { kind, spec, partition, sequence_number: 5, referenced_data_file: None }
}

fn delete(head: DeleteFileHead<'_>, statistics: &TestFile) -> DeleteFile {
    DeleteFile::new(head, statistics, columns()).expect("a delete file")
}

fn index(files: Vec<DeleteFile>) -> DeleteIndex {
    DeleteIndex::build(files).expect("an index")
}

/// Returns the delete files of a data file in region `eu`.
fn matches(index: &DeleteIndex, sequence_number: i64) -> Vec<usize> {
    matches_in(index, 1, &region("eu"), sequence_number, &TestFile::default())
}

fn matches_in(
    index: &DeleteIndex,
    spec_id: i32,
    partition: &[Option<Datum>],
    sequence_number: i64,
    statistics: &TestFile,
) -> Vec<usize> {
    let file = DataFileHead { path: PATH, spec_id, partition, sequence_number };
    index.for_data_file(&file, statistics)
}

#[test]
fn position_deletes_apply_to_their_partition_up_to_their_own_sequence_number() {
    let (spec, eu) = (by_region(), region("eu"));
    let index = index(vec![delete(head(DeleteKind::Position, &spec, &eu), &TestFile::default())]);
    assert_eq!(matches(&index, 4), [0]);
    assert_eq!(matches(&index, 5), [0]);
    assert_eq!(matches(&index, 6), [0; 0]);
    let none = TestFile::default();
    assert_eq!(matches_in(&index, 1, &region("us"), 4, &none), [0; 0]);
    assert_eq!(matches_in(&index, 2, &eu, 4, &none), [0; 0], "another spec");
}

#[test]
fn position_deletes_of_one_data_file_apply_to_no_other() {
    let (spec, eu) = (by_region(), region("eu"));
    let bounds = |lower: &str, upper: &str| {
        let mut file = TestFile::default();
        file.lower.insert(DELETE_FILE_PATH_ID, lower.as_bytes().to_vec());
        file.upper.insert(DELETE_FILE_PATH_ID, upper.as_bytes().to_vec());
        file
    };
    let referencing = |path| DeleteFileHead {
        referenced_data_file: Some(path),
        ..head(DeleteKind::Position, &spec, &eu)
    };
    let position = || head(DeleteKind::Position, &spec, &eu);
    let none = TestFile::default();
    let index = index(vec![
        delete(referencing(PATH), &none),
        delete(referencing("s3://b/t/data/2.parquet"), &none),
        delete(position(), &bounds(PATH, PATH)),
        delete(position(), &bounds("s3://b/t/data/2.parquet", "s3://b/t/data/2.parquet")),
        delete(position(), &bounds("s3://b/t/data/0.parquet", "s3://b/t/data/2.parquet")),
    ]);
    assert_eq!(matches(&index, 5), [0, 2, 4]);
    assert_eq!(matches(&index, 6), [0; 0]);
}

#[test]
fn deletion_vector_replaces_position_deletes_but_not_equality_deletes() {
    let (spec, eu) = (by_region(), region("eu"));
    let vector = |path| DeleteFileHead {
        referenced_data_file: Some(path),
        ..head(DeleteKind::Vector, &spec, &eu)
    };
    let none = TestFile::default();
    let index = index(vec![
        delete(head(DeleteKind::Position, &spec, &eu), &none),
        delete(vector("s3://b/t/data/2.parquet"), &none),
        delete(vector(PATH), &none),
        delete(head(DeleteKind::Equality(vec![1]), &spec, &eu), &none),
    ]);
    assert_eq!(matches(&index, 4), [2, 3]);
    assert_eq!(matches(&index, 5), [2]);
    // The file was written after the vector.
    assert_eq!(matches(&index, 6), [0; 0]);
    // The vector is of another partition, so it does not apply.
    assert_eq!(matches_in(&index, 1, &region("us"), 4, &none), [0; 0]);
}

#[test]
fn two_deletion_vectors_of_one_data_file_are_an_error() {
    let (spec, eu) = (by_region(), region("eu"));
    let vector = || {
        let head = head(DeleteKind::Vector, &spec, &eu);
        delete(DeleteFileHead { referenced_data_file: Some(PATH), ..head }, &TestFile::default())
    };
    let error = DeleteIndex::build(vec![vector(), vector()]).expect_err("two vectors").to_string();
    assert!(error.contains("multiple DVs for s3://b/t/data/1.parquet"), "{error}");
    let head = head(DeleteKind::Vector, &spec, &eu);
    DeleteFile::new(head, &TestFile::default(), columns()).expect_err("it references no file");
}

#[test]
fn equality_deletes_apply_to_earlier_files_of_their_partition() {
    let (spec, eu) = (by_region(), region("eu"));
    let none = TestFile::default();
    let equality = || head(DeleteKind::Equality(vec![1]), &spec, &eu);
    let later = DeleteFileHead { sequence_number: 9, ..equality() };
    let index = index(vec![delete(later, &none), delete(equality(), &none)]);
    assert_eq!(matches(&index, 4), [0, 1]);
    assert_eq!(matches(&index, 5), [0], "the same commit deletes no own rows");
    assert_eq!(matches(&index, 9), [0; 0]);
    assert_eq!(matches_in(&index, 1, &region("us"), 4, &none), [0; 0]);
}

#[test]
fn equality_deletes_of_an_unpartitioned_spec_apply_to_all_partitions() {
    let none = TestFile::default();
    for unpartitioned in [spec(0, &[]), spec(0, &[(6, Transform::Void)])] {
        let partition = vec![None; unpartitioned.fields.len()];
        let equality = head(DeleteKind::Equality(vec![1]), &unpartitioned, &partition);
        let position = head(DeleteKind::Position, &unpartitioned, &partition);
        let index = index(vec![delete(equality, &none), delete(position, &none)]);
        assert_eq!(matches(&index, 4), [0], "position deletes apply to their own spec only");
        assert_eq!(matches_in(&index, 0, &partition, 4, &none), [0, 1]);
    }
}

#[test]
fn equality_deletes_are_pruned_by_the_bounds_and_counts_of_their_columns() {
    let spec = spec(0, &[]);
    let range = |nulls, bounds: Option<(i64, i64)>| {
        let bounds = bounds.map(|(lower, upper)| (Datum::Integer(lower), Datum::Integer(upper)));
        TestFile::of_column(1, nulls, bounds)
    };
    let unknown = TestFile { records: 10, ..TestFile::default() };
    for (deleted, data, expected) in [
        (range(0, Some((1, 5))), range(0, Some((5, 9))), true),
        (range(0, Some((1, 5))), range(0, Some((6, 9))), false),
        (range(0, Some((6, 9))), range(0, Some((1, 5))), false),
        (range(1, Some((1, 5))), range(1, Some((6, 9))), true),
        (range(1, Some((1, 5))), range(0, Some((6, 9))), false),
        (range(10, None), range(0, Some((6, 9))), false),
        (range(0, Some((6, 9))), range(10, None), false),
        (range(10, None), range(1, Some((6, 9))), true),
        (unknown.clone(), range(0, Some((6, 9))), true),
        (range(0, Some((6, 9))), unknown, true),
    ] {
        let delete = delete(head(DeleteKind::Equality(vec![1]), &spec, &[]), &deleted);
        let found = matches_in(&index(vec![delete]), 0, &[], 4, &data);
        assert_eq!(!found.is_empty(), expected, "{deleted:?} of {data:?}");
    }
}

#[test]
fn equality_deletes_of_nan_are_not_pruned_by_bounds() {
    let spec = spec(0, &[]);
    let range = |lower, upper, nans| {
        let bounds = Some((Datum::Float(lower), Datum::Float(upper)));
        TestFile::of_column(4, 0, bounds).with_nans(4, nans)
    };
    for (nans, expected) in [(0, false), (1, true)] {
        let head = head(DeleteKind::Equality(vec![4]), &spec, &[]);
        let index = index(vec![delete(head, &range(1.0, 2.0, nans))]);
        let found = matches_in(&index, 0, &[], 4, &range(3.0, 4.0, 1));
        assert_eq!(!found.is_empty(), expected);
    }
}

#[test]
fn columns_that_the_schema_lost_do_not_restrict_equality_deletes() {
    let spec = spec(0, &[]);
    let head = head(DeleteKind::Equality(vec![99, 1]), &spec, &[]);
    let index = index(vec![delete(head, &TestFile::default())]);
    assert_eq!(matches_in(&index, 0, &[], 4, &TestFile::default()), [0]);
}

#[test]
fn each_delete_file_is_found_once_in_ascending_order() {
    let (spec, eu) = (by_region(), region("eu"));
    let none = TestFile::default();
    let position = |sequence_number| {
        delete(DeleteFileHead { sequence_number, ..head(DeleteKind::Position, &spec, &eu) }, &none)
    };
    let index = index(vec![position(9), position(3), position(7), position(5)]);
    assert_eq!(matches(&index, 1), [0, 1, 2, 3]);
    assert_eq!(matches(&index, 5), [0, 2, 3]);
    assert_eq!(matches(&index, 8), [0]);
}

//! Encoding of manifest lists as Avro files.

use bytes::Bytes;
use uuid::Uuid;

use super::super::avro::encode::{self, long, text};
use slateberg_model::manifest_file::{FieldSummary, ManifestFile};

/// Header of a manifest list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListHeader {
    /// Format version of the table.
    pub format_version: u8,
    /// The snapshot.
    pub snapshot_id: i64,
    /// Parent of the snapshot.
    pub parent_snapshot_id: Option<i64>,
    /// Sequence number of the snapshot.
    pub sequence_number: i64,
    /// First row id of the snapshot, in format version 3.
    pub first_row_id: Option<i64>,
}

/// Returns the Avro schema of an entry. Names, ids and types are those of the table specification
/// ("Manifest Lists").
fn schema(format_version: u8) -> String {
    let field = |name: &str, id: i32, kind: &str| {
        format!(r#"{{"name":"{name}","type":"{kind}","field-id":{id}}}"#)
    };
    let optional = |name: &str, id: i32, kind: &str| {
        format!(r#"{{"name":"{name}","type":["null",{kind}],"default":null,"field-id":{id}}}"#)
    };
    let summary = [
        field("contains_null", 509, "boolean"),
        optional("contains_nan", 518, r#""boolean""#),
        optional("lower_bound", 510, r#""bytes""#),
        optional("upper_bound", 511, r#""bytes""#),
    ];
    let summaries = format!(
        r#"{{"type":"array","items":{{"type":"record","name":"r508","fields":[{}]}},"element-id":508}}"#,
        summary.join(",")
    );
    let first = [
        field("manifest_path", 500, "string"),
        field("manifest_length", 501, "long"),
        field("partition_spec_id", 502, "int"),
    ];
    if format_version == 1 {
        // Some readers of this version find the counts of files by these names, and not by their ids.
        let count = |name: &str, id: i32, kind: &str| optional(name, id, &format!(r#""{kind}""#));
        let rest = [
            field("added_snapshot_id", 503, "long"),
            count("added_data_files_count", 504, "int"),
            count("existing_data_files_count", 505, "int"),
            count("deleted_data_files_count", 506, "int"),
            optional("partitions", 507, &summaries),
            count("added_rows_count", 512, "long"),
            count("existing_rows_count", 513, "long"),
            count("deleted_rows_count", 514, "long"),
            optional("key_metadata", 519, r#""bytes""#),
        ];
        return entry_schema(&[&first[..], &rest].concat());
    }
    let mut fields = first.to_vec();
    fields.extend([
        field("content", 517, "int"),
        field("sequence_number", 515, "long"),
        field("min_sequence_number", 516, "long"),
        field("added_snapshot_id", 503, "long"),
        field("added_files_count", 504, "int"),
        field("existing_files_count", 505, "int"),
        field("deleted_files_count", 506, "int"),
        field("added_rows_count", 512, "long"),
        field("existing_rows_count", 513, "long"),
        field("deleted_rows_count", 514, "long"),
        optional("partitions", 507, &summaries),
        optional("key_metadata", 519, r#""bytes""#),
    ]);
    if format_version >= 3 {
        fields.push(optional("first_row_id", 520, r#""long""#));
    }
    entry_schema(&fields)
}

fn entry_schema(fields: &[String]) -> String {
    format!(r#"{{"type":"record","name":"manifest_file","fields":[{}]}}"#, fields.join(","))
}

/// Returns the beginning of a file, up to its blocks.
pub(super) fn header(header: &ListHeader, sync: Uuid) -> Vec<u8> {
    let number_or_null =
        |number: Option<i64>| number.map_or_else(|| "null".to_owned(), |it| it.to_string());
    let mut members = vec![
        ("avro.schema", schema(header.format_version)),
        ("avro.codec", "deflate".to_owned()),
        ("format-version", header.format_version.to_string()),
        ("snapshot-id", header.snapshot_id.to_string()),
        ("parent-snapshot-id", number_or_null(header.parent_snapshot_id)),
    ];
    if header.format_version >= 2 {
        members.push(("sequence-number", header.sequence_number.to_string()));
    }
    if header.format_version >= 3 {
        members.push(("first-row-id", number_or_null(header.first_row_id)));
    }
    let members: Vec<_> =
        members.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    encode::header(&members, sync.as_bytes())
}

/// Returns a block of a file with these entries.
pub(super) fn block(format_version: u8, sync: Uuid, entries: &[ManifestFile]) -> Bytes {
    let mut plain = Vec::new();
    for it in entries {
        entry(&mut plain, format_version, it);
    }
    encode::block(entries.len(), &plain, sync.as_bytes()).into()
}

fn entry(out: &mut Vec<u8>, format_version: u8, it: &ManifestFile) {
    text(out, it.path.as_bytes());
    long(out, it.length);
    long(out, it.spec_id.into());
    if format_version == 1 {
        return entry_of_version_1(out, it);
    }
    long(out, it.content.into());
    long(out, it.sequence_number);
    long(out, it.min_sequence_number);
    long(out, it.added_snapshot_id);
    // All counts exist, because lists whose manifests lack counts are not rebased.
    for count in [it.added_files_count, it.existing_files_count, it.deleted_files_count] {
        long(out, count.unwrap_or_default().into());
    }
    for count in [it.added_rows_count, it.existing_rows_count, it.deleted_rows_count] {
        long(out, count.unwrap_or_default());
    }
    partitions(out, it);
    optional(out, it.key_metadata.as_ref(), |out, bytes| text(out, bytes));
    if format_version >= 3 {
        optional(out, it.first_row_id.as_ref(), |out, id| long(out, *id));
    }
}

/// Writes the rest of an entry of format version 1, in which the counts are optional.
fn entry_of_version_1(out: &mut Vec<u8>, it: &ManifestFile) {
    long(out, it.added_snapshot_id);
    for count in [it.added_files_count, it.existing_files_count, it.deleted_files_count] {
        optional(out, count, |out, count| long(out, count.into()));
    }
    partitions(out, it);
    for count in [it.added_rows_count, it.existing_rows_count, it.deleted_rows_count] {
        optional(out, count, long);
    }
    optional(out, it.key_metadata.as_ref(), |out, bytes| text(out, bytes));
}

fn partitions(out: &mut Vec<u8>, it: &ManifestFile) {
    optional(out, it.partitions.as_ref(), |out, summaries| {
        if !summaries.is_empty() {
            long(out, i64::try_from(summaries.len()).unwrap_or_default());
            summaries.iter().for_each(|it| summary(out, it));
        }
        long(out, 0);
    });
}

fn summary(out: &mut Vec<u8>, it: &FieldSummary) {
    out.push(it.contains_null.into());
    optional(out, it.contains_nan.as_ref(), |out, value| out.push((*value).into()));
    optional(out, it.lower_bound.as_ref(), |out, bytes| text(out, bytes));
    optional(out, it.upper_bound.as_ref(), |out, bytes| text(out, bytes));
}

/// Writes a value of a union with null.
fn optional<T>(out: &mut Vec<u8>, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        None => long(out, 0),
        Some(value) => {
            long(out, 1);
            write(out, value);
        }
    }
}

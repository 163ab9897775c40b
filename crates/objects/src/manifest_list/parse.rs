//! Parsing of manifest lists from untrusted writers.

use bytes::Bytes;

use super::super::avro;
use super::super::avro::walk::{self, LeafValue};
use super::super::content::Content;
use super::super::error::Error;
use slateberg_model::manifest_file::{FieldSummary, ManifestFile};

/// Memory that an entry takes in addition to its strings, in bytes.
const ENTRY_BYTES: u64 = 256;
/// Memory that a field summary takes in addition to its bounds, in bytes.
const SUMMARY_BYTES: u64 = 96;
/// Maximum number of partition fields of an entry.
const SUMMARIES_MAX: usize = 1000;

/// A parsed manifest list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestList {
    /// Format version in the header. `None` if the writer did not record it.
    pub format_version: Option<i32>,
    /// The manifests, in order.
    pub entries: Vec<ManifestFile>,
    /// Size of the file, in bytes.
    pub bytes: u64,
}

/// The values of an entry that were read so far.
#[derive(Default)]
struct Entry {
    path: Option<String>,
    length: Option<i64>,
    spec_id: Option<i32>,
    content: Option<i32>,
    sequence_number: Option<i64>,
    min_sequence_number: Option<i64>,
    added_snapshot_id: Option<i64>,
    files: [Option<i32>; 3],
    rows: [Option<i64>; 3],
    partitions: Option<Vec<Summary>>,
    key_metadata: Option<Bytes>,
    first_row_id: Option<i64>,
    /// Memory of its strings and summaries.
    bytes: u64,
    problem: Option<&'static str>,
}

#[derive(Default)]
struct Summary {
    contains_null: Option<bool>,
    contains_nan: Option<bool>,
    lower_bound: Option<Bytes>,
    upper_bound: Option<Bytes>,
}

impl ManifestList {
    /// Parses a manifest list.
    ///
    /// # Errors
    /// Fails if the file is not an Avro file, if an entry lacks a required field, or if the entries
    /// take more memory than the limit for files.
    pub fn parse(location: &str, file: &Content) -> Result<Self, Error> {
        parse(file, file.bytes_max()).map_err(|reason| Error::unreadable(location, reason))
    }
}

pub(super) fn parse(file: &[u8], bytes_max: u64) -> Result<ManifestList, String> {
    let version = avro::member(file, "format-version")?;
    let format_version = match version {
        None => None,
        Some(text) => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            Some(number.ok_or("has an invalid format version")?)
        }
    };
    let mut entries = Vec::new();
    let mut bytes_left = bytes_max;
    let take = |entry: Entry| {
        let left = bytes_left.checked_sub(entry.bytes.saturating_add(ENTRY_BYTES));
        bytes_left = left.ok_or("has too many entries (catalog.file_bytes_max)")?;
        entries.push(entry.finish()?);
        Ok(())
    };
    walk::entries(file, bytes_max, Entry::see, take)?;
    Ok(ManifestList { format_version, entries, bytes: file.len() as u64 })
}

impl Entry {
    fn see(&mut self, path: &[&str], value: LeafValue<'_>) {
        if let Err(problem) = self.set(path, value) {
            self.problem = Some(problem);
        }
    }

    fn set(&mut self, path: &[&str], value: LeafValue<'_>) -> Result<(), &'static str> {
        match (path, value) {
            ([name], LeafValue::Number(number)) => return self.set_number(name, number),
            (["manifest_path"], LeafValue::Text(text)) => {
                let text = std::str::from_utf8(text).map_err(|_| "has a path that is not UTF-8")?;
                self.bytes += text.len() as u64;
                self.path = Some(text.to_owned());
            }
            (["key_metadata"], LeafValue::Text(bytes)) => {
                self.key_metadata = Some(self.copied(bytes));
            }
            (["partitions"], LeafValue::Array) => self.partitions = Some(Vec::new()),
            (["partitions"], LeafValue::Item) => {
                self.bytes += SUMMARY_BYTES;
                let summaries = self.partitions.get_or_insert_default();
                if summaries.len() >= SUMMARIES_MAX {
                    return Err("has an entry with too many partition fields");
                }
                summaries.push(Summary::default());
            }
            (["partitions", name], value) => return self.set_summary(name, value),
            _ => {}
        }
        Ok(())
    }

    fn set_number(&mut self, name: &str, number: i64) -> Result<(), &'static str> {
        let int = || i32::try_from(number).map_err(|_| "has a number that is too large");
        match name {
            "manifest_length" => self.length = Some(number),
            "partition_spec_id" => self.spec_id = Some(int()?),
            "content" => self.content = Some(int()?),
            "sequence_number" => self.sequence_number = Some(number),
            "min_sequence_number" => self.min_sequence_number = Some(number),
            "added_snapshot_id" => self.added_snapshot_id = Some(number),
            // Some writers use the names of format version 1.
            "added_files_count" | "added_data_files_count" => self.files[0] = Some(int()?),
            "existing_files_count" | "existing_data_files_count" => self.files[1] = Some(int()?),
            "deleted_files_count" | "deleted_data_files_count" => self.files[2] = Some(int()?),
            "added_rows_count" => self.rows[0] = Some(number),
            "existing_rows_count" => self.rows[1] = Some(number),
            "deleted_rows_count" => self.rows[2] = Some(number),
            "first_row_id" => self.first_row_id = Some(number),
            _ => {}
        }
        Ok(())
    }

    fn set_summary(&mut self, name: &str, value: LeafValue<'_>) -> Result<(), &'static str> {
        let copied = match value {
            LeafValue::Text(bytes) => Some(self.copied(bytes)),
            _ => None,
        };
        let summary = self.partitions.as_mut().and_then(|all| all.last_mut());
        let summary = summary.ok_or("has an entry whose partitions are not a list")?;
        match (name, value, copied) {
            ("contains_null", LeafValue::Bool(value), _) => summary.contains_null = Some(value),
            ("contains_nan", LeafValue::Bool(value), _) => summary.contains_nan = Some(value),
            ("lower_bound", _, Some(bytes)) => summary.lower_bound = Some(bytes),
            ("upper_bound", _, Some(bytes)) => summary.upper_bound = Some(bytes),
            _ => {}
        }
        Ok(())
    }

    fn copied(&mut self, bytes: &[u8]) -> Bytes {
        self.bytes += bytes.len() as u64;
        Bytes::copy_from_slice(bytes)
    }

    fn finish(self) -> Result<ManifestFile, String> {
        if let Some(problem) = self.problem {
            return Err(problem.to_owned());
        }
        let missing = |name: &str| format!("has an entry without {name}");
        let summary = |it: Summary| {
            Ok::<_, String>(FieldSummary {
                contains_null: it.contains_null.ok_or_else(|| missing("contains_null"))?,
                contains_nan: it.contains_nan,
                lower_bound: it.lower_bound,
                upper_bound: it.upper_bound,
            })
        };
        let partitions = self
            .partitions
            .map(|all| all.into_iter().map(summary).collect::<Result<Vec<_>, _>>())
            .transpose()?;
        Ok(ManifestFile {
            path: self.path.ok_or_else(|| missing("manifest_path"))?,
            length: self.length.ok_or_else(|| missing("manifest_length"))?,
            spec_id: self.spec_id.ok_or_else(|| missing("partition_spec_id"))?,
            // Format version 1 has only data files, and no sequence numbers.
            content: self.content.unwrap_or(0),
            sequence_number: self.sequence_number.unwrap_or(0),
            min_sequence_number: self.min_sequence_number.unwrap_or(0),
            added_snapshot_id: self
                .added_snapshot_id
                .ok_or_else(|| missing("added_snapshot_id"))?,
            added_files_count: self.files[0],
            existing_files_count: self.files[1],
            deleted_files_count: self.files[2],
            added_rows_count: self.rows[0],
            existing_rows_count: self.rows[1],
            deleted_rows_count: self.rows[2],
            partitions,
            key_metadata: self.key_metadata,
            first_row_id: self.first_row_id,
        })
    }
}

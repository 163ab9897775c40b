//! [`ManifestFile`]: an entry of a manifest list.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// An entry of a manifest list ("Manifest Lists" in the table specification).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ManifestFile {
    /// Location of the manifest.
    pub path: String,
    /// Size of the manifest, in bytes.
    pub length: i64,
    /// Id of the partition spec of the files in the manifest.
    pub spec_id: i32,
    /// 0: data files, 1: delete files.
    pub content: i32,
    /// Sequence number at which the manifest was added to the table.
    pub sequence_number: i64,
    /// Smallest data sequence number of the live files in the manifest.
    pub min_sequence_number: i64,
    /// Snapshot that added the manifest.
    pub added_snapshot_id: i64,
    /// Number of files with the status *added*.
    pub added_files_count: Option<i32>,
    /// Number of files with the status *existing*.
    pub existing_files_count: Option<i32>,
    /// Number of files with the status *deleted*.
    pub deleted_files_count: Option<i32>,
    /// Number of rows in the added files.
    pub added_rows_count: Option<i64>,
    /// Number of rows in the existing files.
    pub existing_rows_count: Option<i64>,
    /// Number of rows in the deleted files.
    pub deleted_rows_count: Option<i64>,
    /// Summary of the values of each partition field.
    pub partitions: Option<Vec<FieldSummary>>,
    /// Metadata of the key that encrypts the manifest.
    pub key_metadata: Option<Bytes>,
    /// First row id for the files of the manifest that have no row ids yet (v3).
    pub first_row_id: Option<i64>,
}

/// The values of one partition field in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FieldSummary {
    /// Whether any value is null.
    pub contains_null: bool,
    /// Whether any value is NaN.
    pub contains_nan: Option<bool>,
    /// The smallest value, serialized.
    pub lower_bound: Option<Bytes>,
    /// The greatest value, serialized.
    pub upper_bound: Option<Bytes>,
}

impl ManifestFile {
    /// Whether the entry has all counts. Format version 1 does not require them.
    pub fn has_counts(&self) -> bool {
        let files = [self.added_files_count, self.existing_files_count, self.deleted_files_count];
        let rows = [self.added_rows_count, self.existing_rows_count, self.deleted_rows_count];
        files.iter().all(Option::is_some) && rows.iter().all(Option::is_some)
    }

    /// Whether the manifest lists data files.
    pub fn is_data(&self) -> bool {
        self.content == 0
    }
}

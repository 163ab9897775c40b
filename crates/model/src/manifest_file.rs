//! [`ManifestFile`]: an entry of a manifest list.

use std::cmp::Ordering;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::types::PrimitiveType;
use crate::value::Datum;

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

impl FieldSummary {
    /// Returns the summary of the values of both summaries. `primitive` is the type of the field.
    /// Returns `None` if the bounds differ and cannot be compared.
    pub fn merged(&self, other: &Self, primitive: Option<&PrimitiveType>) -> Option<Self> {
        let bound = |one: &Option<Bytes>, other: &Option<Bytes>, wanted: Ordering| {
            let (Some(one), Some(other)) = (one, other) else {
                // The bounds are absent if all values are null or NaN.
                return Some(one.clone().or_else(|| other.clone()));
            };
            if one == other {
                return Some(Some(one.clone()));
            }
            let value = |bytes: &[u8]| Datum::from_bytes(primitive?, bytes);
            let order = value(one)?.total_cmp(&value(other)?);
            Some(Some(if order == wanted { one.clone() } else { other.clone() }))
        };
        let contains_nan = match (self.contains_nan, other.contains_nan) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        Some(Self {
            contains_null: self.contains_null || other.contains_null,
            contains_nan,
            lower_bound: bound(&self.lower_bound, &other.lower_bound, Ordering::Less)?,
            upper_bound: bound(&self.upper_bound, &other.upper_bound, Ordering::Greater)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(bounds: Option<(i32, i32)>, contains_null: bool) -> FieldSummary {
        let bytes = |number: i32| Bytes::copy_from_slice(&number.to_le_bytes());
        FieldSummary {
            contains_null,
            contains_nan: Some(false),
            lower_bound: bounds.map(|it| bytes(it.0)),
            upper_bound: bounds.map(|it| bytes(it.1)),
        }
    }

    #[test]
    fn merged_summary_compares_bounds_as_values() {
        // The bytes of 256 are smaller than those of 3.
        let (one, other) = (summary(Some((3, 7)), false), summary(Some((-1, 256)), true));
        let merged = one.merged(&other, Some(&PrimitiveType::Int));
        assert_eq!(merged, Some(summary(Some((-1, 256)), true)));
        assert_eq!(other.merged(&one, Some(&PrimitiveType::Int)), merged);
    }

    #[test]
    fn merged_summary_keeps_the_bounds_of_the_only_summary_with_values() {
        let (one, nulls) = (summary(Some((3, 7)), false), summary(None, true));
        assert_eq!(one.merged(&nulls, None), Some(summary(Some((3, 7)), true)));
        assert_eq!(nulls.merged(&one, None), Some(summary(Some((3, 7)), true)));
    }

    #[test]
    fn bounds_of_an_unknown_type_are_merged_only_if_they_are_equal() {
        let one = summary(Some((3, 7)), false);
        assert_eq!(one.merged(&one, None), Some(one.clone()));
        assert_eq!(one.merged(&summary(Some((3, 8)), false), None), None);
    }
}

//! [`Manifest`]: the live files of a manifest, as columns in memory.
//!
//! Scans read manifests of format versions 1 to 3 from untrusted writers. Fields are found by the
//! ids of the table specification. Statistics are stored only for the columns that a scan needs
//! ([`NeededColumns`]). Values that a manifest inherits from its manifest list are resolved on
//! reading ([`Inherited`]).

mod columns;
mod extract;
mod field_ids;
mod inherited;
mod merge;
mod partition;
mod read;
mod statistics;
#[cfg(test)]
mod tests;

pub use extract::ExtractedManifest;
pub use inherited::Inherited;
pub use merge::{ManifestMerge, MergedCounts};
pub use partition::{PartitionFieldInfo, PartitionValue};
pub use statistics::NeededColumns;

use columns::{Blobs, Lists, Longs};
use slateberg_model::scan::{EqualLengthBounds, FileStatistics, ManifestStatistics, Side};
use statistics::Statistics;

/// Content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileContent {
    /// Rows.
    Data,
    /// Deletions by file and position, or a deletion vector.
    PositionDeletes,
    /// Deletions by value.
    EqualityDeletes,
}

/// The live files of a manifest: those with the status *added* or *existing*.
#[derive(Debug)]
pub struct Manifest {
    rows: usize,
    needed: NeededColumns,
    /// The common prefix of all paths.
    path_prefix: Box<str>,
    paths: Blobs,
    /// Status of each file: 1 for *added*, 0 for *existing*.
    added: Longs,
    content: Longs,
    formats: Box<[Box<str>]>,
    format: Longs,
    partition_fields: Box<[PartitionFieldInfo]>,
    partitions: Box<[Box<[PartitionValue]>]>,
    partition: Longs,
    snapshot_ids: Longs,
    sequence_numbers: Longs,
    record_counts: Longs,
    sizes: Longs,
    sort_order_ids: Longs,
    first_row_ids: Longs,
    content_offsets: Longs,
    content_sizes: Longs,
    key_metadata: Blobs,
    referenced_data_files: Blobs,
    split_offsets: Lists,
    equality_ids: Lists,
    statistics: Statistics,
}

impl Manifest {
    /// Returns the number of live files.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no live file.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the file with this position among the live files.
    pub fn file(&self, row: usize) -> ManifestEntry<'_> {
        ManifestEntry { manifest: self, row }
    }

    /// Returns the fields of the partition tuples.
    pub fn partition_fields(&self) -> &[PartitionFieldInfo] {
        &self.partition_fields
    }

    /// Returns the distinct partition tuples.
    pub fn partitions(&self) -> &[Box<[PartitionValue]>] {
        &self.partitions
    }

    /// Returns the columns whose statistics were read.
    pub fn needed_columns(&self) -> &NeededColumns {
        &self.needed
    }

    /// Returns the approximate size of this value in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let longs = [
            &self.added,
            &self.content,
            &self.format,
            &self.partition,
            &self.snapshot_ids,
            &self.sequence_numbers,
            &self.record_counts,
            &self.sizes,
            &self.sort_order_ids,
            &self.first_row_ids,
            &self.content_offsets,
            &self.content_sizes,
        ];
        let blobs = [&self.paths, &self.key_metadata, &self.referenced_data_files];
        size_of::<Self>()
            + self.path_prefix.len()
            + longs.iter().map(|column| column.bytes()).sum::<usize>()
            + blobs.iter().map(|column| column.bytes()).sum::<usize>()
            + self.split_offsets.bytes()
            + self.equality_ids.bytes()
            + self.partitions.iter().map(|tuple| partition::tuple_bytes(tuple)).sum::<usize>()
            + self.statistics.bytes()
    }
}

impl ManifestStatistics for Manifest {
    type File<'a> = ManifestEntry<'a>;

    fn file(&self, row: usize) -> ManifestEntry<'_> {
        self.file(row)
    }

    fn equal_length_bounds(&self, field_id: i32, side: Side) -> Option<EqualLengthBounds<'_>> {
        let column = self.statistics.column(field_id)?;
        let bounds = match side {
            Side::Lower => &column.lower_bounds,
            Side::Upper => &column.upper_bounds,
        };
        bounds.of_equal_length()
    }

    fn block_extremes(&self, field_id: i32, side: Side) -> &[i64] {
        let column = self.statistics.column(field_id);
        column.map_or(&[], |column| match side {
            Side::Lower => &column.lower_extremes,
            Side::Upper => &column.upper_extremes,
        })
    }
}

/// A live file of a manifest.
#[derive(Debug, Clone, Copy)]
pub struct ManifestEntry<'a> {
    manifest: &'a Manifest,
    row: usize,
}

impl<'a> ManifestEntry<'a> {
    /// Returns the location of the file, as written, in two parts: the common prefix of all paths
    /// in the manifest, and the rest.
    pub fn path_parts(self) -> (&'a str, &'a str) {
        let rest = self.manifest.paths.get(self.row).unwrap_or_default();
        (&self.manifest.path_prefix, std::str::from_utf8(rest).unwrap_or_default())
    }

    /// Returns the location of the file, as written.
    pub fn path(self) -> String {
        let (prefix, rest) = self.path_parts();
        [prefix, rest].concat()
    }

    /// Whether the snapshot that wrote the manifest added the file.
    pub fn is_added(self) -> bool {
        self.manifest.added.get(self.row) == Some(1)
    }

    /// Returns the content of the file.
    pub fn content(self) -> FileContent {
        match self.manifest.content.get(self.row) {
            Some(1) => FileContent::PositionDeletes,
            Some(2) => FileContent::EqualityDeletes,
            _ => FileContent::Data,
        }
    }

    /// Returns the format of the file, in lower case.
    pub fn format(self) -> &'a str {
        let at = self.manifest.format.get(self.row).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.manifest.formats.get(at)).map_or("", |format| format)
    }

    /// Returns the position of the file's partition tuple in [`Manifest::partitions`].
    pub fn partition(self) -> usize {
        let at = self.manifest.partition.get(self.row);
        at.and_then(|at| usize::try_from(at).ok()).unwrap_or(0)
    }

    /// Returns the snapshot that added the file.
    pub fn snapshot_id(self) -> i64 {
        self.manifest.snapshot_ids.get(self.row).unwrap_or_default()
    }

    /// Returns the data sequence number.
    pub fn sequence_number(self) -> i64 {
        self.manifest.sequence_numbers.get(self.row).unwrap_or_default()
    }

    /// Returns the size of the file, in bytes.
    pub fn size(self) -> i64 {
        self.manifest.sizes.get(self.row).unwrap_or_default()
    }

    /// Returns the id of the file's sort order.
    pub fn sort_order_id(self) -> Option<i64> {
        self.manifest.sort_order_ids.get(self.row)
    }

    /// Returns the id of the file's first row (format version 3).
    pub fn first_row_id(self) -> Option<i64> {
        self.manifest.first_row_ids.get(self.row)
    }

    /// Returns the offset of a deletion vector in the file.
    pub fn content_offset(self) -> Option<i64> {
        self.manifest.content_offsets.get(self.row)
    }

    /// Returns the size of a deletion vector, in bytes.
    pub fn content_size(self) -> Option<i64> {
        self.manifest.content_sizes.get(self.row)
    }

    /// Returns the metadata of the key that encrypts the file.
    pub fn key_metadata(self) -> Option<&'a [u8]> {
        self.manifest.key_metadata.get(self.row)
    }

    /// Returns the data file to which a delete file applies, if there is only one.
    pub fn referenced_data_file(self) -> Option<&'a str> {
        let bytes = self.manifest.referenced_data_files.get(self.row)?;
        std::str::from_utf8(bytes).ok()
    }

    /// Returns the offsets at which readers may split the file.
    pub fn split_offsets(self) -> impl Iterator<Item = i64> + 'a {
        self.manifest.split_offsets.get(self.row)
    }

    /// Returns the columns by which an equality delete file deletes.
    pub fn equality_ids(self) -> impl Iterator<Item = i32> + 'a {
        let ids = self.manifest.equality_ids.get(self.row);
        ids.filter_map(|id| i32::try_from(id).ok())
    }

    /// Returns the size of a column in the file, in bytes.
    pub fn column_size(self, field_id: i32) -> Option<i64> {
        self.manifest.statistics.column(field_id)?.sizes.get(self.row)
    }
}

impl FileStatistics for ManifestEntry<'_> {
    fn record_count(&self) -> i64 {
        self.manifest.record_counts.get(self.row).unwrap_or_default()
    }

    fn value_count(&self, field_id: i32) -> Option<i64> {
        self.manifest.statistics.column(field_id)?.value_counts.get(self.row)
    }

    fn null_count(&self, field_id: i32) -> Option<i64> {
        self.manifest.statistics.column(field_id)?.null_counts.get(self.row)
    }

    fn nan_count(&self, field_id: i32) -> Option<i64> {
        self.manifest.statistics.column(field_id)?.nan_counts.get(self.row)
    }

    fn lower_bound(&self, field_id: i32) -> Option<&[u8]> {
        self.manifest.statistics.column(field_id)?.lower_bounds.get(self.row)
    }

    fn upper_bound(&self, field_id: i32) -> Option<&[u8]> {
        self.manifest.statistics.column(field_id)?.upper_bounds.get(self.row)
    }
}

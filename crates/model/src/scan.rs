//! Scan planning ("Scan Planning" in the table specification). Determines which files of a table
//! may have rows that a filter selects, which delete files apply to these files, and which part of
//! the filter clients still have to evaluate.
//!
//! All functions are pure. The caller reads manifests and implements [`FileStatistics`] on their
//! entries. The steps of a plan:
//!
//! 1. [`SnapshotSelection::resolve`] finds the snapshot, or the snapshots of an incremental scan.
//! 2. [`ScanFilter::parse`] binds the filter to a schema.
//! 3. [`ScanFilter::for_spec`] projects the filter through a partition spec. The [`SpecFilter`]
//!    prunes the manifests and the partitions of this spec, and computes residuals.
//! 4. [`ScanFilter::narrow`] and [`FileResidual::unproven`] prune files by their statistics. The
//!    latter also finds the part of the residual that the statistics do not prove.
//! 5. [`DeleteIndex::for_data_file`] finds the delete files of a data file.
//!
//! **Inclusive and strict.** An inclusive evaluation (`may_match`) returns `false` only if no row
//! can match. A strict evaluation (`all_match`) returns `true` only if every row matches. Both are
//! correct for bounds that are wider than the values, and for missing statistics.

mod bind;
mod deletes;
mod error;
mod evaluation;
mod filter;
mod narrowing;
mod predicate;
mod projection;
mod residual;
mod restricted;
mod snapshots;
mod spec;
mod statistics;

pub use deletes::{
    DELETE_FILE_PATH_ID, DataFileHead, DeleteFile, DeleteFileHead, DeleteIndex, DeleteKind,
};
pub use error::ScanError;
pub use filter::{ScanFilter, SpecFilter};
pub use narrowing::{BLOCK_FILES, EqualLengthBounds, ManifestStatistics, Side};
pub use residual::{Conjuncts, FileResidual};
pub use restricted::RestrictedSchema;
pub use snapshots::{AppendRange, ScanSnapshots, SnapshotSelection};
pub use spec::{BoundField, BoundSpec, PartitionTuple};
pub use statistics::FileStatistics;

pub use super::expression::FilterLimits;

#[cfg(test)]
mod tests;

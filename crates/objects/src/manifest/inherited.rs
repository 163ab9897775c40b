//! [`Inherited`]: values that entries inherit from the manifest list.

use slateberg_model::manifest_file::ManifestFile;

/// Values that entries of a manifest inherit from the manifest list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inherited {
    /// Sequence number of the manifest.
    pub sequence_number: i64,
    /// Snapshot that added the manifest.
    pub snapshot_id: i64,
    /// First row id for those files of the manifest that have no row id of their own.
    pub first_row_id: Option<i64>,
}

impl Inherited {
    /// Returns the values of an entry of a manifest list.
    pub fn of(manifest: &ManifestFile) -> Self {
        Self {
            sequence_number: manifest.sequence_number,
            snapshot_id: manifest.added_snapshot_id,
            first_row_id: manifest.first_row_id,
        }
    }
}

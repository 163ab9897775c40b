//! [`TableHealth`]: the counts and the advice of a report.

use super::files::{DataFileCounts, DeleteFileCounts};
use super::history::{Growth, SnapshotCounts};

/// The health of a table.
#[derive(Debug)]
pub struct TableHealth {
    /// The current snapshot.
    pub snapshot_id: Option<i64>,
    /// Whether the counts of files include all files. False if the table has too many files.
    pub is_complete: bool,
    /// Data files of the current snapshot.
    pub data_files: DataFileCounts,
    /// Delete files of the current snapshot.
    pub delete_files: DeleteFileCounts,
    /// Manifests of the current snapshot.
    pub manifests: ManifestCounts,
    /// Metadata of the table.
    pub metadata: MetadataCounts,
    /// Snapshots of the table.
    pub snapshots: SnapshotCounts,
    /// Growth from the oldest to the current snapshot of the branch main. `None` if the branch has
    /// fewer than two snapshots.
    pub growth: Option<Growth>,
    /// The recommended actions, the most important first.
    pub advice: Vec<Advice>,
}

/// The manifests of a snapshot.
#[derive(Debug, Default)]
pub struct ManifestCounts {
    /// Number of manifests of data files.
    pub data: u64,
    /// Number of manifests of delete files.
    pub delete: u64,
    /// Size of all manifests, in bytes.
    pub bytes: u64,
    /// Number of data manifests that are smaller than half of the target.
    pub small: u64,
    /// Target size of a manifest, in bytes.
    pub target_bytes: u64,
}

/// The metadata of a table.
#[derive(Debug, Default)]
pub struct MetadataCounts {
    /// Size of the metadata file, in bytes, without compression.
    pub bytes: u64,
    /// Size of the manifest list of the current snapshot, in bytes.
    pub manifest_list_bytes: u64,
    /// Number of earlier metadata files that the metadata references.
    pub previous_files: u64,
    /// Number of earlier metadata files from which the metadata no longer references the oldest one.
    pub previous_files_max: u64,
    /// Whether commits delete metadata files that the metadata no longer references.
    pub deletes_previous_files: bool,
}

/// Advice for the owner of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The recommended action.
    pub action: AdviceAction,
    /// Why.
    pub reason: String,
    /// The statement or command that does it.
    pub statement: String,
}

/// An action that improves the health of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdviceAction {
    /// Compact data files, and apply delete files to them.
    RewriteDataFiles,
    /// Compact delete files by position.
    RewritePositionDeleteFiles,
    /// Compact manifests.
    RewriteManifests,
    /// Remove old snapshots.
    ExpireSnapshots,
    /// Let commits delete old metadata files.
    DeleteOldMetadata,
}

impl AdviceAction {
    /// Whether the statement is a command of slateberg. Otherwise, it is a statement for Spark.
    pub fn is_command(self) -> bool {
        self == Self::ExpireSnapshots
    }
}

//! [`ScanReport`]: what a scan reads, and why it skips the rest.

use std::collections::HashSet;

use super::files::{PlannedFiles, PruneCounts};
use slateberg_model::scan::FileStatistics;

/// Counts of the manifests and files that a scan reads, and of those that it skips.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanReport {
    /// Data manifests of the snapshots.
    pub manifests: u64,
    /// Data manifests that were not read, because no partition in them can match the filter.
    pub manifests_pruned: u64,
    /// Delete manifests of the snapshots.
    pub delete_manifests: u64,
    /// Pruned files in the manifests that were read.
    pub pruned: PruneCounts,
    /// Data files to read.
    pub files: u64,
    /// Rows of these files.
    pub rows: u64,
    /// Size of these files, in bytes.
    pub bytes: u64,
    /// Delete files that apply to these data files.
    pub delete_files: u64,
    /// Size of these delete files, in bytes.
    pub delete_bytes: u64,
    /// Delete files that were counted already.
    counted: HashSet<u32>,
}

impl ScanReport {
    /// Returns a report without files.
    pub(super) fn of_manifests(all: usize, pruned: usize, deletes: usize) -> Self {
        Self {
            manifests: all as u64,
            manifests_pruned: pruned as u64,
            delete_manifests: deletes as u64,
            ..Self::default()
        }
    }

    /// Adds the files of a range to the counts.
    pub(super) fn add(&mut self, files: &PlannedFiles) {
        self.pruned.by_partition += files.pruned.by_partition;
        self.pruned.by_statistics += files.pruned.by_statistics;
        for (task, _, file) in files.tasks() {
            self.files += 1;
            self.rows = self.rows.saturating_add_signed(file.record_count().max(0));
            self.bytes = self.bytes.saturating_add_signed(file.size().max(0));
            for position in &task.deletes {
                if self.counted.insert(*position)
                    && let Some((_, file)) = files.deletes.file(*position)
                {
                    self.delete_files += 1;
                    self.delete_bytes = self.delete_bytes.saturating_add_signed(file.size().max(0));
                }
            }
        }
    }
}

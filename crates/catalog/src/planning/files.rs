//! [`PlannedFiles`]: the files that a client has to read.

use std::sync::Arc;

use super::deletes::DeleteFiles;
use super::planned_manifest::PlannedManifest;
use crate::{Error, Result};
use slateberg_objects::manifest::ManifestEntry;

/// Approximate size of a file in a response, without the filter and statistics, in bytes.
pub(super) const FILE_BYTES: u64 = 400;
/// Approximate size of the statistics of a column in a response, in bytes.
pub(super) const COLUMN_BYTES: u64 = 150;

/// A data file that a client has to read.
#[derive(Debug)]
pub struct FileTask {
    /// Position of its manifest.
    manifest: u32,
    row: u32,
    /// The part of the filter that the client has to evaluate, as JSON.
    pub residual: Arc<str>,
    /// Positions of its delete files, in ascending order.
    pub deletes: Box<[u32]>,
}

/// Files that were pruned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneCounts {
    /// Files whose partition cannot match the filter.
    pub by_partition: u64,
    /// Files whose statistics show that no row matches.
    pub by_statistics: u64,
}

/// The files of a plan or plan task.
#[derive(Debug, Default)]
pub struct PlannedFiles {
    manifests: Vec<PlannedManifest>,
    tasks: Vec<FileTask>,
    /// The delete files of the snapshot.
    pub deletes: Arc<DeleteFiles>,
    /// The columns whose statistics the client requested.
    pub statistics: Vec<i32>,
    certain_rows: i64,
    pub(super) pruned: PruneCounts,
}

/// A state to which [`PlannedFiles`] can be truncated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    tasks: usize,
    manifests: usize,
    certain_rows: i64,
}

impl PlannedFiles {
    pub(super) fn new(statistics: &[i32], deletes: &Arc<DeleteFiles>) -> Self {
        Self { deletes: Arc::clone(deletes), statistics: statistics.to_vec(), ..Self::default() }
    }

    /// Returns the number of data files.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns the approximate size of the response with these files, in bytes.
    pub(super) fn response_bytes(&self) -> u64 {
        let columns = self.statistics.len() as u64;
        let deletes: usize = self.tasks.iter().map(|task| task.deletes.len()).sum();
        let files = self.tasks.len().saturating_add(deletes.min(self.deletes.len())) as u64;
        let filters: u64 = self.tasks.iter().map(|task| task.residual.len() as u64).sum();
        files * (FILE_BYTES + columns * COLUMN_BYTES) + filters
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let manifests: usize = self.manifests.iter().map(PlannedManifest::bytes).sum();
        manifests as u64 + self.response_bytes()
    }

    /// Whether there are no data files.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the data files with their manifests.
    pub fn tasks(&self) -> impl Iterator<Item = (&FileTask, &PlannedManifest, ManifestEntry<'_>)> {
        self.tasks.iter().filter_map(|task| {
            let manifest = self.manifests.get(task.manifest as usize)?;
            Some((task, manifest, manifest.file(task.row)))
        })
    }

    /// Returns the number of rows that neither deletes nor the filter can remove.
    pub(super) fn certain_rows(&self) -> i64 {
        self.certain_rows
    }

    pub(super) fn position(&self) -> Position {
        let (tasks, manifests) = (self.tasks.len(), self.manifests.len());
        Position { tasks, manifests, certain_rows: self.certain_rows }
    }

    /// Removes the files that were added since the state `position`.
    pub(super) fn truncate(&mut self, position: Position) {
        self.tasks.truncate(position.tasks);
        self.manifests.truncate(position.manifests);
        self.certain_rows = position.certain_rows;
    }

    /// Returns the position of the next manifest.
    pub(super) fn next_manifest(&self) -> Result<u32> {
        u32::try_from(self.manifests.len()).map_err(Error::internal)
    }

    /// Adds the manifest whose files were added last.
    pub(super) fn end_manifest(&mut self, manifest: PlannedManifest) {
        self.manifests.push(manifest);
    }

    /// Adds a data file. `certain_rows` is the number of its rows that neither deletes nor the
    /// filter can remove.
    pub(super) fn add(&mut self, task: FileTask, certain_rows: i64) {
        self.certain_rows = self.certain_rows.saturating_add(certain_rows.max(0));
        self.tasks.push(task);
    }
}

impl FileTask {
    pub(super) fn new(
        (manifest, row): (u32, u32),
        residual: Arc<str>,
        deletes: Box<[u32]>,
    ) -> Self {
        Self { manifest, row, residual, deletes }
    }
}

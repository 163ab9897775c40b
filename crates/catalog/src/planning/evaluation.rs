//! [`Evaluation`]: finds the files of a range that a client has to read.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::deletes::DeleteFiles;
use super::files::{FileTask, PlannedFiles};
use super::permitted_files::PermittedFiles;
use super::planned_manifest::PlannedManifest;
use super::request::{Scan, ScanSpec};
use super::residual::PartitionResidual;
use crate::{Error, Result};
use slateberg_base::background::give_way;
use slateberg_model::scan::{FileStatistics, PartitionTuple, ScanError, ScanSnapshots};
use slateberg_objects::manifest::{FileContent, Manifest, ManifestEntry};

/// A manifest, its spec, and the positions of files in it.
pub(super) type ManifestRange = (Arc<Manifest>, ScanSpec, Range<usize>);

/// Whether an evaluation counts the files that it prunes. If it does not, it is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pruned {
    Counted,
    Ignored,
}

/// The evaluation of a filter on manifests.
pub(super) struct Evaluation {
    pub(super) scan: Arc<Scan>,
    pub(super) deletes: Arc<DeleteFiles>,
    /// The only files that the caller may read. `None`: all.
    permitted: Option<Arc<PermittedFiles>>,
    pruned: Pruned,
    pub(super) files: PlannedFiles,
    outcomes: HashMap<(i32, Box<PartitionTuple>), PartitionOutcome>,
    /// Whether delete files may delete rows that the filter selects, by position.
    matching_deletes: HashMap<u32, bool>,
}

/// The outcome of a filter on a partition.
#[derive(Clone)]
enum PartitionOutcome {
    /// No file can match.
    Pruned,
    /// Files can match.
    Matching(PartitionResidual),
}

impl Evaluation {
    /// Creates the evaluation of a scan. It adds to `files` only files that are `permitted`.
    pub(super) fn new(
        (scan, deletes): (&Arc<Scan>, &Arc<DeleteFiles>),
        permitted: Option<Arc<PermittedFiles>>,
        files: PlannedFiles,
        pruned: Pruned,
    ) -> Self {
        let (scan, deletes) = (Arc::clone(scan), Arc::clone(deletes));
        let (outcomes, matching_deletes) = (HashMap::new(), HashMap::new());
        Self { scan, deletes, permitted, pruned, files, outcomes, matching_deletes }
    }

    /// Evaluates these files, and adds those that the client has to read.
    pub(super) fn add_all(&mut self, manifests: Vec<ManifestRange>) -> Result<()> {
        for (manifest, spec, rows) in manifests {
            self.add(manifest, &spec, rows)?;
            give_way();
        }
        Ok(())
    }

    /// Evaluates the files at these positions in a manifest, and adds those that the client has to
    /// read.
    fn add(&mut self, manifest: Arc<Manifest>, spec: &ScanSpec, rows: Range<usize>) -> Result<()> {
        let rows: &mut dyn Iterator<Item = usize> =
            if self.pruned == Pruned::Counted || self.scan.filter.is_always_true() {
                &mut rows.into_iter()
            } else {
                let kept = self.scan.filter.narrow(&*manifest, rows);
                if kept.is_empty() {
                    return Ok(());
                }
                &mut kept.into_iter()
            };
        let planned = PlannedManifest::new(manifest, Arc::clone(&spec.spec))?;
        let mut outcomes = vec![None; planned.tuples().len()];
        let number = self.files.next_manifest()?;
        for row in rows {
            let row = u32::try_from(row).map_err(Error::internal)?;
            let file = planned.file(row);
            if file.content() != FileContent::Data {
                let message = "The table is damaged: a data manifest has a delete file";
                return Err(Error::Scan(ScanError::Validation(message.to_owned())));
            }
            if !self.is_in_range(file) || !self.is_permitted(file) {
                continue;
            }
            let Some(cached) = outcomes.get_mut(file.partition()) else { continue };
            let outcome = match cached {
                Some(outcome) => outcome,
                None => cached.insert(self.outcome(spec, planned.partition(file))),
            };
            let PartitionOutcome::Matching(residual) = outcome else {
                self.files.pruned.by_partition += 1;
                continue;
            };
            let has_rows = file.record_count() != 0 || self.scan.filter.is_always_true();
            let Some(residual) = residual.of_file(&file).filter(|_| has_rows) else {
                self.files.pruned.by_statistics += 1;
                continue;
            };
            let mut deletes = self.deletes.of_data_file(&planned, file);
            if !deletes.is_empty() {
                let all = deletes.into_iter();
                deletes = all.filter(|delete| self.may_delete_matching_rows(*delete)).collect();
            }
            let is_certain = residual.is_true && deletes.is_empty();
            let certain_rows = if is_certain { file.record_count() } else { 0 };
            let task = FileTask::new((number, row), residual.json, deletes);
            self.files.add(task, certain_rows);
        }
        self.files.end_manifest(planned);
        Ok(())
    }

    /// Whether a delete file may delete rows that the filter selects. The statistics of an equality
    /// delete file are those of the deleted keys. Those of other delete files have no columns of the
    /// table.
    fn may_delete_matching_rows(&mut self, delete: u32) -> bool {
        let Self { scan, deletes, matching_deletes, .. } = self;
        *matching_deletes.entry(delete).or_insert_with(|| {
            let found = deletes.file(delete);
            found.is_none_or(|(_, file)| {
                file.content() != FileContent::EqualityDeletes || scan.filter.may_match(&file)
            })
        })
    }

    /// Whether an incremental scan includes a file.
    fn is_in_range(&self, file: ManifestEntry<'_>) -> bool {
        match &self.scan.snapshots {
            ScanSnapshots::Appends(range) => {
                range.includes_entry(file.is_added(), file.snapshot_id())
            }
            ScanSnapshots::Empty | ScanSnapshots::Snapshot(_) => true,
        }
    }

    fn is_permitted(&self, file: ManifestEntry<'_>) -> bool {
        self.permitted.as_ref().is_none_or(|permitted| permitted.contains(&file.path()))
    }

    fn outcome(&mut self, spec: &ScanSpec, partition: &PartitionTuple) -> PartitionOutcome {
        let key = (spec.spec.spec_id, Box::from(partition));
        let evaluate = || {
            if !spec.filter.may_match_partition(partition) {
                return PartitionOutcome::Pruned;
            }
            PartitionOutcome::Matching(PartitionResidual::new(spec.filter.residual(partition)))
        };
        self.outcomes.entry(key).or_insert_with(evaluate).clone()
    }
}

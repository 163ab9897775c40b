//! [`Prepared`]: a scan whose manifest lists and delete files were read.

use std::sync::Arc;

use super::Planning;
use super::candidates::Candidates;
use super::deletes::DeleteFiles;
use super::evaluation::{Evaluation, ManifestRange, Pruned};
use super::files::PlannedFiles;
use super::permitted_files::PermittedFiles;
use super::request::Scan;
use super::table::PlannedTable;
use super::token::EntryRange;
use crate::{Error, Result};
use slateberg_base::background::give_way;
use slateberg_base::boxed;
use slateberg_model::manifest_file::ManifestFile;
use slateberg_objects::manifest::{Manifest, NeededColumns};

/// Maximum number of files that are evaluated for the response to a plan. The files of the first
/// range are always evaluated.
const INLINE_CANDIDATES_MAX: u64 = 1 << 20;

/// A scan of a table, ready for evaluation.
pub(super) struct Prepared {
    pub(super) table: PlannedTable,
    pub(super) scan: Arc<Scan>,
    pub(super) candidates: Candidates,
    pub(super) deletes: Arc<DeleteFiles>,
    /// The columns whose statistics the evaluation of data files needs.
    pub(super) needed: NeededColumns,
    /// The only files that the caller may read. `None`: all.
    permitted: Option<Arc<PermittedFiles>>,
}

impl Prepared {
    /// Returns an empty list of files.
    pub(super) fn no_files(&self) -> PlannedFiles {
        PlannedFiles::new(&self.scan.statistics, &self.deletes)
    }

    fn evaluation(&self, files: PlannedFiles, pruned: Pruned) -> Evaluation {
        let Self { scan, deletes, permitted, .. } = self;
        Evaluation::new((scan, deletes), permitted.clone(), files, pruned)
    }
}

impl Planning {
    /// Reads the manifest lists and delete manifests of a scan.
    #[boxed]
    pub(super) async fn prepare(&self, table: PlannedTable, scan: Scan) -> Result<Prepared> {
        let scan = Arc::new(scan);
        let permitted = self.permitted_in(&table, &scan).await?;
        let candidates = self.candidates(&table, &scan).await?;
        let deletes = self.deletes(&table, &scan, &candidates).await?;
        let mut needed = scan.needed_columns();
        needed.extend(deletes.equality_ids());
        let needed = NeededColumns::Ids(needed);
        Ok(Prepared { table, scan, candidates, deletes, needed, permitted })
    }

    /// Evaluates a range. Adds to `files` the data files that the client has to read.
    pub(super) async fn evaluate(
        &self,
        prepared: &Prepared,
        range: EntryRange,
        files: &mut PlannedFiles,
        pruned: Pruned,
    ) -> Result<()> {
        let manifests = self.data_manifests(prepared, range).await?;
        let mut evaluation = prepared.evaluation(std::mem::take(files), pruned);
        let evaluate = move || {
            evaluation.add_all(manifests)?;
            Ok::<_, Error>(evaluation.files)
        };
        *files = self.shared.compute.run(evaluate).await??;
        Ok(())
    }

    /// Evaluates the first range, and all further ranges whose manifests are cached, as long as the
    /// response does not have too many files. Returns the files that the client has to read, and
    /// the remaining ranges.
    pub(super) async fn evaluate_inline(
        &self,
        prepared: Prepared,
    ) -> Result<(PlannedFiles, Vec<EntryRange>)> {
        let ranges = prepared.candidates.ranges(&prepared.scan);
        let Some(first) = ranges.first() else { return Ok((prepared.no_files(), Vec::new())) };
        let manifests = self.data_manifests(&prepared, *first).await?;
        let planning = self.clone();
        let evaluate = move || planning.evaluate_cached(&prepared, ranges, manifests);
        self.shared.compute.run(evaluate).await?
    }

    /// Evaluates ranges like [`evaluate_inline`](Self::evaluate_inline). `first` are the manifests of
    /// the first range.
    fn evaluate_cached(
        &self,
        prepared: &Prepared,
        ranges: Vec<EntryRange>,
        first: Vec<ManifestRange>,
    ) -> Result<(PlannedFiles, Vec<EntryRange>)> {
        let Prepared { scan, candidates, .. } = prepared;
        let range_files_max = usize::try_from(candidates.range_files_max(scan));
        let tasks_max = scan.inline_tasks_max.min(range_files_max.unwrap_or(usize::MAX));
        let rows_max = scan.rows_requested_min.unwrap_or(i64::MAX);
        let mut evaluation = prepared.evaluation(prepared.no_files(), Pruned::Ignored);
        let (mut first, mut candidate_files, mut rest) = (Some(first), 0, Vec::new());
        for range in ranges {
            give_way();
            if evaluation.files.certain_rows() >= rows_max {
                break;
            }
            candidate_files += candidates.files_of(range);
            if let Some(manifests) = first.take() {
                evaluation.add_all(manifests)?;
                continue;
            }
            let has_room = evaluation.files.len() < tasks_max;
            let cached = match has_room && candidate_files <= INLINE_CANDIDATES_MAX {
                true => self.cached_manifests(prepared, range)?,
                false => None,
            };
            let position = evaluation.files.position();
            if let Some(manifests) = cached {
                evaluation.add_all(manifests)?;
                if evaluation.files.len() <= tasks_max {
                    continue;
                }
                evaluation.files.truncate(position);
            }
            rest.push(range);
        }
        if evaluation.files.certain_rows() >= rows_max {
            rest.clear();
        }
        Ok((evaluation.files, rest))
    }

    /// Returns the data manifests of a range, each with its spec and the positions of the range's
    /// files.
    pub(super) async fn data_manifests(
        &self,
        prepared: &Prepared,
        range: EntryRange,
    ) -> Result<Vec<ManifestRange>> {
        let Prepared { table, scan, candidates, needed, .. } = prepared;
        candidates.check_range(scan, range)?;
        let all: Vec<_> = candidates.of_range(range).cloned().collect();
        let read = self.read_all(table.record.warehouse, all.clone(), needed).await?;
        let entries = all.iter().map(|entry| &**entry);
        read.into_iter().zip(entries).map(|read| manifest_range(scan, range, read)).collect()
    }

    /// Returns the data manifests of a range, like [`data_manifests`](Self::data_manifests), if all
    /// of them are cached.
    fn cached_manifests(
        &self,
        prepared: &Prepared,
        range: EntryRange,
    ) -> Result<Option<Vec<ManifestRange>>> {
        let Prepared { table, scan, candidates, needed, .. } = prepared;
        let mut all = Vec::new();
        for entry in candidates.of_range(range) {
            let cached = self.shared.manifests.cached(table.record.warehouse, entry, needed);
            let Some(manifest) = cached else { return Ok(None) };
            all.push(manifest_range(scan, range, (manifest, entry))?);
        }
        Ok(Some(all))
    }
}

/// Returns a manifest with its spec and the positions of the files of a range.
fn manifest_range(
    scan: &Scan,
    range: EntryRange,
    (manifest, entry): (Arc<Manifest>, &ManifestFile),
) -> Result<ManifestRange> {
    let spec = scan.spec(entry.spec_id)?.clone();
    let (first, end) = (range.rows.0 as usize, range.rows.1 as usize);
    let end = end.min(manifest.len());
    Ok((manifest, spec, first.min(end)..end))
}

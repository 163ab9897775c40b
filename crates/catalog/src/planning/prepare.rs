//! [`Prepared`]: a scan whose manifest lists and delete files were read.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::Planning;
use super::candidates::Candidates;
use super::deletes::DeleteFiles;
use super::evaluation::Evaluation;
use super::files::PlannedFiles;
use super::request::{Scan, ScanSpec};
use super::table::PlannedTable;
use super::token::EntryRange;
use crate::{Error, Result};
use slateberg_objects::manifest::{Manifest, NeededColumns};

/// A scan of a table, ready for evaluation.
pub(super) struct Prepared {
    pub(super) table: PlannedTable,
    pub(super) scan: Arc<Scan>,
    pub(super) candidates: Candidates,
    pub(super) deletes: Arc<DeleteFiles>,
}

impl Prepared {
    /// Returns an empty list of files.
    pub(super) fn no_files(&self) -> PlannedFiles {
        PlannedFiles::new(&self.scan.statistics, &self.deletes)
    }

    /// Returns the columns whose statistics the evaluation of data files needs.
    fn needed_columns(&self) -> NeededColumns {
        let mut ids: BTreeSet<i32> = self.scan.needed_columns();
        ids.extend(self.deletes.equality_ids());
        NeededColumns::Ids(ids)
    }
}

impl Planning {
    /// Reads the manifest lists and delete manifests of a scan.
    pub(super) async fn prepare(&self, table: PlannedTable, scan: Scan) -> Result<Prepared> {
        let candidates = self.candidates(&table, &scan).await?;
        let deletes = self.deletes(&table, &scan, &candidates).await?;
        Ok(Prepared { table, scan: Arc::new(scan), candidates, deletes })
    }

    /// Evaluates a range. Adds to `files` the data files that the client has to read.
    pub(super) async fn evaluate(
        &self,
        prepared: &Prepared,
        range: EntryRange,
        files: &mut PlannedFiles,
    ) -> Result<()> {
        let manifests = self.data_manifests(prepared, range).await?;
        let added = std::mem::take(files);
        let mut evaluation = Evaluation::new(&prepared.scan, &prepared.deletes, added);
        let evaluate = move || {
            for (manifest, spec, rows) in manifests {
                evaluation.add(manifest, &spec, rows)?;
            }
            Ok::<_, Error>(evaluation.files)
        };
        *files = self.compute.run(evaluate).await??;
        Ok(())
    }

    /// Whether the manifests of a range are cached.
    pub(super) fn has_all(&self, prepared: &Prepared, range: EntryRange) -> bool {
        let needed = prepared.needed_columns();
        let warehouse = prepared.table.record.warehouse;
        let mut all = prepared.candidates.of_range(range);
        all.all(|manifest| self.manifests.has(warehouse, manifest, &needed))
    }

    /// Returns the data manifests of a range, each with its spec and the positions of the range's
    /// files.
    async fn data_manifests(
        &self,
        prepared: &Prepared,
        range: EntryRange,
    ) -> Result<Vec<(Arc<Manifest>, ScanSpec, Range<usize>)>> {
        let Prepared { table, scan, candidates, .. } = prepared;
        candidates.check_range(scan, range)?;
        let all: Vec<_> = candidates.of_range(range).cloned().collect();
        let (warehouse, needed) = (table.record.warehouse, prepared.needed_columns());
        let read = self.read_all(warehouse, all.clone(), &needed).await?;
        let mut planned = Vec::with_capacity(read.len());
        for (manifest, entry) in read.into_iter().zip(all) {
            let spec = scan.spec(entry.spec_id)?.clone();
            let (first, end) = (range.rows.0 as usize, range.rows.1 as usize);
            let end = end.min(manifest.len());
            planned.push((manifest, spec, first.min(end)..end));
        }
        Ok(planned)
    }
}

//! [`PermittedFiles`]: the files of a snapshot that a reader with a row filter may read.
//!
//! A client that can read a file can read all its rows. So the filter permits a file only if the
//! partition or the statistics of the file prove that the filter selects every row. The filter
//! permits a delete file only if the delete file contains no values of hidden rows: if it is a
//! deletion vector, or if its partition proves that the filter selects every row.
//!
//! A *mixed* file may have rows that the filter selects, but is not permitted. A scan without these
//! rows would be wrong, so no scan of a snapshot with a mixed file is planned. This does not depend
//! on the filter of the client. Otherwise, clients could determine the values in mixed files with
//! many filters.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use super::deletes::DeleteFiles;
use super::planned_manifest::PlannedManifest;
use super::request::{Scan, ScanSpec};
use crate::{Error, Result};
use slateberg_model::scan::ScanFilter;
use slateberg_objects::manifest::{FileContent, Manifest, ManifestEntry};

/// Approximate size of a file in memory, in bytes.
const FILE_BYTES: usize = 18;

/// The files of a snapshot that a reader with a row filter may read.
#[derive(Debug, Default)]
pub(super) struct PermittedFiles {
    /// The hashes have a random key, so that no writer can create a file with the hash of another one.
    hashes: RandomState,
    files: HashSet<u64>,
    has_mixed: bool,
}

impl PermittedFiles {
    /// Whether the filter permits the file at a location.
    pub(super) fn contains(&self, location: &str) -> bool {
        self.files.contains(&self.hash(location))
    }

    /// Whether a file may have rows that the filter selects, but is not permitted.
    pub(super) fn has_mixed(&self) -> bool {
        self.has_mixed
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.files.capacity() * FILE_BYTES
    }

    /// Hashes a location without its scheme: engines use `s3`, `s3a` and others for the same files.
    fn hash(&self, location: &str) -> u64 {
        let file = location.split_once("://").map_or(location, |(_, file)| file);
        self.hashes.hash_one(file)
    }

    fn permit(&mut self, location: &str) {
        self.files.insert(self.hash(location));
    }

    /// Adds the permitted files at these positions of a data manifest. The filter of the scan is the
    /// row filter.
    pub(super) fn add(
        &mut self,
        (scan, deletes): (&Scan, &DeleteFiles),
        manifest: Arc<Manifest>,
        spec: &ScanSpec,
        rows: Range<usize>,
    ) -> Result<()> {
        let planned = PlannedManifest::new(manifest, Arc::clone(&spec.spec))?;
        let mut residuals: Vec<Option<ScanFilter>> = vec![None; planned.tuples().len()];
        for row in rows {
            let file = planned.file(u32::try_from(row).map_err(Error::internal)?);
            let Some(residual) = residuals.get_mut(file.partition()) else { continue };
            let residual =
                residual.get_or_insert_with(|| spec.filter.residual(planned.partition(file)));
            if !residual.may_match(&file) {
                continue;
            }
            let of_file = deletes.of_data_file(&planned, file);
            let may_share =
                |position: &u32| deletes.file(*position).is_some_and(|it| may_share(scan, it));
            if !residual.all_match(&file) || !of_file.iter().all(may_share) {
                self.has_mixed = true;
                continue;
            }
            self.permit(&file.path());
            for (_, delete_file) in of_file.iter().filter_map(|position| deletes.file(*position)) {
                self.permit(&delete_file.path());
            }
        }
        Ok(())
    }
}

/// Whether the row filter of a scan permits a delete file.
fn may_share(scan: &Scan, (manifest, file): (&PlannedManifest, ManifestEntry<'_>)) -> bool {
    let is_vector =
        file.content() == FileContent::PositionDeletes && file.content_offset().is_some();
    let spec = scan.spec(manifest.spec().spec_id);
    is_vector || spec.is_ok_and(|spec| spec.filter.all_match_partition(manifest.partition(file)))
}

//! [`Candidates`]: the manifests of a scan, and their division into ranges.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;

use super::files::{COLUMN_BYTES, FILE_BYTES};
use super::report::ScanReport;
use super::request::Scan;
use super::table::PlannedTable;
use super::token::EntryRange;
use crate::error::{MissingResource, UnreadableManifests};
use crate::{Error, Result};
use slateberg_base::background::give_way;
use slateberg_model::manifest_file::ManifestFile;
use slateberg_model::scan::ScanSnapshots;
use slateberg_objects::manifest_list::ManifestList;

/// Maximum number of live files in a range.
const RANGE_FILES_MAX: u64 = 8000;
/// Approximate size of the response for a range, in bytes.
const RANGE_BYTES: u64 = 16 << 20;
/// Maximum number of ranges of a scan. If this is not enough, each range contains more files.
const RANGES_MAX: u64 = 10_000;
/// Number of manifests after which the selection lets other threads run.
const CHUNK: usize = 256;
/// The range of a token may be longer than the ranges of this server, by up to this factor.
const TOLERANCE: u64 = 4;

/// An entry of a manifest list.
#[derive(Clone)]
pub(super) struct ManifestRef {
    pub(super) list: Arc<ManifestList>,
    pub(super) position: usize,
}

impl Deref for ManifestRef {
    type Target = ManifestFile;

    fn deref(&self) -> &ManifestFile {
        &self.list.entries[self.position]
    }
}

impl ManifestRef {
    /// Returns the entries of a list.
    pub(super) fn all(list: &Arc<ManifestList>) -> impl Iterator<Item = Self> {
        (0..list.entries.len()).map(|position| Self { list: Arc::clone(list), position })
    }
}

/// The manifests of a scan.
pub(super) struct Candidates {
    /// All data manifests in the order of their lists. This order depends only on the snapshots, so
    /// tokens can contain positions in it.
    pub(super) data: Vec<ManifestRef>,
    /// For each data manifest, whether some of its partitions may match the filter.
    pub(super) matching: Vec<bool>,
    /// The delete manifests with live files.
    pub(super) deletes: Vec<ManifestRef>,
    /// The manifest list of the snapshot.
    pub(super) list: Option<String>,
}

/// Returns the number of live files of a manifest. `None` if the manifest list does not contain
/// this number.
pub(super) fn live_files(manifest: &ManifestFile) -> Option<u64> {
    let counts = manifest.added_files_count.zip(manifest.existing_files_count)?;
    u64::try_from(counts.0).ok()?.checked_add(u64::try_from(counts.1).ok()?)
}

/// Returns the number of live files of a manifest in a range of its rows. An unknown number counts
/// as one.
fn files_of(manifest: &ManifestFile, (first, end): (u32, u32)) -> u64 {
    let rows = u64::from(end.saturating_sub(first));
    live_files(manifest).map_or(1, |live| live.saturating_sub(first.into()).min(rows))
}

impl Candidates {
    /// Selects the manifests of a scan. `lists` are the locations and the manifest lists of its
    /// snapshots. Errors if the server may not or cannot read a manifest.
    pub(super) fn new(
        table: &PlannedTable,
        scan: &Scan,
        lists: Vec<(String, Arc<ManifestList>)>,
    ) -> Result<Self> {
        let (mut data, mut deletes, mut location) = (Vec::new(), Vec::new(), None);
        let mut paths = HashSet::new();
        for (path, list) in lists {
            match &scan.snapshots {
                ScanSnapshots::Empty => {}
                ScanSnapshots::Snapshot(_) => {
                    location = Some(path);
                    (data, deletes) = ManifestRef::all(&list).partition(|it| it.is_data());
                    deletes.retain(|manifest| live_files(manifest) != Some(0));
                }
                ScanSnapshots::Appends(range) => {
                    let added = ManifestRef::all(&list).filter(|it| range.includes_manifest(it));
                    data.extend(added.filter(|manifest| paths.insert(manifest.path.clone())));
                }
            }
        }
        for manifest in &deletes {
            check_readable(table, manifest)?;
        }
        let mut matching = Vec::with_capacity(data.len());
        for manifests in data.chunks(CHUNK) {
            for manifest in manifests {
                check_readable(table, manifest)?;
                let spec = scan.spec(manifest.spec_id)?;
                matching.push(spec.filter.may_match_manifest(manifest));
            }
            give_way();
        }
        Ok(Self { data, matching, deletes, list: location })
    }

    /// Returns those manifests of a range that may match the filter.
    pub(super) fn of_range(&self, range: EntryRange) -> impl Iterator<Item = &ManifestRef> {
        let (first, end) = range.manifests;
        let both = self.data.iter().zip(&self.matching).take(end as usize).skip(first as usize);
        both.filter(|(_, matches)| **matches).map(|(manifest, _)| manifest)
    }

    /// Divides the scan into ranges.
    pub(super) fn ranges(&self, scan: &Scan) -> Vec<EntryRange> {
        let files_max = self.range_files_max(scan);
        let mut ranges: Vec<EntryRange> = Vec::new();
        let mut files = 0;
        for (position, manifest) in (0_u32..).zip(&self.data) {
            if !self.matching[position as usize] {
                continue;
            }
            let (end, live) = (position + 1, live_files(manifest));
            match ranges.last_mut() {
                Some(last) if live.is_some_and(|live| files + live <= files_max) => {
                    last.manifests.1 = end;
                    files += live.unwrap_or(0);
                }
                _ => {
                    ranges.extend(split(position, live, files_max));
                    let is_divided = live.is_none_or(|live| live > files_max);
                    files = if is_divided { files_max } else { live.unwrap_or(0) };
                }
            }
        }
        ranges
    }

    /// Returns the maximum number of live files in one range.
    pub(super) fn range_files_max(&self, scan: &Scan) -> u64 {
        let filter = scan.body.filter.as_ref().map_or(0, String::len) as u64;
        let columns = scan.body.statistics.len() as u64;
        let fitting = RANGE_BYTES / (FILE_BYTES + filter + columns * COLUMN_BYTES);
        let all: u64 = self.data.iter().filter_map(|manifest| live_files(manifest)).sum();
        fitting.clamp(1, RANGE_FILES_MAX).max(all.div_ceil(RANGES_MAX))
    }

    /// Returns the number of live files in a range. If the manifest list does not contain the number
    /// of a manifest, it counts as one.
    pub(super) fn files_of(&self, range: EntryRange) -> u64 {
        self.of_range(range).map(|manifest| files_of(manifest, range.rows)).sum()
    }

    /// Rejects a range with many more files than the ranges of the server.
    pub(super) fn check_range(&self, scan: &Scan, range: EntryRange) -> Result<()> {
        if self.files_of(range) > self.range_files_max(scan).saturating_mul(TOLERANCE) {
            return Err(Error::NotFound(MissingResource::PlanTask("its range is too long".into())));
        }
        Ok(())
    }

    /// Returns a report without files.
    pub(super) fn report(&self) -> ScanReport {
        let matching = self.matching.iter().filter(|matches| **matches).count();
        let pruned = self.data.len() - matching;
        ScanReport::of_manifests(self.data.len(), pruned, self.deletes.len())
    }
}

/// Rejects a manifest that the server may not or cannot read.
pub(super) fn check_readable(table: &PlannedTable, manifest: &ManifestFile) -> Result<()> {
    if manifest.key_metadata.as_ref().is_some_and(|key| !key.is_empty()) {
        let path = manifest.path.clone();
        return Err(Error::NotPlannable(UnreadableManifests::EncryptedManifest(path)));
    }
    table.check_own(&manifest.path)
}

/// Divides a manifest with this number of live files.
fn split(position: u32, live: Option<u64>, files_max: u64) -> Vec<EntryRange> {
    let manifests = (position, position + 1);
    let max = u32::try_from(files_max).unwrap_or(u32::MAX).max(1);
    let live = live.and_then(|live| u32::try_from(live).ok()).unwrap_or(0);
    let mut ranges = Vec::new();
    let mut first = 0;
    while live - first > max {
        ranges.push(EntryRange { manifests, rows: (first, first + max) });
        first += max;
    }
    // The last range has no end, because a manifest may contain more files than the manifest list
    // states.
    ranges.push(EntryRange { manifests, rows: (first, u32::MAX) });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All files of a manifest.
    const ALL_ROWS: (u32, u32) = (0, u32::MAX);

    #[test]
    fn long_manifest_is_divided_into_ranges() {
        let rows = |live| {
            let ranges = split(3, live, 10);
            assert!(ranges.iter().all(|range| range.manifests == (3, 4)));
            ranges.iter().map(|range| range.rows).collect::<Vec<_>>()
        };
        assert_eq!(rows(None), [ALL_ROWS]);
        assert_eq!(rows(Some(0)), [ALL_ROWS]);
        assert_eq!(rows(Some(10)), [ALL_ROWS]);
        assert_eq!(rows(Some(21)), [(0, 10), (10, 20), (20, u32::MAX)]);
    }
}

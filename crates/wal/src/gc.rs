//! Deletes segments whose records are all in sorted runs.

use std::fs;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use slatedb::wal::{WalError, WalFileRange, WalGc};

use super::error::unavailable;
use super::segment::Segment;

/// Deletes segments that no manifest refers to.
pub(super) struct JournalGc {
    directory: PathBuf,
}

impl JournalGc {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }
}

#[async_trait]
impl WalGc for JournalGc {
    async fn collect(
        &self,
        referenced_ranges: Vec<WalFileRange>,
        min_age: Duration,
        dry_run: bool,
    ) -> Result<(), WalError> {
        let segments = Segment::list(&self.directory).map_err(unavailable)?;
        // The last segment is not a candidate, because it still grows.
        for pair in segments.windows(2) {
            let [segment, next] = pair else { continue };
            let is_referenced =
                referenced_ranges.iter().any(|range| overlaps(range, segment.first, next.first));
            if !is_referenced && !dry_run && is_older(&segment.path, min_age) {
                fs::remove_file(&segment.path).map_err(unavailable)?;
            }
        }
        Ok(())
    }
}

/// Whether a range contains a number from `first` (inclusive) to `end` (exclusive).
fn overlaps(range: &WalFileRange, first: u64, end: u64) -> bool {
    let begins_before = match range.0 {
        Bound::Included(start) => start < end,
        Bound::Excluded(start) => start.saturating_add(1) < end,
        Bound::Unbounded => true,
    };
    let ends_after = match range.1 {
        Bound::Included(last) => last >= first,
        Bound::Excluded(range_end) => range_end > first,
        Bound::Unbounded => true,
    };
    begins_before && ends_after
}

/// Whether a file was not modified for at least `age`. Returns false if the age of the file is
/// unknown.
fn is_older(path: &Path, age: Duration) -> bool {
    let elapsed = || -> io::Result<Duration> {
        fs::metadata(path)?.modified()?.elapsed().map_err(io::Error::other)
    };
    elapsed().is_ok_and(|elapsed| elapsed >= age)
}

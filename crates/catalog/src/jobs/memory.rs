//! [`JobMemory`]: limits the memory that all background jobs together use for the names and hashes
//! of files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::interrupted::Interruption;
use crate::Error;
use crate::settings::JOB_FILE_BYTES;

/// Memory that one job has reserved. Dropping this value releases the memory.
pub(super) struct JobMemory {
    all: Arc<AtomicU64>,
    own: AtomicU64,
    bytes_max: u64,
}

/// Failure to reserve memory for a job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LimitExceeded {
    /// The job alone needs more than the limit for all jobs together.
    Alone,
    /// The job needs more memory than is left by the other running jobs.
    WithOthers,
}

impl JobMemory {
    /// Returns an empty reservation. All jobs together can reserve memory for at most `files_max`
    /// files.
    pub(super) fn new(all: &Arc<AtomicU64>, files_max: usize) -> Self {
        let bytes_max = (files_max as u64).saturating_mul(JOB_FILE_BYTES);
        Self { all: Arc::clone(all), own: AtomicU64::new(0), bytes_max }
    }

    /// Reserves memory for this many files.
    pub(super) fn reserve_files(&self, files: usize) -> Result<(), LimitExceeded> {
        self.take((files as u64).saturating_mul(JOB_FILE_BYTES))
    }

    /// Reserves memory.
    pub(super) fn take(&self, bytes: u64) -> Result<(), LimitExceeded> {
        if self.own.load(Ordering::Relaxed).saturating_add(bytes) > self.bytes_max {
            return Err(LimitExceeded::Alone);
        }
        if self.all.fetch_add(bytes, Ordering::Relaxed) + bytes > self.bytes_max {
            self.all.fetch_sub(bytes, Ordering::Relaxed);
            return Err(LimitExceeded::WithOthers);
        }
        self.own.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Releases a part of the memory.
    pub(super) fn release(&self, bytes: u64) {
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for JobMemory {
    fn drop(&mut self) {
        self.release(self.own.load(Ordering::Relaxed));
    }
}

impl From<LimitExceeded> for Interruption {
    fn from(exceeded: LimitExceeded) -> Self {
        match exceeded {
            LimitExceeded::Alone => Self::Failed(
                "the list of files that must not be deleted exceeds \
                 catalog.job_files_known_max: raise that setting"
                    .to_owned(),
            ),
            LimitExceeded::WithOthers => Self::Later(Error::unavailable(
                "Too many jobs",
                "the running jobs use all memory that catalog.job_files_known_max allows",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_share_memory_and_release_it_at_their_end() {
        let all = Arc::default();
        let (one, other) = (JobMemory::new(&all, 10), JobMemory::new(&all, 10));
        assert_eq!(one.reserve_files(11), Err(LimitExceeded::Alone));
        assert_eq!(one.reserve_files(6), Ok(()));
        assert_eq!(other.reserve_files(5), Err(LimitExceeded::WithOthers));
        assert_eq!(other.reserve_files(4), Ok(()));
        assert_eq!(one.reserve_files(1), Err(LimitExceeded::WithOthers));
        drop(other);
        assert_eq!(one.reserve_files(4), Ok(()));
        one.release(JOB_FILE_BYTES);
        assert_eq!(one.take(JOB_FILE_BYTES + 1), Err(LimitExceeded::Alone));
        drop(one);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}

//! [`JobMemory`]: the memory limit of all background jobs for the files that they know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::interrupted::Interrupted;
use crate::Error;
use crate::settings::JOB_FILE_BYTES;

/// Memory reserved by one job. Dropping this releases it.
pub(super) struct JobMemory {
    all: Arc<AtomicU64>,
    own: AtomicU64,
    bytes_max: u64,
}

/// Failure to reserve memory for a job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    /// It alone needs more than the limit of all jobs.
    Alone,
    /// It needs more than other jobs leave at present.
    WithOthers,
}

impl JobMemory {
    /// Returns an empty reservation under a common limit of `files_max` files for all jobs.
    pub(super) fn new(all: &Arc<AtomicU64>, files_max: usize) -> Self {
        let bytes_max = (files_max as u64).saturating_mul(JOB_FILE_BYTES);
        Self { all: Arc::clone(all), own: AtomicU64::new(0), bytes_max }
    }

    /// Reserves memory for this many files.
    pub(super) fn take_files(&self, files: usize) -> Result<(), Exceeded> {
        self.take((files as u64).saturating_mul(JOB_FILE_BYTES))
    }

    /// Reserves memory.
    pub(super) fn take(&self, bytes: u64) -> Result<(), Exceeded> {
        if self.own.load(Ordering::Relaxed).saturating_add(bytes) > self.bytes_max {
            return Err(Exceeded::Alone);
        }
        if self.all.fetch_add(bytes, Ordering::Relaxed) + bytes > self.bytes_max {
            self.all.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Exceeded::WithOthers);
        }
        self.own.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Releases a part of the memory.
    pub(super) fn give_back(&self, bytes: u64) {
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for JobMemory {
    fn drop(&mut self) {
        self.give_back(self.own.load(Ordering::Relaxed));
    }
}

impl From<Exceeded> for Interrupted {
    fn from(exceeded: Exceeded) -> Self {
        match exceeded {
            Exceeded::Alone => Self::Failed(
                "cannot know all files that have to stay: they are more than \
                 catalog.job_files_known_max allows. Raise it"
                    .to_owned(),
            ),
            Exceeded::WithOthers => {
                Self::Later(Error::unavailable("Too many jobs", "other jobs have the memory"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_share_memory_and_give_it_back_when_they_end() {
        let all = Arc::default();
        let (one, other) = (JobMemory::new(&all, 10), JobMemory::new(&all, 10));
        assert_eq!(one.take_files(11), Err(Exceeded::Alone));
        assert_eq!(one.take_files(6), Ok(()));
        assert_eq!(other.take_files(5), Err(Exceeded::WithOthers));
        assert_eq!(other.take_files(4), Ok(()));
        assert_eq!(one.take_files(1), Err(Exceeded::WithOthers));
        drop(other);
        assert_eq!(one.take_files(4), Ok(()));
        one.give_back(JOB_FILE_BYTES);
        assert_eq!(one.take(JOB_FILE_BYTES + 1), Err(Exceeded::Alone));
        drop(one);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}

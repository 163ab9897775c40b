//! Whether the journal can be written at this moment.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::Error;
use slateberg_base::io_failure::IoFailure;

/// Between two warnings about one journal.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// Whether the journal can be written, and what its writer does if not. Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub struct JournalState(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waits_for_space: AtomicBool,
    /// Why the journal cannot be written at this moment.
    stall: Mutex<Option<Stall>>,
    is_stalled: AtomicBool,
}

/// A journal that waits until it can be written again.
struct Stall {
    since: Instant,
    warned: Instant,
    reason: String,
    is_full: bool,
}

impl JournalState {
    /// From now on, writes that fail for a while, as to a full disk, are retried until they succeed.
    pub fn wait_for_space(&self) {
        self.0.waits_for_space.store(true, Ordering::Relaxed);
    }

    /// From now on, the next failure of such a write is final.
    pub fn give_up_on_space(&self) {
        self.0.waits_for_space.store(false, Ordering::Relaxed);
    }

    /// Whether writes to a full disk are retried.
    pub fn waits_for_space(&self) -> bool {
        self.0.waits_for_space.load(Ordering::Relaxed)
    }

    /// Whether the journal waits for space on its disk.
    pub fn is_full(&self) -> bool {
        self.stall().as_ref().is_some_and(|stall| stall.is_full)
    }

    /// Succeeds unless the journal waits until it can be written again.
    pub fn check_writable(&self) -> Result<(), Error> {
        if !self.0.is_stalled.load(Ordering::Relaxed) {
            return Ok(());
        }
        match &*self.stall() {
            None => Ok(()),
            Some(Stall { reason, is_full, .. }) => {
                Err(Error::Stalled { reason: reason.clone(), is_full: *is_full })
            }
        }
    }

    /// Records that the journal cannot be written, for a reason that may pass.
    pub(crate) fn stalled(&self, directory: &Path, error: &io::Error) {
        let is_full = IoFailure::of(error) == IoFailure::Full;
        let (now, directory) = (Instant::now(), directory.display());
        let reason = format!("cannot write the journal in {directory}: {error}");
        let mut stall = self.stall();
        let (since, warned) = stall.as_ref().map_or((now, None), |it| (it.since, Some(it.warned)));
        let is_due = warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY);
        if is_due {
            let seconds = since.elapsed().as_secs();
            tracing::error!(
                %directory,
                %error,
                seconds,
                "the journal cannot be written: reads are served, writes are rejected until it can"
            );
        }
        let warned = warned.filter(|_| !is_due).unwrap_or(now);
        *stall = Some(Stall { since, warned, reason, is_full });
        self.0.is_stalled.store(true, Ordering::Relaxed);
    }

    /// Records that the journal was written.
    pub(crate) fn resumed(&self) {
        if !self.0.is_stalled.load(Ordering::Relaxed) {
            return;
        }
        if let Some(stall) = self.stall().take() {
            let seconds = stall.since.elapsed().as_secs();
            tracing::info!(seconds, "the journal is written again: writes are accepted");
        }
        self.0.is_stalled.store(false, Ordering::Relaxed);
    }

    fn stall(&self) -> MutexGuard<'_, Option<Stall>> {
        self.0.stall.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

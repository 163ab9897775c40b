//! [`JournalState`]: whether the local WAL can be written at the moment.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::Error;
use slateberg_base::error_chain::Cause;
use slateberg_base::io_failure::IoFailure;

/// Minimum interval between warnings about one WAL.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// Whether the WAL can be written, and whether the writer retries temporary failures. Cheap to
/// clone. Clones share the state.
#[derive(Clone, Default)]
pub struct JournalState(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waits_for_space: AtomicBool,
    /// The current reason why the WAL cannot be written.
    stall: Mutex<Option<Stall>>,
    is_stalled: AtomicBool,
}

/// A temporary failure to write.
struct Stall {
    since: Instant,
    warned: Instant,
    cause: Cause,
    is_full: bool,
}

impl JournalState {
    /// Makes the writer retry temporary failures, such as a full disk, until a write succeeds.
    pub fn wait_for_space(&self) {
        self.0.waits_for_space.store(true, Ordering::Relaxed);
    }

    /// Makes the writer treat the next temporary failure as final.
    pub fn give_up_on_space(&self) {
        self.0.waits_for_space.store(false, Ordering::Relaxed);
    }

    /// Whether the writer retries temporary failures.
    pub fn waits_for_space(&self) -> bool {
        self.0.waits_for_space.load(Ordering::Relaxed)
    }

    /// Whether the WAL waits for disk space.
    pub fn is_full(&self) -> bool {
        self.stall().as_ref().is_some_and(|stall| stall.is_full)
    }

    /// Errors while the writer retries a write that has failed.
    pub fn check_writable(&self) -> Result<(), Error> {
        if !self.0.is_stalled.load(Ordering::Relaxed) {
            return Ok(());
        }
        match &*self.stall() {
            None => Ok(()),
            Some(Stall { cause, is_full, .. }) => {
                Err(Error::Stalled { source: cause.clone(), is_full: *is_full })
            }
        }
    }

    /// Records a temporary failure to write.
    pub(crate) fn record_stall(&self, directory: &Path, error: &io::Error) {
        let is_full = IoFailure::of(error) == IoFailure::Full;
        let (now, directory) = (Instant::now(), directory.display());
        let copy = io::Error::new(error.kind(), error.to_string());
        let cause = Cause::about(format_args!("cannot write the journal in {directory}"), copy);
        let mut stall = self.stall();
        let (since, warned) = stall.as_ref().map_or((now, None), |it| (it.since, Some(it.warned)));
        let is_due = warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY);
        if is_due {
            let seconds = since.elapsed().as_secs();
            tracing::error!(
                %directory,
                %error,
                seconds,
                "the journal cannot be written: reads are served, and writes are rejected until it can be written again"
            );
        }
        let warned = warned.filter(|_| !is_due).unwrap_or(now);
        *stall = Some(Stall { since, warned, cause, is_full });
        self.0.is_stalled.store(true, Ordering::Relaxed);
    }

    /// Records a successful write.
    pub(crate) fn record_success(&self) {
        if !self.0.is_stalled.load(Ordering::Relaxed) {
            return;
        }
        if let Some(stall) = self.stall().take() {
            let seconds = stall.since.elapsed().as_secs();
            tracing::info!(seconds, "the journal can be written again: writes are accepted");
        }
        self.0.is_stalled.store(false, Ordering::Relaxed);
    }

    fn stall(&self) -> MutexGuard<'_, Option<Stall>> {
        self.0.stall.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Storage: wraps the object stores that SlateDB uses, and records their current failures.
//!
//! SlateDB retries most failures forever, and logs them at a level that is off by default.
//! Therefore all requests of SlateDB pass through `watched`. This module logs failures as warnings,
//! and ends the retries of requests that cannot succeed.
//!
//! The reaction to a full disk depends on the process. A starting server and a subcommand fail with
//! the reason. A running server continues ([`Storage::wait_for_space`]): it serves reads, and its
//! writes wait until there is space.

mod watched;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use slatedb_common::retry::NonRetryable;

use slateberg_telemetry::collection::Collection;
use slateberg_wal::JournalState;

/// Minimum interval between warnings about one file.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// A failure counts as current for this time after the last failed attempt.
const FAILURE_LIFETIME: Duration = Duration::from_secs(30);

/// Current failures of a store's files or objects. Cheap to clone, because clones share the
/// failures.
#[derive(Clone, Default)]
pub struct Storage(Arc<Shared>);

#[derive(Default)]
struct Shared {
    failures: Mutex<HashMap<Request, Failure>>,
    /// Whether there are failures. Without failures, a successful request needs no lock.
    has_failures: AtomicBool,
    journal: JournalState,
}

/// An operation on a file or object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Request {
    operation: Operation,
    file: String,
}

/// Kind of an operation on a file or object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Read,
    Write,
    List,
    Delete,
    Copy,
}

/// A failure that is retried.
struct Failure {
    since: Instant,
    last: Instant,
    warned: Instant,
    reason: String,
    is_full: bool,
}

/// A failure of a file or object that no retry can fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {operation} {file}: {reason}")]
pub struct StorageError {
    operation: &'static str,
    file: String,
    reason: String,
    is_damage: bool,
}

impl StorageError {
    /// Whether the file is damaged. Otherwise, the file cannot be accessed.
    pub fn is_damage(&self) -> bool {
        self.is_damage
    }

    /// Returns the failure of a file or object among the causes of an error.
    pub(super) fn find<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        NonRetryable::find(error)?.0.downcast_ref()
    }
}

impl Operation {
    fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Copy => "copy",
        }
    }
}

impl Storage {
    /// From now on, retries writes that fail temporarily (for example because the disk is full)
    /// until they succeed.
    pub fn wait_for_space(&self) {
        self.0.journal.wait_for_space();
    }

    /// From now on, no longer retries writes that fail temporarily: their next failure is final.
    pub fn give_up_on_space(&self) {
        self.0.journal.give_up_on_space();
    }

    /// Whether writes to a full disk are retried.
    pub(super) fn waits_for_space(&self) -> bool {
        self.0.journal.waits_for_space()
    }

    /// Returns the error of a read, write or listing that has failed in every attempt for at least
    /// this time.
    pub fn failing_for(&self, at_least: Duration) -> Option<String> {
        let failures = self.failures();
        let failing = failures.iter().find(|(request, failure)| {
            // Failed deletions do not count, because they only leave garbage.
            request.operation != Operation::Delete
                && failure.since.elapsed() >= at_least
                && failure.last.elapsed() < FAILURE_LIFETIME
        });
        failing.map(|(request, failure)| {
            let Request { operation, file } = request;
            format!("cannot {} {file}: {}", operation.verb(), failure.reason)
        })
    }

    /// Returns the state of the journal, which its writer reports.
    pub(super) fn journal(&self) -> &JournalState {
        &self.0.journal
    }

    /// Reports for each part of the storage whether it is full.
    pub(super) fn collect(&self, into: &mut Collection) {
        let journal = self.0.journal.is_full();
        let files = self
            .failures()
            .values()
            .any(|failure| failure.is_full && failure.last.elapsed() < FAILURE_LIFETIME);
        full_gauge(into, "journal", journal);
        full_gauge(into, "state", files);
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<Request, Failure>> {
        self.0.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, request: Request, reason: String, is_full: bool) {
        let now = Instant::now();
        let mut failures = self.failures();
        failures.retain(|_, failure| failure.last.elapsed() < FAILURE_LIFETIME);
        let existing = failures.get_mut(&request);
        if existing.as_ref().is_none_or(|existing| existing.warned.elapsed() >= WARN_EVERY) {
            let Request { operation, file } = &request;
            let seconds =
                existing.as_ref().map_or(0, |existing| existing.since.elapsed().as_secs());
            let operation = operation.verb();
            tracing::warn!(
                operation,
                file,
                error = reason,
                seconds,
                "storage request failed: retrying"
            );
            if let Some(existing) = existing {
                *existing =
                    Failure { since: existing.since, last: now, warned: now, reason, is_full };
            } else {
                let failure = Failure { since: now, last: now, warned: now, reason, is_full };
                failures.insert(request, failure);
            }
        } else if let Some(existing) = existing {
            let Failure { since, warned, .. } = *existing;
            *existing = Failure { since, last: now, warned, reason, is_full };
        }
        self.0.has_failures.store(true, Ordering::Relaxed);
    }

    fn succeeded(&self, request: impl FnOnce() -> Request) {
        if !self.0.has_failures.load(Ordering::Relaxed) {
            return;
        }
        let request = request();
        let mut failures = self.failures();
        if let Some(failure) = failures.remove(&request) {
            let Request { operation, file } = request;
            let (operation, seconds) = (operation.verb(), failure.since.elapsed().as_secs());
            tracing::info!(operation, file, seconds, "storage request succeeded after retries");
        }
        self.0.has_failures.store(!failures.is_empty(), Ordering::Relaxed);
    }
}

/// Reports whether a part of the storage is full.
pub fn full_gauge(into: &mut Collection, storage: &'static str, is_full: bool) {
    let help = "Whether a part of the storage has no space left: 1 if so, 0 if not.";
    let attributes = vec![("storage".into(), storage.into())];
    into.gauge("slateberg.storage.full", "1", help, attributes, f64::from(u8::from(is_full)));
}

#[cfg(test)]
mod tests;

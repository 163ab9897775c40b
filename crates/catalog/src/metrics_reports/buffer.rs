//! [`ReportBuffer`]: holds metrics reports in memory until they are stored.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use slateberg_store::metrics_reports::{MetricsReport, MetricsReportsRecord};

/// Maximum length of the reports in the buffer, in bytes of JSON.
const BYTES_MAX: usize = 8 << 20;

/// The reports since the last write to the store.
#[derive(Default)]
pub(crate) struct ReportBuffer {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    tables: HashMap<Uuid, MetricsReportsRecord>,
    /// Length of all reports that were added since the buffer was last empty.
    bytes: usize,
}

impl ReportBuffer {
    /// Adds a report of `bytes` bytes, and keeps the newest `kept_max` reports of the table.
    /// Returns `false` if there is no room.
    pub(super) fn add(
        &self,
        id: Uuid,
        report: MetricsReport,
        bytes: usize,
        kept_max: usize,
    ) -> bool {
        let mut waiting = self.lock();
        if waiting.bytes.saturating_add(bytes) > BYTES_MAX {
            return false;
        }
        waiting.bytes += bytes;
        let later = MetricsReportsRecord { reports: [report].into() };
        waiting.tables.entry(id).or_default().add(later, kept_max);
        true
    }

    /// Returns the reports of a table that are not stored yet.
    pub(super) fn of(&self, id: Uuid) -> Option<MetricsReportsRecord> {
        self.lock().tables.get(&id).cloned()
    }

    /// Removes and returns all reports.
    pub(super) fn take(&self) -> Vec<(Uuid, MetricsReportsRecord)> {
        std::mem::take(&mut *self.lock()).tables.into_iter().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

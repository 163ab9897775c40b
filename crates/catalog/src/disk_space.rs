//! Warehouses whose disk is full. The metadata files of accepted changes wait for space, and new
//! changes are rejected.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::error::WAREHOUSE_FULL;
use super::{Error, Result};
use slateberg_objects as objects;
use slateberg_store::storage::full_gauge;
use slateberg_telemetry::collection::Collection;

/// The metadata files that wait for space, by warehouse. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct DiskSpace(Arc<Mutex<HashMap<Uuid, WaitingFiles>>>);

/// The metadata files of one warehouse that wait for space.
struct WaitingFiles {
    files: usize,
    reason: String,
}

/// Guard for a metadata file that waits for space. The file counts as waiting until the guard is
/// dropped.
pub(super) struct SpaceWait {
    space: DiskSpace,
    warehouse: Uuid,
}

impl DiskSpace {
    /// Updates `waiting` after an error of a metadata file, which waits for space if the disk of its
    /// warehouse is full.
    pub(super) fn report(
        &self,
        waiting: &mut Option<SpaceWait>,
        warehouse: Uuid,
        error: &objects::Error,
    ) {
        let is_full = matches!(error, objects::Error::Full { .. });
        let wait = || self.wait(warehouse, error.to_string());
        *waiting = is_full.then(|| waiting.take().unwrap_or_else(wait));
    }

    /// Records that a metadata file of a warehouse waits for space.
    fn wait(&self, warehouse: Uuid, reason: String) -> SpaceWait {
        let mut all = self.lock();
        let waiting = all.entry(warehouse).or_insert(WaitingFiles { files: 0, reason });
        waiting.files += 1;
        SpaceWait { space: self.clone(), warehouse }
    }

    /// Returns the reason why changes of at least one warehouse are rejected at present.
    pub(super) fn shortage(&self) -> Option<String> {
        (!self.lock().is_empty()).then(|| WAREHOUSE_FULL.to_owned())
    }

    /// Rejects a change that needs a metadata file while earlier files of its warehouse wait for
    /// space.
    pub(super) fn check(&self, warehouse: Uuid) -> Result<()> {
        match self.lock().get(&warehouse) {
            None => Ok(()),
            Some(waiting) => Err(Error::unavailable(WAREHOUSE_FULL, waiting.reason.as_str())),
        }
    }

    pub(super) fn collect(&self, into: &mut Collection) {
        full_gauge(into, "warehouse", !self.lock().is_empty());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, WaitingFiles>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SpaceWait {
    fn drop(&mut self) {
        let mut all = self.space.lock();
        if let Some(waiting) = all.get_mut(&self.warehouse) {
            waiting.files -= 1;
            if waiting.files == 0 {
                all.remove(&self.warehouse);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warehouse_is_full_until_its_last_file_is_written() {
        let (space, id) = (DiskSpace::default(), Uuid::nil());
        space.check(id).expect("no file waits");
        let (first, second) = (space.wait(id, "x".to_owned()), space.wait(id, "y".to_owned()));
        drop(first);
        assert!(matches!(space.check(id), Err(Error::Unavailable { .. })));
        space.check(Uuid::max()).expect("another warehouse has space");
        drop(second);
        space.check(id).expect("no file waits");
    }
}

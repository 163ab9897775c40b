//! Reads the new manifests of recently planned tables after a commit, so that the next plan finds
//! them in the cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::sleep;
use uuid::Uuid;

use super::request::{Scan, ScanRequest};
use super::table::PlannedTable;
use super::{Planning, PlanningParts};
use crate::Result;
use slateberg_base::error_chain::chain;
use slateberg_objects::manifest::NeededColumns;

/// Interval between two checks for commits. A table gets at most one read of its manifests in it.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time since the last plan of a table after which its manifests are no longer read.
const IDLE_MS: i64 = 10 * 60 * 1000;
/// Maximum number of tables. Plans of further tables are not followed.
const TABLES_MAX: usize = 100;
/// Maximum number of manifests that are read after a commit. A rewrite of all manifests would
/// otherwise evict those of other tables.
const MANIFESTS_MAX: usize = 64;

/// The tables that were planned recently.
#[derive(Default)]
pub(super) struct Warming(Mutex<State>);

#[derive(Default)]
struct State {
    tables: HashMap<Uuid, Followed>,
    is_running: bool,
}

/// A table that was planned recently.
#[derive(Clone)]
struct Followed {
    /// The version whose manifests were read last.
    version: u64,
    /// The columns whose statistics the last plan needed.
    needed: NeededColumns,
    planned_ms: i64,
}

impl Warming {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tables that were planned recently. Empty if there are none: the task that calls
    /// this function must then end.
    fn recent(&self, now_ms: i64) -> Vec<(Uuid, Followed)> {
        let mut state = self.lock();
        state.tables.retain(|_, table| now_ms - table.planned_ms <= IDLE_MS);
        state.is_running = !state.tables.is_empty();
        state.tables.iter().map(|(id, table)| (*id, table.clone())).collect()
    }

    fn set_version(&self, id: Uuid, version: u64) {
        if let Some(table) = self.lock().tables.get_mut(&id) {
            table.version = table.version.max(version);
        }
    }
}

impl Planning {
    /// Records that a scan of a table was planned, with the columns whose statistics it needed.
    pub(super) fn follow(&self, table: &PlannedTable, needed: NeededColumns) {
        let (id, version, planned_ms) = (table.record.id, table.record.version, self.core.now_ms());
        let mut state = self.warming.lock();
        if state.tables.len() >= TABLES_MAX && !state.tables.contains_key(&id) {
            return;
        }
        state.tables.insert(id, Followed { version, needed, planned_ms });
        if !state.is_running {
            state.is_running = true;
            tokio::spawn(keep_warm(Arc::downgrade(&self.0)));
        }
    }

    /// Reads those manifests of the current snapshot that are not cached. Returns the version of the
    /// table. `None` if the table was dropped, or if it is being changed.
    async fn warm(&self, id: Uuid, followed: &Followed) -> Result<Option<u64>> {
        let Some(table) = self.table_by_id(id, followed.version).await? else { return Ok(None) };
        let scan = Scan::bind(table.readable(), &ScanRequest::default())?;
        let (candidates, warehouse) =
            (self.candidates(&table, &scan).await?, table.record.warehouse);
        let mut new = candidates.data.clone();
        new.retain(|manifest| !self.manifests.has(warehouse, manifest, &followed.needed));
        new.truncate(MANIFESTS_MAX);
        self.read_all(warehouse, new, &followed.needed).await?;
        self.deletes(&table, &scan, &candidates).await?;
        Ok(Some(table.record.version))
    }
}

/// Warms the cache for recently planned tables, until there are none.
async fn keep_warm(parts: Weak<PlanningParts>) {
    loop {
        sleep(INTERVAL).await;
        let Some(planning) = parts.upgrade().map(Planning) else { return };
        let recent = planning.warming.recent(planning.core.now_ms());
        if recent.is_empty() {
            return;
        }
        for (id, followed) in recent {
            match planning.warm(id, &followed).await {
                Ok(None) => {}
                Ok(Some(version)) => planning.warming.set_version(id, version),
                // The next plan reports the error to its client.
                Err(error) => {
                    tracing::debug!(%id, error = chain(&error), "cannot read the manifests of a commit");
                }
            }
        }
    }
}

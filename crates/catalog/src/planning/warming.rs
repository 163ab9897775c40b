//! Reads the new manifests of recently planned tables after a commit, so that the next plan finds
//! them in the cache.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::sleep;
use uuid::Uuid;

use super::recently_planned::Followed;
use super::request::{Scan, ScanRequest};
use super::table::PlannedTable;
use super::{Planning, PlanningParts};
use crate::Result;
use slateberg_base::error_chain::chain;
use slateberg_objects::manifest::NeededColumns;

/// Interval between two checks for commits. A table gets at most one read of its manifests in it.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of manifests that are read after a commit. A rewrite of all manifests would
/// otherwise evict those of other tables.
const MANIFESTS_MAX: usize = 64;

impl Planning {
    /// Records that a scan of a table was planned, with the columns whose statistics it needed.
    pub(super) fn follow(&self, table: &PlannedTable, needed: NeededColumns) {
        let (id, version, planned_ms) = (table.record.id, table.record.version, self.core.now_ms());
        if self.recently_planned.add(id, Followed { version, needed, planned_ms }) {
            tokio::spawn(keep_warm(Arc::downgrade(&self.0)));
        }
    }

    /// Reads those manifests of the current snapshot that are not cached. Returns the version of the
    /// table. `None` if the table was dropped, or if it is being changed.
    async fn warm(&self, id: Uuid, followed: &Followed) -> Result<Option<u64>> {
        let Some(table) = self.table_by_id(id, followed.version).await? else { return Ok(None) };
        let scan = Arc::new(Scan::bind(table.readable(), &ScanRequest::default())?);
        let (candidates, warehouse) =
            (self.candidates(&table, &scan).await?, table.record.warehouse);
        let mut new = candidates.data.clone();
        new.retain(|manifest| !self.shared.manifests.has(warehouse, manifest, &followed.needed));
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
        let recent = planning.recently_planned.all(planning.core.now_ms());
        if recent.is_empty() {
            return;
        }
        for (id, followed) in recent {
            match planning.warm(id, &followed).await {
                Ok(None) => {}
                Ok(Some(version)) => planning.recently_planned.set_version(id, version),
                // The next plan reports the error to its client.
                Err(error) => {
                    tracing::debug!(%id, error = chain(&error), "cannot read the manifests of a commit");
                }
            }
        }
    }
}

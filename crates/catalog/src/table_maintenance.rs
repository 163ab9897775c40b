//! [`TableMaintenance`]: expires snapshots, rewrites manifests and removes orphans of tables on a
//! schedule.
//!
//! There are two reasons to maintain a table. A **hot** table has had many commits since its last
//! maintenance, so it is due at once. All other tables are visited one after the other, at a bounded
//! rate and during a window of the day. The maintenance derives the work from the metadata of the
//! table. So a restart loses nothing but the order of the visits.
//!
//! A visit also starts a search for the orphans of the table, at most once in a period. The search is
//! a job. A record contains the time of the last search, and whether a dry run has reported the
//! orphans: only the searches after this dry run delete files.
//!
//! Each change is a commit by the background task `maintenance`, with an entry in the change log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::core::Core;
use crate::jobs::Jobs;
use crate::maintenance_settings::{
    EXPIRE_SNAPSHOTS, MIN_COUNT_PROPERTY, MaintainedTables, OrphanRemoval, REWRITE_MANIFESTS,
    effective,
};
use crate::operation::Context;
use crate::tabular::Tabulars;
use crate::tabular::head::Head;
use crate::{Error, Operation, RequestContext, Result, lookup};
use slateberg_base::boxed;
use slateberg_base::error_chain::chain;
use slateberg_model::expiry::{Expiry, ExpiryRequest, GC_PROPERTY};
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::principal::{MAINTENANCE_TASK, Principal};
use slateberg_model::table::TableMetadata;
use slateberg_store::jobs::OrphanSearch;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{Key, OrphanSearchKey, TabularKey};
use slateberg_store::read::{KeyRange, StoreRead};

/// The default of [`MIN_COUNT_PROPERTY`].
const MIN_COUNT: usize = 100;
/// Shortest interval between the starts of two passes over all tables, in milliseconds.
const PASS_INTERVAL_MS: i64 = 60 * 60 * 1000;
/// Pause of the task if it has nothing to do.
const IDLE: Duration = Duration::from_secs(60);

/// The position in the current pass over all tables.
#[derive(Default)]
struct Pass {
    /// The last visited table. `None` at the beginning.
    after: Option<Vec<u8>>,
    /// Earliest time of the next visit.
    next_visit_ms: i64,
    begun_ms: i64,
}

/// A table, at the beginning of its maintenance.
struct MaintainedTable {
    cx: RequestContext,
    ident: TabularIdent,
    head: Head<TableMetadata>,
    /// The properties that decide about the maintenance.
    properties: BTreeMap<String, String>,
}

impl MaintainedTable {
    fn may_delete_files(&self) -> bool {
        let gc = self.head.metadata.properties.get(GC_PROPERTY);
        gc.is_none_or(|value| !value.eq_ignore_ascii_case("false"))
    }
}

/// Maintains tables. Cheap to clone.
#[derive(Clone)]
pub struct TableMaintenance {
    core: Arc<Core>,
    tabulars: Tabulars,
    jobs: Jobs,
    pass: Arc<Mutex<Pass>>,
}

impl TableMaintenance {
    pub(crate) fn new(core: &Arc<Core>, tabulars: &Tabulars, jobs: &Jobs) -> Self {
        let (core, tabulars, jobs) = (Arc::clone(core), tabulars.clone(), jobs.clone());
        Self { core, tabulars, jobs, pass: Arc::default() }
    }

    /// Whether the server maintains any tables.
    pub fn is_enabled(&self) -> bool {
        self.core.settings().maintenance != MaintainedTables::Off
    }

    /// Waits until a table may be due.
    #[boxed]
    pub async fn wait_until_due(&self) {
        let pause = Duration::from_millis(u64::try_from(self.visit_interval_ms()).unwrap_or(1));
        let hot = self.tabulars.commit_counts.wait_for_hot_table();
        let _ = tokio::time::timeout(pause.min(IDLE), hot).await;
    }

    /// Maintains the hot tables, and visits the next table of the pass if it is due. Returns the
    /// number of changed tables.
    #[boxed]
    pub async fn run_due(&self) -> Result<usize> {
        let mut changed = 0;
        for table in self.tabulars.commit_counts.take_hot() {
            changed += usize::from(self.maintain_or_log(table, false).await);
        }
        if let Some(table) = self.next_visit().await? {
            changed += usize::from(self.maintain_or_log(table, true).await);
        }
        Ok(changed)
    }

    fn visit_interval_ms(&self) -> i64 {
        let rate = self.core.settings().maintenance_tables_per_minute.max(1);
        60_000 / i64::from(rate)
    }

    /// Returns the next table of the pass, if its visit is due.
    async fn next_visit(&self) -> Result<Option<Uuid>> {
        let now_ms = self.core.now_ms();
        if !self.is_enabled() || !self.core.settings().maintenance_window().includes(now_ms) {
            return Ok(None);
        }
        let after = {
            let mut pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = pass.after.is_none();
            let rests = is_first && now_ms < pass.begun_ms.saturating_add(PASS_INTERVAL_MS);
            if now_ms < pass.next_visit_ms || rests && pass.begun_ms > 0 {
                return Ok(None);
            }
            if is_first {
                pass.begun_ms = now_ms;
            }
            pass.next_visit_ms = now_ms.saturating_add(self.visit_interval_ms());
            pass.after.clone()
        };
        let range = KeyRange::all(KeySpace::Tabulars).behind(after);
        let next = self.core.store().durable().scan::<TabularKey>(&range, Some(1)).await?.pop();
        let mut pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
        pass.after = next.as_ref().map(|(key, _)| key.encode());
        Ok(next.map(|(key, _)| key.0))
    }

    /// Maintains a table, and logs a failure. Returns whether the table has changed. Only a visit
    /// searches for orphans.
    async fn maintain_or_log(&self, table: Uuid, is_visit: bool) -> bool {
        match self.maintain(table, is_visit).await {
            Ok(changed) => changed,
            Err(Error::Invalid(reason)) => {
                tracing::debug!(%table, reason, "a table cannot be maintained");
                false
            }
            Err(error) => {
                tracing::warn!(%table, error = chain(&error), "maintenance of a table failed");
                false
            }
        }
    }

    async fn maintain(&self, id: Uuid, is_visit: bool) -> Result<bool> {
        let store = self.core.store().latest();
        let Some(record) = store.get(&TabularKey(id)).await? else { return Ok(false) };
        let Some(warehouse) = self.core.warehouses().by_id(record.warehouse) else {
            return Ok(false);
        };
        if record.kind != TabularKind::Table {
            return Ok(false);
        }
        let ident = lookup::ident_of(&store, &record).await?;
        let Some(head) = self.core.environment.head::<TableMetadata>(&store, id).await? else {
            return Ok(false);
        };
        let operation = Operation::by(Principal::Task(MAINTENANCE_TASK), Context::default());
        let cx = RequestContext { operation, warehouse };
        let inherited =
            self.core.inherited_maintenance(&store, &cx.warehouse, &ident.namespace).await?;
        let properties = effective([&inherited, &head.metadata.properties].into_iter());
        let tables = self.core.settings().maintenance;
        let table = MaintainedTable { cx, ident, head, properties };
        let rewritten = if tables.includes(REWRITE_MANIFESTS, &table.properties) {
            self.rewrite_manifests(&table).await
        } else {
            Ok(false)
        };
        // Snapshots expire even if the manifests cannot be rewritten.
        let expires = tables.includes(EXPIRE_SNAPSHOTS, &table.properties);
        let expired = expires && self.expire_snapshots(&table).await?;
        if is_visit {
            self.search_for_orphans(&table, id).await?;
        }
        Ok(rewritten? || expired)
    }

    async fn rewrite_manifests(&self, table: &MaintainedTable) -> Result<bool> {
        let min_count = table.properties.get(MIN_COUNT_PROPERTY);
        let min_count = min_count.and_then(|text| text.parse().ok()).unwrap_or(MIN_COUNT);
        if self.tabulars.possible_rewrite(&table.head).await?.replaced < min_count.max(2) {
            return Ok(false);
        }
        let rewritten = self.tabulars.rewrite_table(&table.cx, table.ident.clone()).await?;
        Ok(rewritten.snapshot_id.is_some())
    }

    async fn expire_snapshots(&self, table: &MaintainedTable) -> Result<bool> {
        if !table.may_delete_files() {
            return Ok(false);
        }
        let (retention, metadata) = (ExpiryRequest::default(), &table.head.metadata);
        let now_ms = self.core.now_ms();
        if Expiry::of(metadata, retention, &table.properties, now_ms)?.is_empty() {
            return Ok(false);
        }
        let expired = self.tabulars.expire_table(&table.cx, table.ident.clone(), retention).await?;
        Ok(!expired.snapshots.is_empty())
    }

    /// Starts a search for the orphans of a table if one is due.
    async fn search_for_orphans(&self, table: &MaintainedTable, id: Uuid) -> Result<()> {
        let removal = self.core.settings().maintenance.orphan_removal(&table.properties);
        let deletes_files = self.core.environment.deletes_files() && table.may_delete_files();
        if removal == OrphanRemoval::Off || !deletes_files {
            return Ok(());
        }
        let last = self.core.store().latest().get(&OrphanSearchKey(id)).await?;
        let now_ms = self.core.now_ms();
        let period_ms = self.core.settings().maintenance_orphans_seconds.saturating_mul(1000);
        let period_ms = i64::try_from(period_ms).unwrap_or(i64::MAX);
        if last.is_some_and(|last| now_ms < last.at_ms.saturating_add(period_ms)) {
            return Ok(());
        }
        let reported = last.is_some_and(|last| last.reported);
        let dry_run = removal == OrphanRemoval::Report || !reported;
        let search = (dry_run, OrphanSearch { at_ms: now_ms, reported });
        match self.jobs.start_scheduled_search(&table.cx, &table.ident, search).await {
            Ok(_) => Ok(()),
            // A caller has started a search, or another table has the same location.
            Err(Error::Conflict(conflict)) => {
                let reason = conflict.to_string();
                tracing::debug!(table = %id, reason, "a search for orphans was not started");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

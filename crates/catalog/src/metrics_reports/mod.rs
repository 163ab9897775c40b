//! [`MetricsReports`]: the newest metrics reports of each table, as clients sent them.
//!
//! A report waits in memory ([`buffer`]). A background task writes the reports to the store once a
//! minute. After a crash, the reports of the last minute are missing.

pub(crate) mod buffer;

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::core::Core;
use super::lookup;
use super::tabular::Tabulars;
use super::tabular::target::Target;
use crate::resource_lookup::VISIBILITY_ACTIONS;
use crate::{Error, Operation, RequestContext, Result};
use slateberg_authz::action::{Action, ReadHistory, ReportMetrics};
use slateberg_authz::authority::Decider;
use slateberg_authz::notation;
use slateberg_authz::permit::{Permit, Task};
use slateberg_authz::resource::{Node, Resource};
use slateberg_base::boxed;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_store::keys::{MetricsReportsKey, TabularKey};
pub use slateberg_store::metrics_reports::MetricsReport;
use slateberg_store::metrics_reports::MetricsReportsRecord;
use slateberg_store::read::StoreRead;
use slateberg_telemetry::collection::{Collection, attributes};
use slateberg_telemetry::counters::Counter;

/// Maximum length of a report that is kept, in bytes of JSON.
const REPORT_BYTES_MAX: usize = 32 << 10;
/// Number of records that one transaction writes.
const BATCH_RECORDS_MAX: usize = 100;

/// The metrics reports of clients. Cheap to clone.
#[derive(Clone)]
pub struct MetricsReports {
    core: Arc<Core>,
    tabulars: Tabulars,
    counters: Arc<ReportCounters>,
}

/// The kind of a metrics report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportType {
    /// The metrics of a scan that a client has planned.
    Scan,
    /// The metrics of a commit.
    Commit,
}

impl ReportType {
    const ALL: [Self; 2] = [Self::Scan, Self::Commit];

    /// Returns the `report-type` of the specification.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scan => "scan-report",
            Self::Commit => "commit-report",
        }
    }

    /// Returns the type with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// The kept reports of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableReports {
    /// The table, such as `table:prod/sales/orders`.
    pub resource: String,
    /// The reports, the newest first.
    pub reports: Vec<MetricsReport>,
}

/// Counts of the reports that clients sent.
#[derive(Default)]
struct ReportCounters {
    scans: Counter,
    commits: Counter,
    discarded: Counter,
}

impl MetricsReports {
    pub(crate) fn new(core: &Arc<Core>, tabulars: &Tabulars) -> Self {
        let counters = Arc::default();
        Self { core: Arc::clone(core), tabulars: tabulars.clone(), counters }
    }

    /// Accepts a report, the specification's `ReportMetricsRequest`. The table must exist.
    #[boxed]
    pub async fn receive(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        report_type: ReportType,
        report: Value,
    ) -> Result<()> {
        let target = Target { warehouse: &cx.warehouse, kind: TabularKind::Table, ident };
        let id = self.tabulars.existing::<ReportMetrics>(&cx.operation, target).await?;
        match report_type {
            ReportType::Scan => self.counters.scans.add(1),
            ReportType::Commit => self.counters.commits.add(1),
        }
        let kept_max = self.core.settings().metrics_reports_kept_max;
        if kept_max == 0 {
            return Ok(());
        }
        let bytes = report.to_string().len();
        let principal = &cx.operation.principal;
        let name = principal.name().map(ToOwned::to_owned);
        let principal = principal.id().to_owned();
        let report = MetricsReport { at_ms: self.core.now_ms(), principal, name, report };
        let buffer = &self.core.environment.metrics_reports;
        if bytes > REPORT_BYTES_MAX || !buffer.add(id, report, bytes, kept_max) {
            self.counters.discarded.add(1);
        }
        Ok(())
    }

    /// Returns the kept reports of a table, or those of one type. The caller needs `ReadHistory` on
    /// the table, because a report contains the filter of the client.
    #[boxed]
    pub async fn of(
        &self,
        operation: &Operation,
        resource: &str,
        only: Option<ReportType>,
    ) -> Result<TableReports> {
        let access = &self.core.access;
        let (cx, ident) =
            self.core.table_named(operation, resource, "Views have no metrics reports")?;
        let (warehouse, kind) = (&cx.warehouse, TabularKind::Table);
        self.core.environment.check_findable(kind, &ident)?;
        if let Some(hidden) = access.hidden_warehouse(operation, &warehouse.name) {
            return Err(hidden);
        }
        let inside = Resource::warehouse(&warehouse.name).namespace(&ident.namespace);
        let resource = inside.tabular(kind, Node::named(&ident.name));
        let text = notation::resource_text(&resource);
        let actions = [&VISIBILITY_ACTIONS[..], &[ReadHistory::NAME]].concat();
        let described = access.described(resource, &actions).await?;
        let _permit: Permit<ReadHistory> = match access.ask(operation)? {
            Decider::Unrestricted(unrestricted) => unrestricted.permit(),
            Decider::Policies(asking) => access.permit_named(operation, &asking, &described)?,
        };
        let store = self.core.store().durable();
        let Some(id) = lookup::tabular_id(&store, warehouse.id, kind, &ident).await? else {
            return Err(access.missing(&described).unwrap_or_else(|| Error::no_such(kind, &ident)));
        };
        let mut record = store.get(&MetricsReportsKey(id)).await?.unwrap_or_default();
        if let Some(later) = self.core.environment.metrics_reports.of(id) {
            record.add(later, self.core.settings().metrics_reports_kept_max);
        }
        let mut reports: Vec<_> = record.reports.into_iter().rev().collect();
        if let Some(only) = only {
            reports.retain(|it| it.report["report-type"].as_str() == Some(only.as_str()));
        }
        Ok(TableReports { resource: text, reports })
    }

    /// Writes the reports that wait to the store. Returns the number of records. After an error,
    /// those reports that were not written are lost.
    #[boxed]
    pub(crate) async fn store(&self) -> Result<usize> {
        let waiting = self.core.environment.metrics_reports.take();
        for batch in waiting.chunks(BATCH_RECORDS_MAX) {
            self.store_batch(batch).await?;
        }
        Ok(waiting.len())
    }

    async fn store_batch(&self, batch: &[(Uuid, MetricsReportsRecord)]) -> Result<()> {
        let permit = Permit::for_task(Task::MetricsReports);
        let kept_max = self.core.settings().metrics_reports_kept_max;
        let ((), accepted) = self
            .core
            .store()
            .transact("store_metrics_reports", &permit, |t| async move {
                let store = self.core.store().latest();
                for (id, later) in batch {
                    // A removal also deletes the record of the reports, so that it conflicts with
                    // this transaction. This read is not a part of the transaction, because commits
                    // to the table must not conflict with it.
                    if store.get(&TabularKey(*id)).await?.is_none() {
                        continue;
                    }
                    let key = MetricsReportsKey(*id);
                    let mut record = t.get(&key).await?.unwrap_or_default();
                    record.add(later.clone(), kept_max);
                    t.put(&key, &record)?;
                }
                Ok::<_, Error>(())
            })
            .await?;
        Ok(accepted.durable().await?)
    }

    pub(crate) fn collect(&self, into: &mut Collection) {
        let ReportCounters { scans, commits, discarded } = &*self.counters;
        let help = "Metrics reports that clients sent.";
        for (kind, counter) in [(ReportType::Scan, scans), (ReportType::Commit, commits)] {
            let series = attributes([("report.type", kind.as_str())]);
            into.counter("slateberg.metrics.reports", "{report}", help, series, counter.get());
        }
        let help = "Metrics reports that the server did not keep, because they were too long or \
                    too many.";
        let count = discarded.get();
        into.counter("slateberg.metrics.reports_discarded", "{report}", help, Vec::new(), count);
    }
}

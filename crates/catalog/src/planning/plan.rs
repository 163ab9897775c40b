//! The operations of scan planning.

use super::evaluation::Pruned;
use super::files::PlannedFiles;
use super::report::ScanReport;
use super::request::{Scan, ScanRequest};
use super::table::PlannedTable;
use super::token::{Token, TokenKind};
use super::{PlanResult, Planning, ScanPlan};
use crate::error::MissingResource;
use crate::usage::counters::Use;
use crate::{Error, Operation, RequestContext, Result};
use slateberg_base::boxed;
use slateberg_model::ident::TabularIdent;
use slateberg_model::warehouse::Delegation;

impl Planning {
    /// Plans a scan.
    #[boxed]
    pub async fn plan(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        request: &ScanRequest,
        wanted: Option<&[Delegation]>,
    ) -> Result<ScanPlan> {
        let table = self.table(cx, ident).await?;
        let _slot = self.compute.admit(&cx.operation).await?;
        let scan = Scan::bind(table.readable(), request)?;
        self.core.count_use(table.record.id, Use::Scan, &cx.operation);
        self.complete(cx, ident, table, scan, wanted).await
    }

    /// Returns the result of a plan. The plan id contains the request, which is planned again.
    #[boxed]
    pub async fn plan_result(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        plan_id: &str,
        wanted: Option<&[Delegation]>,
    ) -> Result<PlanResult> {
        let table = self.table(cx, ident).await?;
        let missing = || no_such_plan(plan_id);
        let (token, nonce) = self.plan_token(&table, plan_id)?;
        if self.long_requests.is_cancelled(nonce) {
            return Ok(PlanResult::Cancelled);
        }
        let _slot = self.compute.admit(&cx.operation).await?;
        let request = self.long_requests.request(&token).ok_or_else(missing)?;
        let scan = Scan::of_token(table.readable(), &token, request).ok_or_else(missing)?;
        let plan = self.complete(cx, ident, table, scan, wanted).await?;
        Ok(PlanResult::Completed(Box::new(plan)))
    }

    /// Cancels a plan. There is no work to stop, so this only records the cancellation.
    #[boxed]
    pub async fn cancel_plan(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        plan_id: &str,
    ) -> Result<()> {
        let table = self.table(cx, ident).await?;
        let (_, nonce) = self.plan_token(&table, plan_id)?;
        self.long_requests.cancel(nonce);
        Ok(())
    }

    /// Returns the files of a plan task.
    #[boxed]
    pub async fn scan_tasks(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        plan_task: &str,
    ) -> Result<PlannedFiles> {
        let table = self.table(cx, ident).await?;
        let missing = || Error::NotFound(MissingResource::PlanTask(plan_task.to_owned()));
        let token = Token::parse(plan_task, table.record.id).ok_or_else(missing)?;
        let TokenKind::Task(range) = token.kind else { return Err(missing()) };
        let _slot = self.compute.admit(&cx.operation).await?;
        let request = self.long_requests.request(&token).ok_or_else(missing)?;
        let scan = Scan::of_token(table.readable(), &token, request).ok_or_else(missing)?;
        let prepared = self.prepare(table, scan).await?;
        let mut files = prepared.no_files();
        self.evaluate(&prepared, range, &mut files, Pruned::Ignored).await?;
        Ok(files)
    }

    /// Evaluates a whole scan of a table with a name such as `table:prod/sales/orders`. Returns a
    /// report of the files that the scan reads, and of those that it skips.
    #[boxed]
    pub async fn explain_scan(
        &self,
        operation: &Operation,
        resource: &str,
        request: &ScanRequest,
    ) -> Result<ScanReport> {
        let (cx, ident) = self.table_named(operation, resource)?;
        let table = self.table_with_all_files(&cx, &ident).await?;
        let _slot = self.compute.admit(operation).await?;
        let scan = Scan::bind(table.readable(), request)?;
        let prepared = self.prepare(table, scan).await?;
        let mut report = prepared.candidates.report();
        for range in prepared.candidates.ranges(&prepared.scan) {
            let mut files = prepared.no_files();
            self.evaluate(&prepared, range, &mut files, Pruned::Counted).await?;
            report.add(&files);
        }
        Ok(report)
    }

    /// Returns the warehouse and the name of a table such as `table:prod/sales/orders`.
    pub(super) fn table_named(
        &self,
        operation: &Operation,
        resource: &str,
    ) -> Result<(RequestContext, TabularIdent)> {
        self.core.table_named(operation, resource, "Views have no files to scan")
    }

    /// Renders files on the threads of plans.
    #[boxed]
    pub async fn render<T: Send + 'static>(
        &self,
        render: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.compute.run(render).await
    }

    fn plan_token(&self, table: &PlannedTable, plan_id: &str) -> Result<(Token, u64)> {
        let missing = || no_such_plan(plan_id);
        let token = Token::parse(plan_id, table.record.id).ok_or_else(missing)?;
        match token.kind {
            TokenKind::Plan(nonce) => Ok((token, nonce)),
            TokenKind::Task(_) => Err(missing()),
        }
    }

    /// Plans a scan that is bound to its table.
    async fn complete(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        table: PlannedTable,
        scan: Scan,
        wanted: Option<&[Delegation]>,
    ) -> Result<ScanPlan> {
        let delegated = self.read_access(cx, ident, &table, wanted).await?;
        let prepared = self.prepare(table, scan).await?;
        self.follow(&prepared.table, prepared.needed_columns());
        let scan = &prepared.scan;
        let (id, table) = (self.core.ids().random(), prepared.table.record.id);
        let bound_to = (scan.selection, scan.schema.schema_id());
        let tokens = self.long_requests.tokens((table, id), bound_to, &scan.body);
        let (files, rest) = self.evaluate_inline(&prepared).await?;
        let plan_tasks = rest.into_iter().map(|range| tokens.task(range)).collect();
        Ok(ScanPlan { id: tokens.plan(), files, plan_tasks, delegated })
    }
}

fn no_such_plan(plan_id: &str) -> Error {
    Error::NotFound(MissingResource::Plan(plan_id.to_owned()))
}

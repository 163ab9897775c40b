//! The operations of scan planning.

use bytes::Bytes;
use tokio::time::timeout;

use super::compute::Slot;
use super::evaluation::Pruned;
use super::files::PlannedFiles;
use super::report::ScanReport;
use super::request::{Scan, ScanRequest};
use super::submitted::{EvaluatedPlan, PlanInputs};
use super::table::PlannedTable;
use super::token::{RequestBody, Token, TokenKind, Tokens};
use super::{PlanResult, Planning, ScanPlan};
use crate::error::MissingResource;
use crate::usage::counters::Use;
use crate::{Error, Operation, RequestContext, Result};
use slateberg_base::boxed;
use slateberg_model::ident::TabularIdent;
use slateberg_model::warehouse::Delegation;

impl Planning {
    /// Plans a scan. If the plan is not complete after `catalog.plan_wait_ms`, returns its id, unless
    /// the client waits.
    #[boxed]
    pub async fn plan(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        request: &ScanRequest,
        wanted: Option<&[Delegation]>,
    ) -> Result<PlanResult> {
        let table = self.table(cx, ident).await?;
        let slot = self.shared.compute.admit(&cx.operation).await?;
        let scan = Scan::bind(table.readable(), request)?;
        self.core.count_use(table.record.id, Use::Scan, &cx.operation);
        let tokens = self.tokens(&table, &scan)?;
        let id = tokens.plan();
        if request.client_waits {
            let evaluated = self.evaluate_plan(table.clone(), (scan, tokens), slot).await?;
            return self.completed((cx, ident), &table, (id, evaluated), wanted).await;
        }
        let (key, inputs) = (tokens.key(), inputs(&table, &scan));
        let mut plan = Box::pin(self.evaluate_plan(table.clone(), (scan, tokens), slot));
        match timeout(self.core.settings().plan_wait(), &mut plan).await {
            Ok(plan) => self.completed((cx, ident), &table, (id, plan?), wanted).await,
            Err(_) => {
                self.shared.submitted.submit(key, inputs, plan);
                Ok(PlanResult::Submitted(id))
            }
        }
    }

    /// Returns the result of a plan. The plan id contains the request, which is planned again if
    /// this process does not know the plan.
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
        if self.shared.long_requests.is_cancelled(nonce) {
            return Ok(PlanResult::Cancelled);
        }
        let request = self.request_of(&token)?.ok_or_else(missing)?;
        let scan = Scan::of_token(table.readable(), &token, request).ok_or_else(missing)?;
        let tokens = Tokens::of_plan(table.record.id, token, nonce);
        let (key, inputs) = (tokens.key(), inputs(&table, &scan));
        let pending = match self.shared.submitted.find(key, &inputs) {
            Some(pending) => pending,
            None => {
                let slot = self.shared.compute.admit(&cx.operation).await?;
                let plan = self.evaluate_plan(table.clone(), (scan, tokens), slot);
                self.shared.submitted.submit(key, inputs, Box::pin(plan))
            }
        };
        let id = plan_id.to_owned();
        match pending.result(self.core.settings().plan_wait()).await {
            Some(plan) => self.completed((cx, ident), &table, (id, plan?), wanted).await,
            None if self.shared.long_requests.is_cancelled(nonce) => Ok(PlanResult::Cancelled),
            None => Ok(PlanResult::Submitted(id)),
        }
    }

    /// Cancels a plan, and stops the work on it.
    #[boxed]
    pub async fn cancel_plan(
        &self,
        cx: &RequestContext,
        ident: &TabularIdent,
        plan_id: &str,
    ) -> Result<()> {
        let table = self.table(cx, ident).await?;
        let (_, nonce) = self.plan_token(&table, plan_id)?;
        self.shared.long_requests.cancel(nonce);
        self.shared.submitted.cancel((table.record.id, nonce));
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
        let _slot = self.shared.compute.admit(&cx.operation).await?;
        let request = self.request_of(&token)?.ok_or_else(missing)?;
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
        let _slot = self.shared.compute.admit(operation).await?;
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

    /// Renders the response with these files on the threads of plans. The response counts towards
    /// `catalog.plan_bytes_max` until it is dropped.
    pub async fn render(
        &self,
        files: PlannedFiles,
        render: impl FnOnce(&PlannedFiles) -> Vec<u8> + Send + 'static,
    ) -> Result<Bytes> {
        let bytes_expected = files.response_bytes();
        self.shared.compute.render(bytes_expected, move || render(&files)).await
    }

    fn plan_token(&self, table: &PlannedTable, plan_id: &str) -> Result<(Token, u64)> {
        let missing = || no_such_plan(plan_id);
        let token = Token::parse(plan_id, table.record.id).ok_or_else(missing)?;
        match token.kind {
            TokenKind::Plan(nonce) => Ok((token, nonce)),
            TokenKind::Task(_) => Err(missing()),
        }
    }

    /// Returns new tokens for a scan that is bound to its table. The members of a cluster look for
    /// long requests at the writer, so a replica stores none.
    fn tokens(&self, table: &PlannedTable, scan: &Scan) -> Result<Tokens> {
        let (id, may_store) = (self.core.ids().random(), !self.core.store().is_replica());
        let bound_to = (scan.selection, scan.schema.schema_id());
        let key = (table.record.id, id);
        let tokens = self.shared.long_requests.tokens(key, bound_to, &scan.body, may_store);
        tokens.ok_or_else(at_the_writer)
    }

    /// Returns the request of a token. `None` if it was stored and is no longer there.
    fn request_of(&self, token: &Token) -> Result<Option<RequestBody>> {
        let request = self.shared.long_requests.request(token);
        if request.is_none() && self.core.store().is_replica() {
            return Err(at_the_writer());
        }
        Ok(request)
    }

    /// Plans a scan that is bound to its table.
    fn evaluate_plan(
        &self,
        table: PlannedTable,
        (scan, tokens): (Scan, Tokens),
        slot: Slot,
    ) -> impl Future<Output = Result<EvaluatedPlan>> + Send + 'static {
        let planning = self.clone();
        async move {
            let _slot = slot;
            let prepared = planning.prepare(table, scan).await?;
            planning.follow(&prepared.table, prepared.needed.clone());
            let (files, rest) = planning.evaluate_inline(prepared).await?;
            let plan_tasks = rest.into_iter().map(|range| tokens.task(range)).collect();
            Ok(EvaluatedPlan { files, plan_tasks })
        }
    }

    /// Returns a complete plan with access to its files.
    async fn completed(
        &self,
        (cx, ident): (&RequestContext, &TabularIdent),
        table: &PlannedTable,
        (id, plan): (String, EvaluatedPlan),
        wanted: Option<&[Delegation]>,
    ) -> Result<PlanResult> {
        let delegated = self.read_access(cx, ident, table, wanted).await?;
        let EvaluatedPlan { files, plan_tasks } = plan;
        Ok(PlanResult::Completed(Box::new(ScanPlan { id, files, plan_tasks, delegated })))
    }
}

/// Returns the values that determine the files of a scan.
fn inputs(table: &PlannedTable, scan: &Scan) -> PlanInputs {
    PlanInputs {
        snapshots: scan.snapshots.clone(),
        schema_id: scan.schema.schema_id(),
        filter: scan.filter.clone(),
        statistics: scan.statistics.clone(),
        rows: table.rows.clone(),
        own_locations: table.own_locations.clone(),
    }
}

/// A replica cannot execute the request.
fn at_the_writer() -> Error {
    Error::unavailable("The writer of the cluster has to plan this scan", "the request is long")
}

fn no_such_plan(plan_id: &str) -> Error {
    Error::NotFound(MissingResource::Plan(plan_id.to_owned()))
}

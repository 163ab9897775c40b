//! Transactions: atomic commits to several tables. If a table rebases appends, an append in a
//! transaction is rebased like a commit to one table, and other changes get a turn.

use std::collections::HashSet;

use futures::future::join_all;
use tokio::time::Instant;
use uuid::Uuid;

use super::append::Rebase;
use super::append::prepared::PreparedRebase;
use super::apply::{apply, grant_turn};
use super::builder::CommitBuilder;
use super::change::{Change, CommitRequest, TRANSACTION};
use super::commit::COMMIT_ATTEMPTS_MAX;
use super::metadata::{TabularMetadata, UpdateSummary};
use super::state::NewVersion;
use crate::pipeline::Write;
use crate::pipeline::response::TransactionResponse;
use crate::tabular::Tabulars;
use crate::usage::counters::Use;
use crate::{Error, RequestContext, Result, lookup};
use slateberg_authz::action::Commit;
use slateberg_authz::permit::Permit;
use slateberg_base::boxed;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::table::TableMetadata;
use slateberg_model::warehouse::Warehouse;
use slateberg_telemetry::commits::CommitPhase;

type TableChange = Change<TableMetadata>;

/// A commit that was evaluated and can be written.
struct EvaluatedCommit {
    permit: Permit<Commit>,
    ident: TabularIdent,
    /// The version to write. `None` if the commit has no effect on the table.
    new: Option<NewVersion>,
    /// The updates of the commit.
    updates: UpdateSummary,
}

/// A change in a transaction.
struct Part<'a> {
    change: &'a TableChange,
    /// The table. `None` if the change creates it.
    id: Option<Uuid>,
    /// `None` if the table does not rebase appends.
    rebase: Option<&'a PreparedRebase>,
}

impl Part<'_> {
    /// The table, if it rebases appends and this change is an append.
    fn id_of_append(&self) -> Option<Uuid> {
        self.id.filter(|_| self.rebase.is_some_and(PreparedRebase::is_append))
    }

    /// The table, if it rebases appends and this change is not an append.
    fn id_of_other(&self) -> Option<Uuid> {
        self.id.filter(|_| self.rebase.is_some_and(|rebase| !rebase.is_append()))
    }
}

impl Tabulars {
    /// Changes several tables atomically.
    #[boxed]
    pub async fn commit_transaction(
        &self,
        cx: &RequestContext,
        changes: Vec<TableChange>,
    ) -> Result<()> {
        let commit = |tabulars: Self, cx: RequestContext| async move {
            tabulars.check_changes(&changes)?;
            match &changes[..] {
                // Some clients, such as DuckDB, send every append as a transaction over one table.
                // Such a transaction is committed like a commit to one table: together with the
                // other commits that wait for the table (its group).
                [change] if !change.creates() => {
                    let request = CommitRequest::Transaction;
                    let state = tabulars.commit_one(&cx, change, request).await?;
                    tabulars.core.count_use(state.id, Use::Commit, &cx.operation);
                    Ok(TransactionResponse { publications: Vec::new() })
                }
                changes => {
                    let committed = tabulars.commit_all(&cx, changes).await?;
                    for publication in &committed.publications {
                        tabulars.core.count_use(publication.id, Use::Commit, &cx.operation);
                    }
                    Ok(committed)
                }
            }
        };
        self.core.commit(TRANSACTION, self, cx, commit).await.map(|_| ())
    }

    async fn commit_all(
        &self,
        cx: &RequestContext,
        changes: &[TableChange],
    ) -> Result<TransactionResponse> {
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let arrived = Instant::now();
            self.permit_changes(cx, changes).await?;
            let ids = self.ids_of(&cx.warehouse, changes).await?;
            let mut rebases = Vec::with_capacity(changes.len());
            for (change, id) in changes.iter().zip(&ids) {
                rebases.push(match id {
                    Some(id) => {
                        TableMetadata::prepare_rebase(
                            self,
                            cx,
                            *id,
                            change,
                            &CommitRequest::Transaction,
                        )
                        .await?
                    }
                    None => None,
                });
            }
            let mut parts = Vec::with_capacity(changes.len());
            for ((change, id), rebase) in changes.iter().zip(&ids).zip(&rebases) {
                parts.push(Part { change, id: *id, rebase: rebase.as_deref() });
            }
            let held: Vec<_> = parts.iter().filter_map(Part::id_of_append).collect();
            join_all(held.into_iter().map(|id| self.turns.wait(id))).await;
            let committed = self.commit_parts(cx, changes, &parts).await;
            for id in parts.iter().filter_map(Part::id_of_other) {
                self.turns.end(id, cx.operation.principal.id(), arrived);
            }
            if let Some(response) = committed? {
                return Ok(response);
            }
        }
        Err(Error::unavailable(
            "Gave up after repeated conflicts: the tables are changed concurrently. Retry later",
            TRANSACTION.as_str(),
        ))
    }

    /// Commits all changes. Returns `None` if they must be evaluated again.
    async fn commit_parts(
        &self,
        cx: &RequestContext,
        changes: &[TableChange],
        parts: &[Part<'_>],
    ) -> Result<Option<TransactionResponse>> {
        let waiting = self.core.pipeline().phase(CommitPhase::Wait);
        let existing = parts.iter().filter_map(|part| part.id).collect();
        let lanes = self.core.pipeline().lanes.enter(existing).await?;
        drop(waiting);
        let evaluating = self.core.pipeline().phase(CommitPhase::Evaluate);
        let Some(planned) = self.plan_all(cx, changes, parts).await? else { return Ok(None) };
        drop(evaluating);
        let planned = &planned;
        let [EvaluatedCommit { permit, .. }, ..] = &planned[..] else { return Ok(None) };
        let new = || planned.iter().filter_map(|plan| plan.new.as_ref());
        // Also enters the lanes of created tables, because other requests can find these tables as
        // soon as they are written. Until then, no other request knows their ids. So their lanes are
        // free, and entering them late cannot cause a deadlock.
        let created = new().filter(|new| new.before.is_none()).map(|new| new.record.id);
        let lanes = lanes.and(self.core.pipeline().lanes.enter(created.collect()).await?);
        let versions = new().map(NewVersion::file).collect();
        let write = Write { action: TRANSACTION, permit, lanes, versions };
        let committed = self.core.pipeline().commit_if_current(write, |t| async move {
            for EvaluatedCommit { ident, new, .. } in planned {
                if let Some(new) = new
                    && !self.write_version(&t, ident, new).await?
                {
                    return Ok(None);
                }
            }
            let entries =
                planned.iter().filter_map(|EvaluatedCommit { permit, ident, new, updates }| {
                    let new = new.as_ref()?;
                    Some(new.entry(TRANSACTION, ident, permit, updates.clone()))
                });
            let done = TransactionResponse { publications: new().map(NewVersion::key).collect() };
            let records = self.core.pipeline().records_of_all(&cx.operation, entries, &done)?;
            Ok(Some((done, records)))
        });
        let Some(committed) = committed.await? else { return Ok(None) };
        if new().any(|new| !new.outdated.is_empty()) {
            self.jobs.announce_jobs();
        }
        Ok(Some(committed.value))
    }

    /// Evaluates all changes in their lanes. Returns `None` if a table was renamed or dropped, or if
    /// a change must be prepared again.
    async fn plan_all(
        &self,
        cx: &RequestContext,
        changes: &[TableChange],
        parts: &[Part<'_>],
    ) -> Result<Option<Vec<EvaluatedCommit>>> {
        let permits = self.permit_changes(cx, changes).await?;
        let mut planned = Vec::with_capacity(parts.len());
        for (position, (part, permit)) in parts.iter().zip(permits).enumerate() {
            match self.plan(cx, part, permit).await {
                Ok(Some(plan)) => planned.push(plan),
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.grant_turns(cx, parts.get(position + 1..).unwrap_or_default()).await;
                    return Err(error);
                }
            }
        }
        Ok(Some(planned))
    }

    async fn plan(
        &self,
        cx: &RequestContext,
        part: &Part<'_>,
        permit: Permit<Commit>,
    ) -> Result<Option<EvaluatedCommit>> {
        let change = part.change;
        let new = match part.id {
            None => Some(self.plan_new(cx, change.clone()).await?),
            Some(id) => {
                let store = self.core.store().latest();
                let (kind, ident) = (TabularKind::Table, &change.ident);
                let named = lookup::tabular_id(&store, cx.warehouse.id, kind, ident).await?;
                let head = self.core.environment.head::<TableMetadata>(&store, id).await?;
                let Some(head) = head.filter(|_| named == Some(id)) else { return Ok(None) };
                let mut builder = CommitBuilder::new(self, &cx.warehouse, &head);
                let applied = apply(&mut builder, &cx.operation, change, part.rebase).await?;
                if applied.is_none() {
                    return Ok(None);
                }
                builder.finish().1
            }
        };
        let (ident, updates) = (change.ident.clone(), TableMetadata::summarize(&change.updates));
        Ok(Some(EvaluatedCommit { permit, ident, new, updates }))
    }

    /// Grants turns for those changes that have lost against appends. The transaction is rejected
    /// because of an earlier change, but its next attempt needs all turns at once.
    async fn grant_turns(&self, cx: &RequestContext, parts: &[Part<'_>]) {
        let store = self.core.store().latest();
        for part in parts {
            let Some(id) = part.id_of_other() else { continue };
            // Without its turn, the next attempt may fail. That is no reason for another error now.
            let Ok(Some(head)) = self.core.environment.head::<TableMetadata>(&store, id).await
            else {
                continue;
            };
            grant_turn(self, &cx.operation, id, (part.change, &*head.metadata));
        }
    }

    /// Returns the permits for all changes. Must be called before any requirement is checked.
    /// Otherwise, the error for one table could disclose something about another table.
    async fn permit_changes(
        &self,
        cx: &RequestContext,
        changes: &[TableChange],
    ) -> Result<Vec<Permit<Commit>>> {
        let mut permits = Vec::with_capacity(changes.len());
        for change in changes {
            permits.push(self.permit_change(cx, change).await?);
        }
        Ok(permits)
    }

    fn check_changes(&self, changes: &[TableChange]) -> Result<()> {
        let tables_max = self.core.settings().transaction_tables_max;
        if changes.is_empty() {
            return Err(Error::Invalid("Invalid table changes: empty".to_owned()));
        }
        if changes.len() > tables_max {
            return Err(Error::Invalid(format!(
                "Invalid table changes: {} tables, at most {tables_max} are allowed",
                changes.len()
            )));
        }
        let mut seen = HashSet::new();
        for change in changes {
            if !seen.insert(&change.ident) {
                return Err(Error::Invalid(format!(
                    "Invalid table changes: {} occurs more than once",
                    brief(&change.ident)
                )));
            }
        }
        Ok(())
    }

    /// Returns the ids of the changed tables. An id is `None` if the change creates the table.
    async fn ids_of(
        &self,
        warehouse: &Warehouse,
        changes: &[TableChange],
    ) -> Result<Vec<Option<Uuid>>> {
        let mut ids = Vec::with_capacity(changes.len());
        for change in changes {
            ids.push(self.id_of(warehouse, change).await?);
        }
        Ok(ids)
    }
}

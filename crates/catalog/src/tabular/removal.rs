//! Removes tables and views from the catalog.

use uuid::Uuid;

use super::metadata::TabularMetadata;
use super::state::name_key;
use super::target::Target;
use crate::changed::removed;
use crate::jobs::table_of;
use crate::location_index::{mark_index_entries, put_index_entries};
use crate::lookup::{self, FoundTabular};
use crate::permits::WithPermit;
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::pipeline::response::Response;
use crate::protections::check_unprotected;
use crate::tabular::Tabulars;
use crate::{Error, Operation, RequestContext, Result};
use slateberg_authz::action::{Action, Drop, Purge, PurgeNow};
use slateberg_authz::authority::PrincipalDecider;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::Resource;
use slateberg_model::ident::TabularIdent;
use slateberg_store::dropped::DroppedTabular;
use slateberg_store::jobs::JobWork;
use slateberg_store::keys::{DroppedKey, TabularKey};
use slateberg_store::records::ChangeAction;
use slateberg_store::txn::Transaction;

/// A request that removes a table or view from the catalog.
pub(crate) struct Removal<R> {
    /// Kind of the change, such as `drop_table`.
    pub(crate) action: ChangeAction,
    /// The name of the table or view.
    pub(crate) ident: TabularIdent,
    /// Whether the table or view can be restored until its retention ends.
    pub(crate) retained: bool,
    /// The id of the background job that deletes the files. `None` if the files stay.
    pub(crate) purge: Option<Uuid>,
    /// Builds the response from the last state.
    pub(crate) respond: fn(FoundTabular) -> R,
}

/// Treatment of the records and files of a removed table or view.
#[derive(Clone, Copy)]
pub(super) enum Ending {
    /// The table or view can be restored until its retention ends. If `purge`, its files are
    /// deleted then. `with` is the id of the drop of a namespace that also drops this table or view.
    Retain { purge: bool, at_ms: i64, with: Option<Uuid> },
    /// The background job with this id deletes the files.
    Purge(Uuid),
    /// The records are deleted, and the files stay.
    Forget,
}

impl Tabulars {
    /// Removes a table or view from the catalog.
    pub(crate) async fn remove_tabular<M: TabularMetadata, R: Response>(
        &self,
        cx: &RequestContext,
        removal: Removal<R>,
    ) -> Result<R> {
        let remove = |tabulars: Self, cx: RequestContext| async move {
            tabulars.remove_once::<M, R>(&cx, &removal).await
        };
        self.core.mutate(self, cx, remove).await
    }

    async fn remove_once<M: TabularMetadata, R: Response>(
        &self,
        cx: &RequestContext,
        removal: &Removal<R>,
    ) -> Result<R> {
        let Removal { ident, retained, purge, respond, .. } = removal;
        let kind = M::KIND;
        self.core.environment.check_findable(kind, ident)?;
        let target = Target { warehouse: &cx.warehouse, kind, ident };
        self.permit_removal(&cx.operation, target, purge.is_some()).await?;
        let store = self.core.store().latest();
        let id = lookup::tabular_id(&store, cx.warehouse.id, kind, ident)
            .await?
            .ok_or_else(|| Error::no_such(kind, ident))?;
        if purge.is_some() {
            self.core.environment.check_deletion("Cannot purge", "drop the table without purge")?;
        }
        let lanes = self.core.pipeline().lanes.enter(vec![id]).await?;
        let (permit, at_once) =
            &self.permit_removal(&cx.operation, target, purge.is_some()).await?;
        let end = match purge {
            Some(job) if *at_once => Ending::Purge(*job),
            purge if *retained && self.core.dropped_kept_ms(cx.warehouse.id) > 0 => {
                let at_ms = self.core.now_ms();
                Ending::Retain { purge: purge.is_some(), at_ms, with: None }
            }
            Some(job) => Ending::Purge(*job),
            None => Ending::Forget,
        };
        let write = Write { action: removal.action, permit, lanes, versions: Vec::new() };
        let removed = self.core.pipeline().commit(write, |t| async move {
            let found = self.delete_tabular(&t, &cx.operation, target, (id, end)).await?;
            let entry = Entry {
                action: removal.action,
                warehouse: cx.warehouse.id,
                subject: id,
                name: ident,
                versions: (Some(found.record.version), None),
                decision: permit.decision(),
                resource: Some(removed(&found.record, &ident.namespace)),
            };
            let response = respond(found);
            let records = self.core.pipeline().records(&cx.operation, Some(entry), &response)?;
            Ok((response, records))
        });
        let response = removed.await?;
        if purge.is_some() {
            self.jobs.announce_jobs();
        }
        Ok(response)
    }

    /// Deletes the records of a table or view in a transaction, and returns its last state.
    pub(super) async fn delete_tabular(
        &self,
        t: &Transaction,
        operation: &Operation,
        target: Target<'_>,
        (id, end): (Uuid, Ending),
    ) -> Result<FoundTabular> {
        let Target { warehouse, kind, ident } = target;
        if lookup::tabular_id(t, warehouse.id, kind, ident).await? != Some(id) {
            return Err(Error::no_such(kind, ident));
        }
        let found = lookup::tabular_by_id(t, id)
            .await?
            .ok_or_else(|| Error::internal(format!("{id} has a name but no record")))?;
        check_unprotected(t, id, "drop").await?;
        t.delete(&name_key(&found.record, kind))?;
        t.delete(&TabularKey(id))?;
        if let Ending::Retain { purge, at_ms, with } = end {
            let dropped = DroppedTabular {
                record: found.record.clone(),
                namespace: ident.namespace.0.clone(),
                dropped_ms: at_ms,
                dropped_by: operation.principal.id().to_owned(),
                purge,
                dropped_with: with,
            };
            t.put(&DroppedKey(id), &dropped)?;
            mark_index_entries(t, &found.record, true)?;
            return Ok(found);
        }
        put_index_entries(t, Some(&found.record), None)?;
        match end {
            Ending::Purge(job) => {
                let metadata_location = found.record.metadata_location.clone();
                let work = JobWork::ReachableFrom { id, metadata_location };
                let table = table_of(&found.record, Some((warehouse, ident)));
                let by = Some(operation.principal.id().to_owned());
                self.jobs.put_job(t, job, warehouse.id, work, table, by)?;
            }
            Ending::Retain { .. } | Ending::Forget => t.delete_document(id).await?,
        }
        Ok(found)
    }

    /// Returns the permit to remove a table or view. For a purge, also checks the permission to
    /// delete the files, and returns whether they may be deleted at once.
    async fn permit_removal(
        &self,
        operation: &Operation,
        target: Target<'_>,
        purge: bool,
    ) -> Result<(Permit<Drop>, bool)> {
        let (store, access) = (self.core.store().latest(), &self.core.access);
        let mut at_once = false;
        if purge {
            let may = |asking: &PrincipalDecider<'_>, resource: &Resource, _: &Permit<Purge>| {
                asking.may::<PurgeNow>(resource)
            };
            let now = [PurgeNow::NAME];
            let with_permit: WithPermit<Purge, bool> =
                access.permit_tabular_and(&store, operation, target, &now, may).await?;
            at_once = with_permit.besides.unwrap_or(true);
        }
        Ok((access.permit_tabular(&store, operation, target).await?, at_once))
    }
}

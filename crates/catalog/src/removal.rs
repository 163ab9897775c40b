//! Taking a table or view out of the catalog.

use uuid::Uuid;

use super::change_log::Entry;
use super::jobs::table_of;
use super::lookup::{self, Found};
use super::permits::Target;
use super::places::put_whereabouts;
use super::publications::Landing;
use super::tabulars::name_key;
use super::{Catalog, Error, Operation, Result};
use slateberg_authz::action::{Drop, Purge};
use slateberg_authz::permit::Permit;
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::jobs::Work;
use slateberg_store::keys::TabularKey;
use slateberg_store::records::Outcome;

/// A table or view that leaves the catalog.
#[derive(Clone, Copy)]
pub struct Removal<'a> {
    /// The transaction's name.
    pub action: &'static str,
    /// Table or view.
    pub kind: TabularKind,
    /// Which.
    pub ident: &'a TabularIdent,
    /// The id of the background job that deletes the files too. `None`: the files stay.
    pub purge: Option<Uuid>,
    /// What its `Idempotency-Key` remembers.
    pub outcome: fn(&Found) -> Outcome,
}

impl Catalog {
    /// The permits to take a table or view out of the catalog, and its files too if it is purged.
    async fn permit_removal(
        &self,
        operation: &Operation,
        target: Target<'_>,
        purge: bool,
    ) -> Result<Permit<Drop>> {
        let store = self.store().latest();
        if purge {
            let _permit: Permit<Purge> = self.permit_tabular(&store, operation, target).await?;
        }
        self.permit_tabular(&store, operation, target).await
    }

    /// Takes a table or view out of the catalog, and answers what it was.
    pub(super) async fn remove(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        removal: Removal<'_>,
    ) -> Result<Found> {
        let Removal { action, kind, ident, purge, outcome } = removal;
        self.check_findable(kind, ident)?;
        let target = Target { warehouse, kind, ident };
        self.permit_removal(operation, target, purge.is_some()).await?;
        let store = self.store().latest();
        let id = lookup::tabular_id(&store, warehouse.id, kind, ident)
            .await?
            .ok_or_else(|| Error::no_such(kind, ident))?;
        if purge.is_some() {
            self.refuse_deletion("Cannot purge", "drop the table without purge")?;
        }
        let lanes = self.inner.lanes.enter(vec![id]).await?;
        let permit = &self.permit_removal(operation, target, purge.is_some()).await?;
        let catalog = self;
        let (found, accepted) = self
            .store()
            .transact(action, permit, |t| async move {
                let named = lookup::tabular_id(&*t, warehouse.id, kind, ident).await?;
                if named != Some(id) {
                    return Err(Error::no_such(kind, ident));
                }
                let found = lookup::tabular_by_id(&*t, id)
                    .await?
                    .ok_or_else(|| Error::internal(format!("{id} has a name and no record")))?;
                t.delete(&name_key(&found.record, kind))?;
                t.delete(&TabularKey(id))?;
                put_whereabouts(&t, Some(&found.record), None)?;
                if let Some(job) = purge {
                    let metadata_location = found.record.metadata_location.clone();
                    let work = Work::ReachableFrom { id, metadata_location };
                    let table = table_of(&found.record, Some((warehouse, ident)));
                    let by = Some(operation.principal.id().to_owned());
                    catalog.put_job(&t, job, warehouse.id, work, table, by)?;
                } else {
                    t.delete_document(id).await?;
                }
                catalog.log_change(
                    &t,
                    operation,
                    &Entry {
                        action,
                        warehouse: warehouse.id,
                        subject: id,
                        name: ident,
                        versions: (Some(found.record.version), None),
                        decision: permit.decision(),
                    },
                )?;
                catalog.remember(&t, operation, outcome(&found))?;
                Ok(found)
            })
            .await?;
        let flight = self.inner.flights.register(Vec::new());
        let (files, trace) = (Vec::new(), operation.trace.clone());
        self.land(Landing { accepted, files, flight, lanes, trace }).await?;
        if purge.is_some() {
            self.inner.jobs.announce();
        }
        Ok(found)
    }
}

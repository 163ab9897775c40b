//! Giving a table or view another name.

use uuid::Uuid;

use super::change_log::Entry;
use super::lookup;
use super::mutation::Answer;
use super::permits::Target;
use super::publications::Landing;
use super::tabulars::name_key;
use super::{Catalog, Error, Operation, Result};
use slateberg_authz::action::{Create, Rename};
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Node, Resource};
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::invariants;
use slateberg_store::keys::TabularKey;
use slateberg_store::read::Read;
use slateberg_store::records::{NameEntry, Outcome, TabularRecord};
use slateberg_store::txn::Transaction;

impl Catalog {
    /// Gives a table or view another name, in the same namespace or another.
    pub(super) async fn rename(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        kind: TabularKind,
        source: &TabularIdent,
        destination: &TabularIdent,
    ) -> Result<Answer> {
        self.check_findable(kind, source)?;
        self.check_name(destination)?;
        let target = Target { warehouse, kind, ident: source };
        self.permit_rename(operation, target, destination).await?;
        let store = self.store().latest();
        let id = lookup::tabular_id(&store, warehouse.id, kind, source)
            .await?
            .ok_or_else(|| Error::no_such(kind, source))?;
        let lanes = self.inner.lanes.enter(vec![id]).await?;
        let permit = &self.permit_rename(operation, target, destination).await?;
        let catalog = self;
        let action = match kind {
            TabularKind::Table => "rename_table",
            TabularKind::View => "rename_view",
        };
        let ((), accepted) = self
            .store()
            .transact(action, permit, |t| async move {
                let named = lookup::tabular_id(&*t, warehouse.id, kind, source).await?;
                if named != Some(id) {
                    return Err(Error::no_such(kind, source));
                }
                if source != destination {
                    catalog.move_name(&t, operation, permit, action, id, destination).await?;
                }
                catalog.remember(&t, operation, Outcome::Done)
            })
            .await?;
        let flight = self.inner.flights.register(Vec::new());
        let (files, trace) = (Vec::new(), operation.trace.clone());
        self.land(Landing { accepted, files, flight, lanes, trace }).await?;
        Ok(Answer::Done)
    }

    /// The permits to give a table or view another name: `Rename` where it is, `Create` where it goes.
    async fn permit_rename(
        &self,
        operation: &Operation,
        target: Target<'_>,
        destination: &TabularIdent,
    ) -> Result<Permit<Rename>> {
        let Target { warehouse, kind, ident } = target;
        let store = self.store().latest();
        let permit = self.permit_tabular(&store, operation, target).await?;
        let Some(id) = lookup::tabular_id(&store, warehouse.id, kind, ident).await? else {
            return Err(Error::no_such(kind, ident));
        };
        let attributes = self.attributes_for::<Create>(&store, operation, kind, id).await?;
        let node = Node::known(&destination.name, attributes);
        let parent = Some(&destination.namespace);
        let new = |inside: Resource| inside.tabular(kind, node);
        let create = self.permit_new::<Create>(&store, operation, warehouse, parent, new);
        let _permit = create.await?;
        Ok(permit)
    }

    async fn move_name(
        &self,
        t: &Transaction,
        operation: &Operation,
        permit: &Permit<Rename>,
        action: &'static str,
        id: Uuid,
        destination: &TabularIdent,
    ) -> Result<()> {
        let before = t
            .get(&TabularKey(id))
            .await?
            .ok_or_else(|| Error::internal(format!("{id} has a name and no record")))?;
        let warehouse = before.warehouse;
        let namespace = lookup::namespace(t, warehouse, &destination.namespace).await?;
        let after = TabularRecord {
            namespace: namespace.id,
            name: destination.name.clone(),
            ..before.clone()
        };
        for kind in [after.kind.other(), after.kind] {
            if t.get(&name_key(&after, kind)).await?.is_some() {
                let from = lookup::ident_of(t, &before).await?;
                let kind = kind.title();
                return Err(Error::AlreadyExists(format!(
                    "Cannot rename {from} to {destination}. {kind} already exists"
                )));
            }
        }
        invariants::tabular_change(Some(&before), &after).map_err(Error::internal)?;
        t.delete(&name_key(&before, before.kind))?;
        t.put(&name_key(&after, after.kind), &NameEntry { id })?;
        t.put(&TabularKey(id), &after)?;
        self.log_change(
            t,
            operation,
            &Entry {
                action,
                warehouse,
                subject: id,
                name: destination,
                versions: (Some(before.version), Some(after.version)),
                decision: permit.decision(),
            },
        )
    }
}

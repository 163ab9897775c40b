//! Renaming tables and views.

use uuid::Uuid;

use super::metadata::TabularMetadata;
use super::state::name_key;
use super::target::Target;
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::{Catalog, Error, Operation, Result, lookup};
use slateberg_authz::action::{Create, Rename};
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Node, Resource};
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::invariants;
use slateberg_store::keys::TabularKey;
use slateberg_store::read::Read;
use slateberg_store::records::{NameEntry, TabularRecord};
use slateberg_store::txn::Transaction;

impl Catalog {
    /// Gives a table or view another name, in the same namespace or another.
    pub(crate) async fn rename_tabular<M: TabularMetadata>(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        source: TabularIdent,
        destination: TabularIdent,
    ) -> Result<()> {
        let warehouse = warehouse.clone();
        let rename = |catalog: Self, operation: Operation| async move {
            let target = Target { warehouse: &warehouse, kind: M::KIND, ident: &source };
            catalog.rename_once(&operation, target, &destination).await
        };
        self.mutate(operation, rename).await
    }

    async fn rename_once(
        &self,
        operation: &Operation,
        target: Target<'_>,
        destination: &TabularIdent,
    ) -> Result<()> {
        let Target { warehouse, kind, ident: source } = target;
        self.check_findable(kind, source)?;
        self.check_name(destination)?;
        self.permit_rename(operation, target, destination).await?;
        let store = self.store().latest();
        let id = lookup::tabular_id(&store, warehouse.id, kind, source)
            .await?
            .ok_or_else(|| Error::no_such(kind, source))?;
        let lanes = self.pipeline().lanes.enter(vec![id]).await?;
        let permit = &self.permit_rename(operation, target, destination).await?;
        let action = match kind {
            TabularKind::Table => "rename_table",
            TabularKind::View => "rename_view",
        };
        let write = Write { action, permit, lanes, versions: Vec::new() };
        let renamed = self.pipeline().commit(write, |t| async move {
            let named = lookup::tabular_id(&*t, warehouse.id, kind, source).await?;
            if named != Some(id) {
                return Err(Error::no_such(kind, source));
            }
            let entry = if source == destination {
                None
            } else {
                let version = move_name(&t, id, destination).await?;
                Some(Entry {
                    action,
                    warehouse: warehouse.id,
                    subject: id,
                    name: destination,
                    versions: (Some(version), Some(version)),
                    decision: permit.decision(),
                })
            };
            Ok(((), self.pipeline().records(operation, entry, &())?))
        });
        renamed.await
    }

    /// Returns the permit to rename a table or view: `Rename` at its source, and `Create` at its destination.
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
}

/// Moves the name of a table or view in a transaction, and returns the version of its record.
async fn move_name(t: &Transaction, id: Uuid, destination: &TabularIdent) -> Result<u64> {
    let before = t
        .get(&TabularKey(id))
        .await?
        .ok_or_else(|| Error::internal(format!("{id} has a name and no record")))?;
    let namespace = lookup::namespace(t, before.warehouse, &destination.namespace).await?;
    let after =
        TabularRecord { namespace: namespace.id, name: destination.name.clone(), ..before.clone() };
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
    Ok(after.version)
}

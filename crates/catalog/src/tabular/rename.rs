//! Renames tables and views.

use uuid::Uuid;

use super::metadata::TabularMetadata;
use super::state::name_key;
use super::target::Target;
use crate::changed::renamed;
use crate::error::NameConflict;
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::protections::check_unprotected;
use crate::tabular::Tabulars;
use crate::{Error, RequestContext, Result, lookup};
use slateberg_authz::action::{Create, Rename};
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Node, Resource};
use slateberg_model::ident::{TabularIdent, TabularKind};
use slateberg_store::invariants;
use slateberg_store::keys::TabularKey;
use slateberg_store::read::StoreRead;
use slateberg_store::records::{ChangeAction, NameEntry, TabularRecord};
use slateberg_store::txn::Transaction;

impl Tabulars {
    /// Renames a table or view within its namespace, or moves it to another namespace.
    pub(crate) async fn rename_tabular<M: TabularMetadata>(
        &self,
        cx: &RequestContext,
        source: TabularIdent,
        destination: TabularIdent,
    ) -> Result<()> {
        let rename = |tabulars: Self, cx: RequestContext| async move {
            tabulars.rename_once(&cx, M::KIND, &source, &destination).await
        };
        self.core.mutate(self, cx, rename).await
    }

    async fn rename_once(
        &self,
        cx: &RequestContext,
        kind: TabularKind,
        source: &TabularIdent,
        destination: &TabularIdent,
    ) -> Result<()> {
        let warehouse = &cx.warehouse;
        self.core.environment.check_findable(kind, source)?;
        self.core.environment.check_name(destination)?;
        self.permit_rename(cx, kind, source, destination).await?;
        let store = self.core.store().latest();
        let id = lookup::tabular_id(&store, warehouse.id, kind, source)
            .await?
            .ok_or_else(|| Error::no_such(kind, source))?;
        let lanes = self.core.pipeline().lanes.enter(vec![id]).await?;
        let permit = &self.permit_rename(cx, kind, source, destination).await?;
        let action = match kind {
            TabularKind::Table => ChangeAction::RenameTable,
            TabularKind::View => ChangeAction::RenameView,
        };
        let write = Write { action, permit, lanes, versions: Vec::new() };
        let renamed = self.core.pipeline().commit(write, |t| async move {
            let named = lookup::tabular_id(&*t, warehouse.id, kind, source).await?;
            if named != Some(id) {
                return Err(Error::no_such(kind, source));
            }
            let entry = if source == destination {
                None
            } else {
                check_unprotected(&*t, id, "rename").await?;
                let record = move_name(&t, id, destination).await?;
                Some(Entry {
                    action,
                    warehouse: warehouse.id,
                    subject: id,
                    name: destination,
                    versions: (Some(record.version), Some(record.version)),
                    decision: permit.decision(),
                    resource: Some(renamed(&record, &destination.namespace, source)),
                })
            };
            Ok(((), self.core.pipeline().records(&cx.operation, entry, &())?))
        });
        renamed.await
    }

    /// Returns the permit to rename a table or view. Requires `Rename` on the old name and `Create`
    /// on the new name.
    async fn permit_rename(
        &self,
        cx: &RequestContext,
        kind: TabularKind,
        source: &TabularIdent,
        destination: &TabularIdent,
    ) -> Result<Permit<Rename>> {
        let RequestContext { operation, warehouse } = cx;
        let target = Target { warehouse, kind, ident: source };
        let store = self.core.store().latest();
        let permit = self.core.access.permit_tabular(&store, operation, target).await?;
        let Some(id) = lookup::tabular_id(&store, warehouse.id, kind, source).await? else {
            return Err(Error::no_such(kind, source));
        };
        let attributes =
            self.core.access.attributes_for::<Create>(&store, operation, kind, id).await?;
        let node = Node::known(&destination.name, attributes);
        let parent = Some(&destination.namespace);
        let new = |inside: Resource| inside.tabular(kind, node);
        let create = self.core.access.permit_new::<Create>(&store, cx, parent, new);
        let _permit = create.await?;
        Ok(permit)
    }
}

/// Moves the name of a table or view in a transaction, and returns its record.
async fn move_name(t: &Transaction, id: Uuid, destination: &TabularIdent) -> Result<TabularRecord> {
    let before = t
        .get(&TabularKey(id))
        .await?
        .ok_or_else(|| Error::internal(format!("{id} has a name but no record")))?;
    let namespace = lookup::namespace(t, before.warehouse, &destination.namespace).await?;
    let after =
        TabularRecord { namespace: namespace.id, name: destination.name.clone(), ..before.clone() };
    for kind in [after.kind.other(), after.kind] {
        if t.get(&name_key(&after, kind)).await?.is_some() {
            let from = lookup::ident_of(t, &before).await?;
            let (from, to) = (Box::new(from), Box::new(destination.clone()));
            return Err(Error::AlreadyExists(NameConflict::Rename { from, to, taken_by: kind }));
        }
    }
    invariants::tabular_change(Some(&before), &after).map_err(Error::internal)?;
    t.delete(&name_key(&before, before.kind))?;
    t.put(&name_key(&after, after.kind), &NameEntry { id })?;
    t.put(&TabularKey(id), &after)?;
    Ok(after)
}

//! Restores dropped tables and views. The module
//! [`undrop_namespace`](super::undrop_namespace) restores namespaces.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{BATCH, FoundDropped, no_such_dropped};
use crate::changed::changed_tabular;
use crate::error::{Kind, StateConflict};
use crate::location_index::mark_index_entries;
use crate::overlaps::FileLocations;
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::pipeline::response::Body;
use crate::tabular::Tabulars;
use crate::tabular::state::name_key;
use crate::tabular::target::Creation;
use crate::{Error, Operation, RequestContext, Result, lookup};
use slateberg_authz::action::{Create, Undrop};
use slateberg_authz::notation;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Kind as ResourceKind, Node, Resource};
use slateberg_base::boxed;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::dropped::DroppedTabular;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{DroppedKey, DroppedNamespaceKey, Key, NamespaceKey, TabularKey};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::{ChangeAction, ChangedResource};
use slateberg_store::records::{NameEntry, TabularRecord};
use slateberg_store::txn::Transaction;

/// A request to restore a dropped namespace, table or view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndropRequest {
    /// The former name, such as `table:prod/sales/orders`.
    pub resource: String,
    /// The id of the namespace, table or view. `None` for the one that was dropped last under this
    /// name.
    pub id: Option<Uuid>,
    /// The new name, in the same notation and the same warehouse. `None` for the former name.
    pub new_name: Option<String>,
}

/// A restored namespace, table or view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndropResult {
    /// The id of the namespace, table or view.
    pub id: Uuid,
    /// The name, such as `table:prod/sales/orders`.
    pub resource: String,
    /// The location of the metadata file. `None` for a namespace.
    pub metadata_location: Option<String>,
    /// The names of all restored resources, beginning with `resource`. Stored responses of earlier
    /// versions do not contain this field.
    #[serde(default)]
    pub restored: Vec<String>,
}

impl Tabulars {
    /// Restores a dropped namespace, table or view, under its former name or another one. A
    /// namespace is restored with everything that was dropped with it.
    #[boxed]
    pub async fn undrop(
        &self,
        operation: &Operation,
        request: UndropRequest,
    ) -> Result<UndropResult> {
        let undrop = |tabulars: Self, operation: Operation| async move {
            let undropped = match notation::resource(&request.resource)?.kind() {
                ResourceKind::Namespace => {
                    tabulars.undrop_namespace_once(&operation, &request).await
                }
                _ => tabulars.undrop_once(&operation, &request).await,
            };
            undropped.map(Body)
        };
        let Body(undropped) = self.core.mutate(self, operation, undrop).await?;
        Ok(undropped)
    }

    async fn undrop_once(
        &self,
        operation: &Operation,
        request: &UndropRequest,
    ) -> Result<UndropResult> {
        let found = self.find_dropped(request).await?;
        let found = found.ok_or_else(|| no_such_dropped(&request.resource))?;
        let permit: &Permit<Undrop> =
            &self.permit_dropped(operation, &found.resource, &request.resource)?;
        let FoundDropped { dropped, warehouse, .. } = found;
        let cx = &RequestContext { operation: operation.clone(), warehouse };
        let record = &dropped.record;
        let ident = &self.destination(cx, &dropped, request).await?;
        let id = record.id;
        let action = match record.kind {
            TabularKind::Table => ChangeAction::UndropTable,
            TabularKind::View => ChangeAction::UndropView,
        };
        let lanes = self.core.pipeline().lanes.enter(vec![id]).await?;
        let write = Write { action, permit, lanes, versions: Vec::new() };
        let warehouse = &*cx.warehouse;
        let undropped = self.core.pipeline().commit(write, |t| async move {
            // Another request may have removed the record, or the retention may have ended.
            let dropped = t.get(&DroppedKey(id)).await?;
            let dropped = dropped.ok_or_else(|| no_such_dropped(&request.resource))?;
            let record = self.put_undropped(&t, warehouse, ident, dropped).await?;
            let inside = Resource::warehouse(&warehouse.name).namespace(&ident.namespace);
            let resource = inside.tabular(record.kind, Node::named(&ident.name));
            let resource = notation::resource_text(&resource);
            let undropped = UndropResult {
                id,
                restored: vec![resource.clone()],
                resource,
                metadata_location: Some(record.metadata_location.clone()),
            };
            let entry = Entry {
                action,
                warehouse: warehouse.id,
                subject: id,
                name: ident,
                versions: (None, Some(record.version)),
                decision: permit.decision(),
                resource: Some(ChangedResource {
                    metadata_after: Some(record.metadata_location.clone()),
                    ..changed_tabular(&record, &ident.namespace)
                }),
            };
            let response = Body(undropped.clone());
            let records = self.core.pipeline().records(operation, Some(entry), &response)?;
            Ok((undropped, records))
        });
        undropped.await
    }

    /// Writes the records of a restored table or view, and returns its record.
    async fn put_undropped(
        &self,
        t: &Transaction,
        warehouse: &Warehouse,
        ident: &TabularIdent,
        dropped: DroppedTabular,
    ) -> Result<TabularRecord> {
        let is_former = *ident == dropped.ident();
        let former = is_former.then_some(dropped.record.namespace);
        let namespace = existing_namespace(t, warehouse, &ident.namespace, former).await?;
        let record = TabularRecord { namespace, name: ident.name.clone(), ..dropped.record };
        for kind in [record.kind, record.kind.other()] {
            if t.get(&name_key(&record, kind)).await?.is_some() {
                return Err(Error::taken(record.kind, kind, ident));
            }
        }
        let locations = FileLocations::by(None, &record);
        match self.core.environment.check_locations_free(t, locations).await {
            Err(error) if error.kind() == Kind::Invalid => {
                let location = record.location;
                return Err(Error::Conflict(StateConflict::UndropLocation(location)));
            }
            checked => checked?,
        }
        t.delete(&DroppedKey(record.id))?;
        t.put(&name_key(&record, record.kind), &NameEntry { id: record.id })?;
        t.put(&TabularKey(record.id), &record)?;
        mark_index_entries(t, &record, false)?;
        Ok(record)
    }

    /// Returns the name of the restored table or view. If the request has a new name, first checks
    /// the permission to create a table or view with that name.
    async fn destination(
        &self,
        cx: &RequestContext,
        dropped: &DroppedTabular,
        request: &UndropRequest,
    ) -> Result<TabularIdent> {
        let Some(new_name) = &request.new_name else { return Ok(dropped.ident()) };
        let (name, kind, ident) = self.core.access.tabular_named(new_name)?;
        let record = &dropped.record;
        if kind != record.kind || name != cx.warehouse.name {
            return Err(Error::Invalid(format!(
                "Invalid new name: expected a {} in the warehouse {}",
                record.kind.name(),
                cx.warehouse.name
            )));
        }
        if ident != dropped.ident() {
            let attributes = self.attributes_of_dropped(record).await?;
            let (properties, location) = (&attributes.properties, Some(&record.location));
            let creation = Creation { kind, ident: &ident, properties, location };
            let _permit: Permit<Create> = self.core.access.permit_creation(cx, creation).await?;
        }
        Ok(ident)
    }

    /// Returns the dropped table or view of a request. `None` if it does not exist.
    async fn find_dropped(&self, request: &UndropRequest) -> Result<Option<FoundDropped>> {
        let (name, kind, ident) = self.core.access.tabular_named(&request.resource)?;
        let Ok(warehouse) = self.core.warehouses().by_prefix(Some(&name)) else { return Ok(None) };
        let store = self.core.store().latest();
        let is_meant = |dropped: &DroppedTabular| {
            let record = &dropped.record;
            request.id.is_none_or(|id| id == record.id)
                && (record.warehouse, record.kind) == (warehouse.id, kind)
                && dropped.ident() == ident
        };
        let mut newest: Option<DroppedTabular> = None;
        let mut range = KeyRange::all(KeySpace::Dropped);
        loop {
            let batch = store.scan::<DroppedKey>(&range, Some(BATCH)).await?;
            let Some((last, _)) = batch.last() else { break };
            range = range.behind(Some(last.encode()));
            for (_, dropped) in batch {
                let is_newer =
                    newest.as_ref().is_none_or(|newest| newest.dropped_ms < dropped.dropped_ms);
                if is_newer && is_meant(&dropped) {
                    newest = Some(dropped);
                }
            }
        }
        match newest {
            Some(dropped) => self.described_dropped(dropped).await,
            None => Ok(None),
        }
    }
}

/// Returns the id of the namespace in which a resource is restored. `former` is the id of the
/// namespace that contained the resource, if the resource gets its former name. If this namespace
/// is dropped, too, the error names the namespace to restore first.
pub(super) async fn existing_namespace(
    t: &Transaction,
    warehouse: &Warehouse,
    ident: &NamespaceIdent,
    former: Option<Uuid>,
) -> Result<Uuid> {
    if let Some(id) = lookup::namespace_id(t, warehouse.id, ident).await?
        && t.get(&NamespaceKey(id)).await?.is_some()
    {
        return Ok(id);
    }
    let Some(mut id) = former else { return Err(Error::no_such_namespace(ident)) };
    let mut dropped = None;
    while let Some(namespace) = t.get(&DroppedNamespaceKey(id)).await? {
        id = namespace.record.parent;
        dropped = Some(namespace);
    }
    Err(Error::Conflict(match dropped {
        Some(outermost) => {
            let inside = Resource::warehouse(&warehouse.name).namespace(&outermost.ident());
            StateConflict::UndropNamespaceFirst(notation::resource_text(&inside))
        }
        None => StateConflict::UndropNamespace(ident.clone()),
    }))
}

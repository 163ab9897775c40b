//! Restores dropped namespaces with everything that was dropped with them, in one transaction.

use super::group::{DroppedGroup, GroupPermits};
use super::no_such_dropped;
use super::undrop::{UndropRequest, UndropResult, existing_namespace};
use crate::changed::changed_tabular;
use crate::error::{Kind, NameConflict, StateConflict};
use crate::functions::FunctionChange;
use crate::location_index::mark_index_entries;
use crate::namespaces::{entry, root_of};
use crate::overlaps::FileLocations;
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::pipeline::response::Body;
use crate::tabular::Tabulars;
use crate::tabular::commit::COMMIT_ATTEMPTS_MAX;
use crate::tabular::state::name_key;
use crate::{Error, Operation, RequestContext, Result};
use slateberg_authz::notation;
use slateberg_authz::resource::{Node, Resource};
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::dropped::DroppedNamespace;
use slateberg_store::keys::{
    DroppedFunctionKey, DroppedKey, DroppedNamespaceKey, FunctionKey, NamespaceKey,
    NamespaceNameKey, TabularKey,
};
use slateberg_store::read::StoreRead;
use slateberg_store::records::{ChangeAction, ChangedResource, NameEntry, NamespaceRecord};
use slateberg_store::txn::Transaction;
use uuid::Uuid;

/// The name of the transaction.
const ACTION: ChangeAction = ChangeAction::UndropNamespace;

/// The new names of a group, in the order of the group.
struct NewNames {
    namespaces: Vec<NamespaceIdent>,
    tabulars: Vec<TabularIdent>,
    functions: Vec<TabularIdent>,
}

impl Tabulars {
    pub(super) async fn undrop_namespace_once(
        &self,
        operation: &Operation,
        request: &UndropRequest,
    ) -> Result<UndropResult> {
        let missing = || no_such_dropped(&request.resource);
        let (name, ident) = &self.core.access.namespace_named(&request.resource)?;
        let warehouse = self.core.warehouses().by_prefix(Some(name)).map_err(|_| missing())?;
        let cx = &RequestContext { operation: operation.clone(), warehouse };
        let new_root = &self.namespace_destination(cx, ident, request)?;
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let root = self.find_dropped_namespace(&cx.warehouse, ident, request.id).await?;
            let group = &self.dropped_group(root.ok_or_else(missing)?).await?;
            let requested = (&*request.resource, new_root);
            let permits = &self.permits_of_group(cx, group, requested).await?;
            let names = &self.new_names(cx, group, new_root)?;
            let ids = group.tabulars.iter().map(|dropped| dropped.record.id).collect();
            let lanes = self.core.pipeline().lanes.enter(ids).await?;
            let Some(permit) = permits.namespaces.first() else { continue };
            let write = Write { action: ACTION, permit, lanes, versions: Vec::new() };
            let undropped = self.core.pipeline().commit_if_current(write, |t| async move {
                if !is_current(&t, group).await? {
                    return Ok(None);
                }
                let parent = self.parent_of_undropped(&t, cx, group, new_root).await?;
                let key = NamespaceNameKey {
                    parent,
                    name: new_root.0.last().cloned().unwrap_or_default(),
                };
                if t.get(&key).await?.is_some() {
                    return Err(Error::AlreadyExists(NameConflict::Namespace(new_root.clone())));
                }
                self.check_locations_of_group(&t, &cx.warehouse, group).await?;
                let entries = put_group(&t, (group, names, permits), parent)?;
                let undropped = result(&cx.warehouse, group, names);
                let response = Body(undropped.clone());
                let records =
                    self.core.pipeline().records_of_all(&cx.operation, entries, &response)?;
                Ok(Some((undropped, records)))
            });
            if let Some(undropped) = undropped.await? {
                return Ok(undropped.value);
            }
        }
        Err(Error::unavailable(
            "Gave up after repeated conflicts: the dropped namespace is changed concurrently. \
             Retry later",
            ident.to_string(),
        ))
    }

    /// Returns the name of the restored namespace.
    fn namespace_destination(
        &self,
        cx: &RequestContext,
        former: &NamespaceIdent,
        request: &UndropRequest,
    ) -> Result<NamespaceIdent> {
        let Some(new_name) = &request.new_name else { return Ok(former.clone()) };
        let (name, ident) = self.core.access.namespace_named(new_name)?;
        if name != cx.warehouse.name {
            return Err(Error::Invalid(format!(
                "Invalid new name: expected a namespace in the warehouse {}",
                cx.warehouse.name
            )));
        }
        Ok(ident)
    }

    /// Returns the new names of everything in a group. Rejects names that are too long.
    fn new_names(
        &self,
        cx: &RequestContext,
        group: &DroppedGroup,
        new_root: &NamespaceIdent,
    ) -> Result<NewNames> {
        let moved = |former: &NamespaceIdent| group.moved(former, new_root);
        let leaf = |former: TabularIdent| TabularIdent {
            namespace: moved(&former.namespace),
            name: former.name,
        };
        let names = NewNames {
            namespaces: group.namespaces.iter().map(|it| moved(&it.ident())).collect(),
            tabulars: group.tabulars.iter().map(|it| leaf(it.ident())).collect(),
            functions: group.functions.iter().map(|(ident, _)| leaf(ident.clone())).collect(),
        };
        if group.root() != *new_root {
            let environment = &self.core.environment;
            for ident in &names.namespaces {
                environment.check_namespace_name(ident)?;
                cx.warehouse.check_new_namespace(ident)?;
            }
            for ident in names.tabulars.iter().chain(&names.functions) {
                environment.check_name(ident)?;
            }
        }
        Ok(names)
    }

    /// Returns the id of the parent of a restored namespace.
    async fn parent_of_undropped(
        &self,
        t: &Transaction,
        cx: &RequestContext,
        group: &DroppedGroup,
        new_root: &NamespaceIdent,
    ) -> Result<Uuid> {
        let Some(parent) = new_root.parent().filter(|parent| !parent.is_root()) else {
            return root_of(t, &cx.warehouse).await;
        };
        let former = (group.root() == *new_root)
            .then(|| group.namespaces.first().map(|root| root.record.parent))
            .flatten();
        existing_namespace(t, &cx.warehouse, &parent, former).await
    }

    /// Rejects the restoration of a group if a location of its tables and views is in use. The
    /// error names these tables and views.
    async fn check_locations_of_group(
        &self,
        t: &Transaction,
        warehouse: &Warehouse,
        group: &DroppedGroup,
    ) -> Result<()> {
        let mut occupied = Vec::new();
        for dropped in &group.tabulars {
            let locations = FileLocations::by(None, &dropped.record);
            match self.core.environment.check_locations_free(t, locations).await {
                Err(error) if error.kind() == Kind::Invalid => {
                    let (kind, ident) = (dropped.record.kind, dropped.ident());
                    occupied.push(tabular_text(warehouse, kind, &ident));
                }
                checked => checked?,
            }
        }
        match occupied.is_empty() {
            true => Ok(()),
            false => Err(Error::Conflict(StateConflict::UndropLocations(occupied))),
        }
    }
}

/// Whether the transaction finds exactly the records of a group.
async fn is_current(t: &Transaction, group: &DroppedGroup) -> Result<bool> {
    for dropped in &group.namespaces {
        if t.get(&DroppedNamespaceKey(dropped.record.id)).await?.as_ref() != Some(dropped) {
            return Ok(false);
        }
    }
    for dropped in &group.tabulars {
        if t.get(&DroppedKey(dropped.record.id)).await?.as_ref() != Some(dropped) {
            return Ok(false);
        }
    }
    for (_, record) in &group.functions {
        let (namespace, name) = (record.namespace, record.name.clone());
        if t.get(&DroppedFunctionKey { namespace, name }).await?.as_ref() != Some(record) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the records of a restored group below `parent`, and returns the entries of the change
/// log.
fn put_group<'a>(
    t: &Transaction,
    (group, names, permits): (&'a DroppedGroup, &'a NewNames, &'a GroupPermits),
    parent: Uuid,
) -> Result<Vec<Entry<'a>>> {
    let mut entries = Vec::new();
    let namespaces = group.namespaces.iter().zip(&names.namespaces).zip(&permits.namespaces);
    for (at, ((dropped, ident), permit)) in namespaces.enumerate() {
        let record = match at {
            0 => moved(dropped, ident, parent),
            _ => dropped.record.clone(),
        };
        t.delete(&DroppedNamespaceKey(record.id))?;
        let key = NamespaceNameKey { parent: record.parent, name: record.name.clone() };
        t.put(&key, &NameEntry { id: record.id })?;
        t.put(&NamespaceKey(record.id), &record)?;
        entries.push(entry(ACTION, ident, permit, &record, (None, Some(record.version))));
    }
    let tabulars = group.tabulars.iter().zip(&names.tabulars).zip(&permits.tabulars);
    for ((dropped, ident), permit) in tabulars {
        let record = &dropped.record;
        t.delete(&DroppedKey(record.id))?;
        t.put(&name_key(record, record.kind), &NameEntry { id: record.id })?;
        t.put(&TabularKey(record.id), record)?;
        mark_index_entries(t, record, false)?;
        entries.push(Entry {
            action: match record.kind {
                TabularKind::Table => ChangeAction::UndropTable,
                TabularKind::View => ChangeAction::UndropView,
            },
            warehouse: record.warehouse,
            subject: record.id,
            name: ident,
            versions: (None, Some(record.version)),
            decision: permit.decision(),
            resource: Some(ChangedResource {
                metadata_after: Some(record.metadata_location.clone()),
                ..changed_tabular(record, &ident.namespace)
            }),
        });
    }
    let functions = group.functions.iter().zip(&names.functions).zip(&permits.functions);
    for (((_, record), ident), permit) in functions {
        let (namespace, name) = (record.namespace, record.name.clone());
        t.delete(&DroppedFunctionKey { namespace, name: name.clone() })?;
        t.put(&FunctionKey { namespace, name }, record)?;
        let (action, versions) = (ChangeAction::UndropFunction, (None, Some(record.version)));
        entries.push(FunctionChange { action, permit, ident, record, versions }.entry());
    }
    Ok(entries)
}

/// Returns the record of the restored namespace with this name and parent. Another name or parent
/// is a change, so the record gets a new version.
fn moved(dropped: &DroppedNamespace, ident: &NamespaceIdent, parent: Uuid) -> NamespaceRecord {
    let before = &dropped.record;
    let name = ident.0.last().unwrap_or(&before.name).clone();
    let is_changed = (before.parent, &before.name) != (parent, &name);
    let version = before.version + u64::from(is_changed);
    NamespaceRecord { parent, name, version, ..before.clone() }
}

fn result(warehouse: &Warehouse, group: &DroppedGroup, names: &NewNames) -> UndropResult {
    let inside = |ident: &NamespaceIdent| Resource::warehouse(&warehouse.name).namespace(ident);
    let namespaces = names.namespaces.iter().map(|ident| notation::resource_text(&inside(ident)));
    let tabulars = group.tabulars.iter().zip(&names.tabulars);
    let tabulars =
        tabulars.map(|(dropped, ident)| tabular_text(warehouse, dropped.record.kind, ident));
    let functions = names.functions.iter().map(|ident| {
        let function = inside(&ident.namespace).function(Node::named(&ident.name));
        notation::resource_text(&function)
    });
    let restored: Vec<_> = namespaces.chain(tabulars).chain(functions).collect();
    UndropResult {
        id: group.namespaces.first().map_or(Uuid::nil(), |root| root.record.id),
        resource: restored.first().cloned().unwrap_or_default(),
        metadata_location: None,
        restored,
    }
}

fn tabular_text(warehouse: &Warehouse, kind: TabularKind, ident: &TabularIdent) -> String {
    let inside = Resource::warehouse(&warehouse.name).namespace(&ident.namespace);
    notation::resource_text(&inside.tabular(kind, Node::named(&ident.name)))
}

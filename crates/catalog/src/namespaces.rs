//! Creates, lists, loads, changes and drops namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use super::core::Core;
use super::listings::Contents;
use super::listings::Listings;
use super::locations::{LOCATION_PROPERTY, namespace_location_in};
use super::pipeline::Write;
use super::pipeline::records::Entry;
use super::pipeline::response::Body;
use super::{Error, RequestContext, Result, lookup};
use crate::changed::changed_namespace;
use crate::error::{NameConflict, RuleViolation};
use crate::protections::check_unprotected;
use slateberg_authz::action::{
    Action, CreateNamespace, DescribeNamespace, DropNamespace, UpdateNamespace,
};
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Attributes, Kind, Node, Resource};
use slateberg_base::boxed;
use slateberg_model::ident::{NamespaceIdent, TabularKind};
use slateberg_model::page::{Page, PageRequest};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::dropped::DroppedNamespace;
use slateberg_store::invariants;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{
    DroppedNamespaceKey, NamespaceKey, NamespaceNameKey, WarehouseKey, tabular_names,
};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::{ChangeAction, NameEntry, NamespaceRecord};
use slateberg_store::txn::Transaction;

/// Properties, by key.
pub type Properties = BTreeMap<String, String>;

/// Properties to remove from a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removals {
    /// The properties with these keys.
    Keys(BTreeSet<String>),
    /// All properties that are not set in the same request.
    AllOthers,
}

/// Namespaces, for requests. Cheap to clone.
#[derive(Clone)]
pub struct Namespaces {
    core: Arc<Core>,
    listings: Listings,
}

impl Namespaces {
    pub(crate) fn new(core: &Arc<Core>, listings: &Listings) -> Self {
        Self { core: Arc::clone(core), listings: listings.clone() }
    }

    /// Creates a namespace. The parent must exist. Returns the body of `CreateNamespaceResponse`.
    #[boxed]
    pub async fn create_namespace(
        &self,
        cx: &RequestContext,
        ident: NamespaceIdent,
        properties: Properties,
    ) -> Result<serde_json::Value> {
        let create = |namespaces: Self, cx: RequestContext| async move {
            namespaces.create_namespace_once(&cx, &ident, &properties).await
        };
        let Body(body) = self.core.mutate(self, cx, create).await?;
        Ok(body)
    }

    async fn create_namespace_once(
        &self,
        cx: &RequestContext,
        ident: &NamespaceIdent,
        properties: &Properties,
    ) -> Result<Body<serde_json::Value>> {
        let (Some(name), Some(parent_ident)) = (ident.0.last(), ident.parent()) else {
            return Err(Error::Invalid("Invalid namespace: expected at least one level".into()));
        };
        self.core.environment.check_namespace_name(ident)?;
        cx.warehouse.check_new_namespace(ident)?;
        self.check_properties(properties)?;
        let parent = (!parent_ident.is_root()).then_some(&parent_ident);
        let attributes = Attributes {
            properties: properties.clone(),
            owner: cx.operation.owner(),
            ..Attributes::default()
        };
        let node = Node::known(name, Arc::new(attributes));
        let store = self.core.store().latest();
        let new = |inside: Resource| inside.level(node);
        let permit = self.core.access.permit_new::<CreateNamespace>(&store, cx, parent, new);
        let permit = &permit.await?;
        let id = self.core.ids().random();
        let body = &Body(json!({ "namespace": ident, "properties": properties }));
        let parent_ident = &parent_ident;
        let action = ChangeAction::CreateNamespace;
        let write = Write::of_records(action, permit);
        let created = self.core.pipeline().commit(write, |t| async move {
            let parent = if parent_ident.is_root() {
                root_of(&t, &cx.warehouse).await?
            } else {
                lookup::namespace(&*t, cx.warehouse.id, parent_ident).await?.id
            };
            let key = NamespaceNameKey { parent, name: name.clone() };
            if t.get(&key).await?.is_some() {
                return Err(Error::AlreadyExists(NameConflict::Namespace(ident.clone())));
            }
            let record = NamespaceRecord {
                id,
                warehouse: cx.warehouse.id,
                parent,
                name: name.clone(),
                properties: properties.clone(),
                version: 1,
                created_ms: self.core.now_ms(),
                owner: cx.operation.owner(),
            };
            invariants::namespace_change(None, &record).map_err(Error::internal)?;
            t.put(&key, &NameEntry { id })?;
            t.put(&NamespaceKey(id), &record)?;
            let entry = entry(action, ident, permit, &record, (None, Some(record.version)));
            Ok((body.clone(), self.core.pipeline().records(&cx.operation, Some(entry), body)?))
        });
        created.await
    }

    /// Returns the names of the namespaces directly below `parent`, or of the top-level namespaces.
    #[boxed]
    pub async fn list_namespaces(
        &self,
        cx: &RequestContext,
        parent: Option<&NamespaceIdent>,
        page: &PageRequest,
    ) -> Result<Page> {
        let contents = Contents { parent, kind: Kind::Namespace };
        self.listings.list_contents::<DescribeNamespace>(cx, contents, page).await
    }

    /// Returns the properties of a namespace. If the namespace has no property `location`, the
    /// result has this property with the default location of its tables. Trino derives the
    /// locations of its tables from this property, and creates no tables without it.
    #[boxed]
    pub async fn load_namespace(
        &self,
        cx: &RequestContext,
        ident: &NamespaceIdent,
    ) -> Result<Properties> {
        self.core.environment.check_findable_namespace(ident)?;
        let store = self.core.store().durable();
        let _permit: Permit<DescribeNamespace> =
            self.core.access.permit_namespace(&store, cx, ident).await?;
        let record = lookup::namespace(&store, cx.warehouse.id, ident).await?;
        let mut properties = record.properties;
        properties
            .entry(LOCATION_PROPERTY.to_owned())
            .or_insert_with(|| namespace_location_in(&cx.warehouse, ident));
        Ok(properties)
    }

    /// Returns an error if a namespace does not exist.
    #[boxed]
    pub async fn namespace_exists(
        &self,
        cx: &RequestContext,
        ident: &NamespaceIdent,
    ) -> Result<()> {
        self.core.environment.check_findable_namespace(ident)?;
        let store = self.core.store().durable();
        let _permit: Permit<DescribeNamespace> =
            self.core.access.permit_namespace(&store, cx, ident).await?;
        let found = lookup::namespace_id(&store, cx.warehouse.id, ident).await?;
        found.map(|_| ()).ok_or_else(|| Error::no_such_namespace(ident))
    }

    /// Sets and removes properties. Returns the body of `UpdateNamespacePropertiesResponse`.
    #[boxed]
    pub async fn update_namespace_properties(
        &self,
        cx: &RequestContext,
        ident: NamespaceIdent,
        removals: Removals,
        updates: Properties,
    ) -> Result<serde_json::Value> {
        let update = |namespaces: Self, cx: RequestContext| async move {
            namespaces.update_properties_once(&cx, &ident, &removals, &updates).await
        };
        let Body(body) = self.core.mutate(self, cx, update).await?;
        Ok(body)
    }

    async fn update_properties_once(
        &self,
        cx: &RequestContext,
        ident: &NamespaceIdent,
        removals: &Removals,
        updates: &Properties,
    ) -> Result<Body<serde_json::Value>> {
        self.core.environment.check_findable_namespace(ident)?;
        let store = self.core.store().latest();
        let permit: &Permit<UpdateNamespace> =
            &self.core.access.permit_namespace(&store, cx, ident).await?;
        removals.reject_contradiction(updates)?;
        let action = ChangeAction::UpdateNamespaceProperties;
        let write = Write::of_records(action, permit);
        let updated = self.core.pipeline().commit(write, |t| async move {
            let before = lookup::namespace(&*t, cx.warehouse.id, ident).await?;
            let (removals, updates) = removals.of(&before, &cx.warehouse, ident, updates);
            let mut after = before.clone();
            after.version += 1;
            after.properties.extend(updates.clone());
            let (removed, missing): (Vec<_>, Vec<_>) =
                removals.iter().partition(|key| after.properties.remove(*key).is_some());
            self.check_properties(&after.properties)?;
            let body = Body(json!({
                "updated": updates.keys().collect::<Vec<_>>(),
                "removed": removed,
                "missing": missing,
            }));
            let mut changed = None;
            if after.properties != before.properties {
                invariants::namespace_change(Some(&before), &after).map_err(Error::internal)?;
                t.put(&NamespaceKey(after.id), &after)?;
                let versions = (Some(before.version), Some(after.version));
                changed = Some(entry(action, ident, permit, &after, versions));
            }
            let records = self.core.pipeline().records(&cx.operation, changed, &body)?;
            Ok((body, records))
        });
        updated.await
    }

    /// Drops an empty namespace.
    #[boxed]
    pub async fn drop_namespace(&self, cx: &RequestContext, ident: NamespaceIdent) -> Result<()> {
        let drop = |namespaces: Self, cx: RequestContext| async move {
            namespaces.drop_namespace_once(&cx, &ident).await
        };
        self.core.mutate(self, cx, drop).await
    }

    async fn drop_namespace_once(&self, cx: &RequestContext, ident: &NamespaceIdent) -> Result<()> {
        self.core.environment.check_findable_namespace(ident)?;
        let store = self.core.store().latest();
        let permit: &Permit<DropNamespace> =
            &self.core.access.permit_namespace(&store, cx, ident).await?;
        let drop = &NamespaceDrop::new(&self.core, cx);
        let action = ChangeAction::DropNamespace;
        let write = Write::of_records(action, permit);
        let dropped = self.core.pipeline().commit(write, |t| async move {
            let record = lookup::namespace(&*t, cx.warehouse.id, ident).await?;
            check_unprotected(&*t, record.id, "drop").await?;
            require_empty(&t, ident, &record).await?;
            let entry = delete_namespace(&t, ident, record.id, (permit, drop)).await?;
            Ok(((), self.core.pipeline().records(&cx.operation, Some(entry), &())?))
        });
        dropped.await
    }

    fn check_properties(&self, properties: &Properties) -> Result<()> {
        let bytes: usize = properties.iter().map(|(key, value)| key.len() + value.len()).sum();
        let bytes_max = self.core.settings().namespace_properties_bytes_max;
        if bytes > bytes_max {
            return Err(Error::Invalid(format!(
                "Invalid namespace properties: {bytes} bytes, at most {bytes_max} are allowed"
            )));
        }
        Ok(())
    }
}

/// A drop of a namespace with its contents.
pub(super) struct NamespaceDrop {
    /// Id of the drop, which is also in the records of the dropped contents.
    pub(super) id: Uuid,
    /// Time of the drop.
    pub(super) at_ms: i64,
    /// Id of the principal.
    by: String,
    /// Whether everything that is dropped can be restored until its retention ends.
    pub(super) retained: bool,
}

impl NamespaceDrop {
    pub(super) fn new(core: &Core, cx: &RequestContext) -> Self {
        Self {
            id: core.ids().ordered(),
            at_ms: core.now_ms(),
            by: cx.operation.principal.id().to_owned(),
            retained: core.dropped_kept_ms(cx.warehouse.id) > 0,
        }
    }
}

/// Drops a namespace in a transaction, and returns the entry of the change log. The namespace must
/// be empty and not protected.
pub(super) async fn delete_namespace<'a>(
    t: &Transaction,
    ident: &'a NamespaceIdent,
    id: Uuid,
    (permit, drop): (&'a Permit<DropNamespace>, &NamespaceDrop),
) -> Result<Entry<'a>> {
    let record = t.get(&NamespaceKey(id)).await?;
    let record = record.ok_or_else(|| Error::no_such_namespace(ident))?;
    t.delete(&NamespaceNameKey { parent: record.parent, name: record.name.clone() })?;
    t.delete(&NamespaceKey(id))?;
    if drop.retained {
        let dropped = DroppedNamespace {
            record: record.clone(),
            namespace: ident.0.clone(),
            dropped_ms: drop.at_ms,
            dropped_by: drop.by.clone(),
            dropped_with: drop.id,
        };
        t.put(&DroppedNamespaceKey(id), &dropped)?;
    }
    Ok(entry(ChangeAction::DropNamespace, ident, permit, &record, (Some(record.version), None)))
}

/// Returns the entry of the change log for a change of a namespace.
pub(super) fn entry<'a, A: Action>(
    action: ChangeAction,
    ident: &'a NamespaceIdent,
    permit: &'a Permit<A>,
    record: &NamespaceRecord,
    versions: (Option<u64>, Option<u64>),
) -> Entry<'a> {
    Entry {
        action,
        warehouse: record.warehouse,
        subject: record.id,
        name: ident,
        versions,
        decision: permit.decision(),
        resource: Some(changed_namespace(ident)),
    }
}

impl Removals {
    fn reject_contradiction(&self, updates: &Properties) -> Result<()> {
        let Self::Keys(keys) = self else { return Ok(()) };
        let both: Vec<_> = keys.iter().filter(|key| updates.contains_key(*key)).cloned().collect();
        match both.is_empty() {
            true => Ok(()),
            false => Err(Error::Unprocessable(RuleViolation::ContradictoryProperties(both))),
        }
    }

    /// Returns the keys to remove and the properties to set. A client may load all properties and
    /// then send them back. If these properties include the default location, the location is not
    /// stored.
    fn of(
        &self,
        before: &NamespaceRecord,
        warehouse: &Warehouse,
        ident: &NamespaceIdent,
        updates: &Properties,
    ) -> (BTreeSet<String>, Properties) {
        let mut updates = updates.clone();
        if let Self::Keys(keys) = self {
            return (keys.clone(), updates);
        }
        if !before.properties.contains_key(LOCATION_PROPERTY) {
            let location = namespace_location_in(warehouse, ident);
            updates.retain(|key, value| key != LOCATION_PROPERTY || *value != location);
        }
        let others = before.properties.keys().filter(|key| !updates.contains_key(*key));
        (others.cloned().collect(), updates)
    }
}

/// Rejects the drop of a namespace that is not empty. This runs in the serializable transaction of
/// the drop, so a concurrent creation in the namespace conflicts with the drop.
async fn require_empty(
    t: &Transaction,
    ident: &NamespaceIdent,
    record: &NamespaceRecord,
) -> Result<()> {
    match contents_of(t, record.id).await? {
        None => Ok(()),
        Some(contents) => Err(Error::NamespaceNotEmpty { namespace: ident.clone(), contents }),
    }
}

/// Returns the first kind of contents directly below a namespace or warehouse. `None` if it is
/// empty.
pub(super) async fn contents_of(t: &Transaction, parent: Uuid) -> Result<Option<&'static str>> {
    let contents = [
        (KeySpace::NamespaceNames, "namespaces"),
        (tabular_names(TabularKind::Table), "tables"),
        (tabular_names(TabularKind::View), "views"),
        (KeySpace::Functions, "functions"),
    ];
    for (space, what) in contents {
        if t.any(&KeyRange::below(space, parent)).await? {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

/// Returns the parent id of a top-level namespace. Errors if the warehouse was deleted. The
/// transaction that creates the namespace reads the record of the warehouse. So the transaction
/// conflicts with a concurrent deletion of the warehouse.
pub(super) async fn root_of(t: &Transaction, warehouse: &Warehouse) -> Result<Uuid> {
    match t.get(&WarehouseKey(warehouse.name.clone())).await? {
        Some(record) if record.id == warehouse.id => Ok(record.id),
        _ => Err(Error::no_such_warehouse(&warehouse.name)),
    }
}

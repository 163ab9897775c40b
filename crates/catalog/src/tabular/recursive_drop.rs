//! Drops a namespace with everything in it, in one transaction.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::commit::COMMIT_ATTEMPTS_MAX;
use super::removal::Ending;
use super::target::Target;
use crate::changed::removed;
use crate::error::Kind;
use crate::functions::FunctionChange;
use crate::namespaces::{NamespaceDrop, delete_namespace};
use crate::pipeline::Write;
use crate::pipeline::records::Entry;
use crate::pipeline::response::Body;
use crate::protections::check_unprotected;
use crate::tabular::Tabulars;
use crate::{Error, Operation, RequestContext, Result, lookup};
use slateberg_authz::action::{Drop, DropNamespace};
use slateberg_authz::notation;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Node, Resource};
use slateberg_base::boxed;
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::functions::FunctionRecord;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{
    DroppedFunctionKey, FunctionKey, NamespaceNameKey, ProtectionKey, TabularNameKey, tabular_names,
};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::{ChangeAction, TabularRecord};
use slateberg_store::txn::Transaction;

/// The name of the transaction.
const ACTION: ChangeAction = ChangeAction::DropNamespace;
/// Maximum number of namespaces, tables, views and functions that one transaction drops.
const RESOURCES_MAX: usize = 5000;

/// A request to drop a namespace with everything in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecursiveDrop {
    /// The namespace, such as `namespace:prod/sales`.
    pub resource: String,
    /// Whether the request only returns what would be dropped.
    pub dry_run: bool,
}

/// The resources that were dropped or that would be dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedTree {
    /// Namespaces, such as `namespace:prod/sales`. Each one is after the namespace that contains
    /// it.
    pub namespaces: Vec<String>,
    /// Tables.
    pub tables: Vec<String>,
    /// Views.
    pub views: Vec<String>,
    /// Functions. Stored responses of earlier versions do not contain this field.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Those of the resources that are protected. Empty after a drop.
    pub protected: Vec<String>,
}

/// A namespace and everything in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Tree {
    /// The namespaces, each after the namespace that contains it.
    namespaces: Vec<(NamespaceIdent, Uuid)>,
    tabulars: Vec<(TabularKind, TabularIdent, Uuid)>,
    functions: Vec<(TabularIdent, FunctionRecord)>,
}

/// The permits to drop all resources of a tree.
struct Permits {
    namespaces: Vec<Permit<DropNamespace>>,
    tabulars: Vec<Permit<Drop>>,
    functions: Vec<Permit<Drop>>,
}

impl Tree {
    /// Reads the contents of a namespace.
    async fn read(store: &impl StoreRead, ident: &NamespaceIdent, id: Uuid) -> Result<Self> {
        let mut tree = Self { namespaces: vec![(ident.clone(), id)], ..Self::default() };
        let mut read = 0;
        while let Some((ident, id)) = tree.namespaces.get(read).cloned() {
            read += 1;
            let below = KeyRange::below(KeySpace::NamespaceNames, id);
            let names = store.scan::<NamespaceNameKey>(&below, tree.room()).await?;
            tree.namespaces.extend(names.into_iter().map(|(key, entry)| {
                let mut levels = ident.0.clone();
                levels.push(key.name);
                (NamespaceIdent(levels), entry.id)
            }));
            for kind in [TabularKind::Table, TabularKind::View] {
                let below = KeyRange::below(tabular_names(kind), id);
                let names = store.scan::<TabularNameKey>(&below, tree.room()).await?;
                tree.tabulars.extend(names.into_iter().map(|(key, entry)| {
                    let namespace = ident.clone();
                    (kind, TabularIdent { namespace, name: key.name }, entry.id)
                }));
            }
            let below = KeyRange::below(KeySpace::Functions, id);
            let functions = store.scan::<FunctionKey>(&below, tree.room()).await?;
            tree.functions.extend(functions.into_iter().map(|(key, record)| {
                let namespace = ident.clone();
                (TabularIdent { namespace, name: key.name }, record)
            }));
            if tree.len() > RESOURCES_MAX {
                return Err(Error::Invalid(format!(
                    "Cannot drop {} recursively: it contains more than {RESOURCES_MAX} \
                     namespaces, tables, views and functions. Drop the namespaces in it first",
                    brief(&tree.namespaces[0].0)
                )));
            }
        }
        Ok(tree)
    }

    fn len(&self) -> usize {
        self.namespaces.len() + self.tabulars.len() + self.functions.len()
    }

    /// Returns the number of names to read. One name more than the maximum is enough to detect that
    /// there are too many.
    fn room(&self) -> Option<usize> {
        Some((RESOURCES_MAX + 1).saturating_sub(self.len()))
    }

    fn ids(&self) -> impl Iterator<Item = Uuid> {
        let tabulars = self.tabulars.iter().map(|(_, _, id)| *id);
        let functions = self.functions.iter().map(|(_, record)| record.id);
        self.namespaces.iter().map(|(_, id)| *id).chain(tabulars).chain(functions)
    }

    /// Returns the names of the resources.
    fn names(&self, warehouse: &Warehouse) -> DroppedTree {
        let inside = |ident: &NamespaceIdent| Resource::warehouse(&warehouse.name).namespace(ident);
        let tabulars = |wanted: TabularKind| {
            let wanted = self.tabulars.iter().filter(move |(kind, ..)| *kind == wanted);
            let text = |(kind, ident, _): &(TabularKind, TabularIdent, Uuid)| {
                let leaf = Node::named(&ident.name);
                notation::resource_text(&inside(&ident.namespace).tabular(*kind, leaf))
            };
            wanted.map(text).collect()
        };
        let functions = self.functions.iter().map(|(ident, _)| {
            let function = inside(&ident.namespace).function(Node::named(&ident.name));
            notation::resource_text(&function)
        });
        let namespaces = self.namespaces.iter();
        let namespaces = namespaces.map(|(ident, _)| notation::resource_text(&inside(ident)));
        DroppedTree {
            namespaces: namespaces.collect(),
            tables: tabulars(TabularKind::Table),
            views: tabulars(TabularKind::View),
            functions: functions.collect(),
            protected: Vec::new(),
        }
    }
}

impl Tabulars {
    /// Drops a namespace with all namespaces, tables, views and functions in it. The caller needs
    /// `DropNamespace` on each namespace, and `Drop` on each table, view and function. The namespace
    /// can be restored with its contents during the retention. If one of the resources is
    /// protected, nothing is dropped.
    #[boxed]
    pub async fn drop_recursively(
        &self,
        operation: &Operation,
        request: RecursiveDrop,
    ) -> Result<DroppedTree> {
        let (name, ident) = self.core.access.namespace_named(&request.resource)?;
        let warehouse = self.core.warehouses().by_prefix(Some(&name));
        let warehouse =
            warehouse.map_err(|absent| self.core.access.without_permissions(operation, absent))?;
        self.core.environment.check_findable_namespace(&ident)?;
        let cx = RequestContext { operation: operation.clone(), warehouse };
        if request.dry_run {
            return self.droppable_tree(&cx, &ident).await;
        }
        let drop = move |tabulars: Self, cx: RequestContext| async move {
            tabulars.drop_tree_once(&cx, &ident).await.map(Body)
        };
        let Body(dropped) = self.core.mutate(self, &cx, drop).await?;
        Ok(dropped)
    }

    /// Returns what would be dropped now.
    async fn droppable_tree(
        &self,
        cx: &RequestContext,
        ident: &NamespaceIdent,
    ) -> Result<DroppedTree> {
        let (tree, _) = self.permitted_tree(cx, ident).await?;
        let store = self.core.store().latest();
        let mut names = tree.names(&cx.warehouse);
        for id in tree.ids() {
            let protection = store.get(&ProtectionKey(id)).await?;
            names.protected.extend(protection.map(|record| record.resource));
        }
        Ok(names)
    }

    async fn drop_tree_once(
        &self,
        cx: &RequestContext,
        ident: &NamespaceIdent,
    ) -> Result<DroppedTree> {
        let drop = &NamespaceDrop::new(&self.core, cx);
        let end = match drop.retained {
            true => Ending::Retain { purge: false, at_ms: drop.at_ms, with: Some(drop.id) },
            false => Ending::Forget,
        };
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            // Rejects callers without permission before they wait for the lanes.
            let (tree, _) = self.permitted_tree(cx, ident).await?;
            let ids = tree.tabulars.iter().map(|(_, _, id)| *id).collect();
            let lanes = self.core.pipeline().lanes.enter(ids).await?;
            let (now, permits) = self.permitted_tree(cx, ident).await?;
            let ([permit, ..], true) = (&permits.namespaces[..], now == tree) else { continue };
            let (tree, permits) = (&tree, &permits);
            let dropped = &tree.names(&cx.warehouse);
            let write = Write { action: ACTION, permit, lanes, versions: Vec::new() };
            let committed = self.core.pipeline().commit_if_current(write, |t| async move {
                let root = lookup::namespace(&*t, cx.warehouse.id, ident).await?;
                // This read lets the transaction conflict with concurrent creations and renames.
                if Tree::read(&*t, ident, root.id).await? != *tree {
                    return Ok(None);
                }
                for (_, id) in &tree.namespaces {
                    check_unprotected(&*t, *id, "drop").await?;
                }
                let mut records = Vec::with_capacity(tree.tabulars.len());
                for (kind, ident, id) in &tree.tabulars {
                    let target = Target { warehouse: &cx.warehouse, kind: *kind, ident };
                    let found = self.delete_tabular(&t, &cx.operation, target, (*id, end)).await?;
                    records.push(found.record);
                }
                let tabulars = tree.tabulars.iter().zip(&records).zip(&permits.tabulars);
                let mut entries: Vec<_> = tabulars
                    .map(|(((kind, ident, _), record), permit)| {
                        dropped_entry(*kind, ident, record, permit)
                    })
                    .collect();
                for ((ident, record), permit) in tree.functions.iter().zip(&permits.functions) {
                    entries.push(drop_function(&t, ident, record, (permit, drop)).await?);
                }
                for ((ident, id), permit) in tree.namespaces.iter().zip(&permits.namespaces).rev() {
                    entries.push(delete_namespace(&t, ident, *id, (permit, drop)).await?);
                }
                let response = Body(dropped.clone());
                let records =
                    self.core.pipeline().records_of_all(&cx.operation, entries, &response)?;
                Ok(Some(((), records)))
            });
            if committed.await?.is_some() {
                return Ok(dropped.clone());
            }
        }
        Err(Error::unavailable(
            "Gave up after repeated conflicts: the namespace is changed concurrently. Retry later",
            ident.to_string(),
        ))
    }

    /// Returns a namespace and its contents, with the permits to drop all of them.
    async fn permitted_tree(
        &self,
        cx: &RequestContext,
        ident: &NamespaceIdent,
    ) -> Result<(Tree, Permits)> {
        let (store, access) = (self.core.store().latest(), &self.core.access);
        let root = access.permit_namespace(&store, cx, ident).await?;
        let record = lookup::namespace(&store, cx.warehouse.id, ident).await?;
        let tree = Tree::read(&store, ident, record.id).await?;
        let mut permits =
            Permits { namespaces: vec![root], tabulars: Vec::new(), functions: Vec::new() };
        let denied = |error: Error| denied(ident, error);
        for (inner, _) in tree.namespaces.iter().skip(1) {
            let permit = access.permit_namespace(&store, cx, inner).await;
            permits.namespaces.push(permit.map_err(denied)?);
        }
        for (kind, ident, _) in &tree.tabulars {
            let target = Target { warehouse: &cx.warehouse, kind: *kind, ident };
            let permit = access.permit_tabular(&store, &cx.operation, target).await;
            permits.tabulars.push(permit.map_err(denied)?);
        }
        for (ident, record) in &tree.functions {
            let permit = access.permit_function(&store, cx, ident, Some(record)).await;
            permits.functions.push(permit.map_err(denied)?);
        }
        Ok((tree, permits))
    }
}

/// Returns the error for a resource in the namespace that the caller may not drop. This error does
/// not name a resource that the caller may not see.
fn denied(namespace: &NamespaceIdent, error: Error) -> Error {
    match error.kind() {
        Kind::NoSuchNamespace | Kind::NoSuchTable | Kind::NoSuchView | Kind::NoSuchFunction => {
            Error::Forbidden(format!(
                "Not allowed: dropping {} recursively: it contains resources that the principal may \
             not drop",
                brief(namespace)
            ))
        }
        _ => error,
    }
}

/// Drops a function with its namespace, and returns the entry of the change log.
async fn drop_function<'a>(
    t: &Transaction,
    ident: &'a TabularIdent,
    record: &'a FunctionRecord,
    (permit, drop): (&'a Permit<Drop>, &NamespaceDrop),
) -> Result<Entry<'a>> {
    check_unprotected(t, record.id, "drop").await?;
    let (namespace, name) = (record.namespace, record.name.clone());
    t.delete(&FunctionKey { namespace, name: name.clone() })?;
    if drop.retained {
        t.put(&DroppedFunctionKey { namespace, name }, record)?;
    }
    let (action, versions) = (ChangeAction::DropFunction, (Some(record.version), None));
    Ok(FunctionChange { action, permit, ident, record, versions }.entry())
}

/// Returns the entry of the change log for a dropped table or view.
fn dropped_entry<'a>(
    kind: TabularKind,
    ident: &'a TabularIdent,
    record: &TabularRecord,
    permit: &'a Permit<Drop>,
) -> Entry<'a> {
    Entry {
        action: match kind {
            TabularKind::Table => ChangeAction::DropTable,
            TabularKind::View => ChangeAction::DropView,
        },
        warehouse: record.warehouse,
        subject: record.id,
        name: ident,
        versions: (Some(record.version), None),
        decision: permit.decision(),
        resource: Some(removed(record, &ident.namespace)),
    }
}

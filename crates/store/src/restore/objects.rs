//! Resolves the names of the warehouses, namespaces, tables, views and functions that a restore changes.

use std::collections::HashMap;

use serde::Serialize;
use uuid::Uuid;

use crate::error::Error;
use crate::key_space::KeySpace;
use crate::keys::{NamespaceKey, WarehouseKey};
use crate::read::{KeyRange, StoreRead};
use slateberg_model::ident::TabularKind;

/// Kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectKind {
    /// A warehouse.
    Warehouse,
    /// A namespace.
    Namespace,
    /// A table.
    Table,
    /// A view.
    View,
    /// A function.
    Function,
}

/// An object that a restore changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Warehouse, levels of the namespace, and name.
    pub name: Vec<String>,
    /// Current name, if the restore renames the object.
    pub renamed_from: Option<Vec<String>>,
}

/// Objects that a restore changes, ordered by kind and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    /// Objects that exist only in the earlier state.
    pub restored: Vec<Object>,
    /// Objects that exist in both states, but differ.
    pub changed: Vec<Object>,
    /// Objects that exist only in the current state.
    pub removed: Vec<Object>,
}

/// Parent and name. A warehouse has no parent.
pub(super) type ParentAndName = (Option<Uuid>, String);

/// An object whose full name is not resolved yet.
pub(super) struct UnresolvedObject {
    pub(super) kind: ObjectKind,
    pub(super) now: Option<ParentAndName>,
    pub(super) then: Option<ParentAndName>,
}

/// Names of the warehouses and namespaces of one state.
struct StateNames {
    warehouses: HashMap<Uuid, String>,
    namespaces: HashMap<Uuid, (Uuid, String)>,
}

impl From<TabularKind> for ObjectKind {
    fn from(kind: TabularKind) -> Self {
        match kind {
            TabularKind::Table => Self::Table,
            TabularKind::View => Self::View,
        }
    }
}

impl Objects {
    /// Resolves the names of the objects of a plan.
    pub(super) async fn resolve(
        unresolved: Vec<UnresolvedObject>,
        now: &impl StoreRead,
        then: &impl StoreRead,
    ) -> Result<Self, Error> {
        let mut objects = Self::default();
        if unresolved.is_empty() {
            return Ok(objects);
        }
        let (names_now, names_then) = (StateNames::read(now).await?, StateNames::read(then).await?);
        for UnresolvedObject { kind, now, then } in unresolved {
            let before = now.map(|name| names_now.path(name));
            let after = then.map(|name| names_then.path(name));
            let (list, name, renamed_from) = match (before, after) {
                (Some(before), Some(after)) => {
                    let renamed_from = (before != after).then_some(before);
                    (&mut objects.changed, after, renamed_from)
                }
                (None, Some(after)) => (&mut objects.restored, after, None),
                (Some(before), None) => (&mut objects.removed, before, None),
                (None, None) => continue,
            };
            list.push(Object { kind, name, renamed_from });
        }
        for list in [&mut objects.restored, &mut objects.changed, &mut objects.removed] {
            list.sort();
        }
        Ok(objects)
    }
}

impl StateNames {
    async fn read(state: &impl StoreRead) -> Result<Self, Error> {
        let warehouses = KeyRange::all(KeySpace::WarehouseNames);
        let warehouses = state.scan::<WarehouseKey>(&warehouses, None).await?;
        let namespaces = KeyRange::all(KeySpace::Namespaces);
        let namespaces = state.scan::<NamespaceKey>(&namespaces, None).await?;
        Ok(Self {
            warehouses: warehouses.into_iter().map(|(key, record)| (record.id, key.0)).collect(),
            namespaces: namespaces
                .into_iter()
                .map(|(key, record)| (key.0, (record.parent, record.name)))
                .collect(),
        })
    }

    fn path(&self, (mut parent, name): ParentAndName) -> Vec<String> {
        let mut path = vec![name];
        // The length is limited, because parents may form a cycle in a damaged store.
        while let Some(id) = parent
            && path.len() <= self.namespaces.len() + 1
        {
            let (above, name) = match self.namespaces.get(&id) {
                Some((above, name)) => (Some(*above), name.clone()),
                None => (None, self.warehouses.get(&id).cloned().unwrap_or_else(|| id.to_string())),
            };
            path.push(name);
            parent = above;
        }
        path.reverse();
        path
    }
}

//! [`Scope`]: the resources that a watch selects.

use std::sync::Arc;

use uuid::Uuid;

use super::event_type::EventType;
use crate::Result;
use crate::changed::changed;
use crate::core::Core;
use slateberg_authz::resource::{Kind, Resource};
use slateberg_store::records::{Change, ChangedKind, ChangedResource, PreviousName};

/// The resources that a watch selects. Tables, views and functions are selected by name, so a watch
/// can begin before its table exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything.
    All,
    /// A warehouse and its contents, by the id of the warehouse.
    Warehouse(Uuid),
    /// A namespace and its contents: the id of the warehouse, and the levels of the name.
    Namespace(Uuid, Vec<String>),
    /// A table, view or function in the warehouse with this id.
    Tabular(Uuid, ChangedResource),
}

impl Scope {
    /// Returns the scope of a resource.
    pub(super) fn of(core: &Core, resource: &Resource) -> Result<Self> {
        let Some(described) = changed(resource) else { return Ok(Self::All) };
        let warehouse = core.warehouses().by_prefix(resource.warehouse_name())?.id;
        Ok(match resource.kind() {
            Kind::Catalog => Self::All,
            Kind::Warehouse => Self::Warehouse(warehouse),
            Kind::Namespace => Self::Namespace(warehouse, described.namespace),
            Kind::Table | Kind::View | Kind::Function => Self::Tabular(warehouse, described),
        })
    }

    /// Whether a change is in the scope.
    pub(super) fn contains(&self, change: &Change) -> bool {
        let resource = change.resource.as_ref();
        match self {
            Self::All => true,
            Self::Warehouse(id) => change.warehouse == *id,
            Self::Namespace(id, levels) => {
                change.warehouse == *id
                    && resource.is_some_and(|resource| {
                        let before = resource.renamed_from.as_ref();
                        resource.namespace.starts_with(levels)
                            || before.is_some_and(|before| before.namespace.starts_with(levels))
                    })
            }
            Self::Tabular(id, wanted) => {
                change.warehouse == *id
                    && resource.is_some_and(|resource| {
                        let is_wanted = |namespace: &[String], name: &str| {
                            wanted.namespace == namespace && wanted.name.as_deref() == Some(name)
                        };
                        let name = resource.name.as_deref().unwrap_or_default();
                        let before = resource.renamed_from.as_ref();
                        resource.kind == wanted.kind
                            && (is_wanted(&resource.namespace, name)
                                || before.is_some_and(|it| is_wanted(&it.namespace, &it.name)))
                    })
            }
        }
    }
}

/// For a caller that may see only the new name: converts a rename into the creation of the resource
/// under that name.
pub(super) fn rename_as_creation(change: &Change) -> (Arc<Change>, EventType) {
    let mut change = change.clone();
    let resource = change.resource.as_mut();
    let kind = resource.as_ref().map_or(ChangedKind::Table, |resource| resource.kind);
    if let Some(resource) = resource {
        resource.renamed_from = None;
    }
    (Arc::new(change), EventType::created(kind))
}

/// For a caller that may see only the old name: converts a rename into the drop of the resource
/// under that name.
pub(super) fn rename_as_drop(change: &Change) -> (Arc<Change>, EventType) {
    let mut change = change.clone();
    let resource = change.resource.as_mut();
    let kind = resource.as_ref().map_or(ChangedKind::Table, |resource| resource.kind);
    if let Some(resource) = resource
        && let Some(PreviousName { namespace, name }) = resource.renamed_from.take()
    {
        resource.namespace = namespace;
        resource.name = Some(name);
    }
    (Arc::new(change), EventType::dropped(kind))
}

//! The part of a change that a caller may see.

use std::sync::Arc;

use crate::attributes::{attributes_of_function, attributes_of_levels};
use crate::core::Core;
use crate::{Operation, Result, lookup};
use slateberg_authz::action::{Action, DescribeNamespace, Load, ReadConfig, ReadHistory};
use slateberg_authz::authority::{Decider, PrincipalDecider};
use slateberg_authz::resource::{Kind, Node, Resource};
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::warehouse::Warehouse;
use slateberg_store::keys::NamespaceKey;
use slateberg_store::read::StoreRead;
use slateberg_store::records::{Change, ChangedKind, ChangedResource};

/// The part of a change that a caller may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// The whole change.
    Change,
    /// For a rename: only the new name.
    Creation,
    /// For a rename: only the old name.
    Drop,
    /// Nothing.
    Nothing,
    /// The visible part cannot be determined, because policies use attributes of a resource that no
    /// longer exists.
    Unknown,
}

/// The caller of a watch.
pub(super) struct Viewer<'a> {
    pub(super) core: &'a Core,
    pub(super) operation: &'a Operation,
}

impl Viewer<'_> {
    /// Returns what the caller may see of a change, according to the policies in force.
    pub(super) async fn sight(&self, change: &Change) -> Result<Sight> {
        let asking = match self.core.access.ask(self.operation)? {
            Decider::Unrestricted(_) => return Ok(Sight::Change),
            Decider::Policies(asking) => asking,
        };
        let shown = |yes| if yes { Sight::Change } else { Sight::Nothing };
        let Some(resource) = &change.resource else {
            return Ok(shown(asking.may::<ReadHistory>(&Resource::catalog())));
        };
        if resource.kind == ChangedKind::Warehouse {
            let name = resource.name.as_deref().unwrap_or_default();
            return Ok(shown(asking.may::<ReadConfig>(&Resource::warehouse(name))));
        }
        let Some(warehouse) = self.core.warehouses().by_id(change.warehouse) else {
            return Ok(Sight::Unknown);
        };
        let kind = match resource.kind {
            ChangedKind::Table => Some(Kind::Table),
            ChangedKind::View => Some(Kind::View),
            ChangedKind::Function => Some(Kind::Function),
            ChangedKind::Warehouse | ChangedKind::Namespace => None,
        };
        let namespace = NamespaceIdent(resource.namespace.clone());
        let Some(kind) = kind else {
            let wanted = asking.wants_attributes(&[DescribeNamespace::NAME]);
            if wanted
                && self.core.store().durable().get(&NamespaceKey(change.subject)).await?.is_none()
            {
                return Ok(Sight::Unknown);
            }
            let inside = self.inside(&warehouse, &namespace, wanted).await?;
            return Ok(inside.map_or(Sight::Unknown, |resource| {
                shown(asking.may::<DescribeNamespace>(&resource))
            }));
        };
        let after = self.may_load(&asking, &warehouse, (kind, change), resource).await?;
        let Some(before) = &resource.renamed_from else {
            return Ok(after.map_or(Sight::Unknown, shown));
        };
        let old = ChangedResource {
            namespace: before.namespace.clone(),
            name: Some(before.name.clone()),
            ..resource.clone()
        };
        let before = self.may_load(&asking, &warehouse, (kind, change), &old).await?;
        Ok(match (before, after) {
            (Some(true), Some(true)) => Sight::Change,
            (Some(false), Some(true)) => Sight::Creation,
            (Some(true), Some(false)) => Sight::Drop,
            (Some(false), Some(false)) => Sight::Nothing,
            _ => Sight::Unknown,
        })
    }

    /// Whether the caller may load a table, view or function under this name. `None` if policies use
    /// attributes, and the resource or its namespace no longer exists.
    async fn may_load(
        &self,
        asking: &PrincipalDecider<'_>,
        warehouse: &Warehouse,
        (kind, change): (Kind, &Change),
        named: &ChangedResource,
    ) -> Result<Option<bool>> {
        let wanted = asking.wants_attributes(&[Load::NAME]);
        let namespace = NamespaceIdent(named.namespace.clone());
        let Some(inside) = self.inside(warehouse, &namespace, wanted).await? else {
            return Ok(None);
        };
        let node = Node::named(named.name.as_deref().unwrap_or_default());
        let tabular = match kind {
            Kind::Function => None,
            Kind::View => Some(TabularKind::View),
            _ => Some(TabularKind::Table),
        };
        let mut resource = match tabular {
            Some(kind) => inside.tabular(kind, node),
            None => inside.function(node),
        };
        if wanted {
            let store = self.core.store().durable();
            let access = &self.core.access;
            let attributes = match tabular {
                Some(kind) => {
                    let found = access.attributes_of(&store, kind, change.subject).await?;
                    found.map(|(attributes, _)| attributes)
                }
                None => {
                    let name = named.name.clone().unwrap_or_default();
                    let ident = TabularIdent { namespace, name };
                    let found = lookup::function(&store, warehouse.id, &ident).await?;
                    let same = found.filter(|record| record.id == change.subject);
                    same.as_ref().map(attributes_of_function)
                }
            };
            let Some(attributes) = attributes else { return Ok(None) };
            resource = resource.with(Arc::new(attributes));
        }
        Ok(Some(asking.may::<Load>(&resource)))
    }

    /// Returns a namespace as a resource, with its attributes if `wanted`. `None` if the attributes
    /// are wanted, but the namespace no longer exists.
    async fn inside(
        &self,
        warehouse: &Warehouse,
        namespace: &NamespaceIdent,
        wanted: bool,
    ) -> Result<Option<Resource>> {
        let resource = Resource::warehouse(&warehouse.name).namespace(namespace);
        if !wanted {
            return Ok(Some(resource));
        }
        let levels =
            attributes_of_levels(&self.core.store().durable(), warehouse, namespace).await?;
        let exists = levels.len() == namespace.0.len() + 1;
        Ok(exists.then(|| resource.with_all(levels)))
    }
}

//! Looks up resources by the names that clients send, and returns the errors for resources that the
//! caller may not see.

use super::attributes::namespace_resource;
use super::tabular::target::Target;
use super::{Error, Operation, Result, lookup};
use crate::access::Access;
use slateberg_authz::action::{Action, DescribeNamespace, Load, ReadConfig};
use slateberg_authz::authority::PrincipalDecider;
use slateberg_authz::notation;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Kind, Resource};
use slateberg_model::ident::{NamespaceIdent, TabularIdent, TabularKind};
use slateberg_model::members::brief;
use slateberg_store::read::StoreRead;
use uuid::Uuid;

/// A resource that was looked up by its name.
pub(super) struct NamedResource {
    /// The resource. If policies use attributes, the resource has the attributes of each level that
    /// exists.
    pub(super) resource: Resource,
    /// Whether the resource exists.
    pub(super) there: bool,
}

/// The actions that decide whether a resource is visible.
pub(super) const VISIBILITY_ACTIONS: [&str; 3] =
    [ReadConfig::NAME, DescribeNamespace::NAME, Load::NAME];

/// The names that a resource consists of.
enum ResourceNames {
    Catalog,
    Warehouse,
    Namespace(NamespaceIdent),
    Tabular(TabularKind, TabularIdent),
    Function(TabularIdent),
}

fn named(resource: &Resource) -> ResourceNames {
    let levels = resource.nodes().iter().skip(1);
    let mut levels: Vec<_> = levels.map(|level| level.name.to_string()).collect();
    let kind = match resource.kind() {
        Kind::Catalog => return ResourceNames::Catalog,
        Kind::Warehouse => return ResourceNames::Warehouse,
        Kind::Namespace => return ResourceNames::Namespace(NamespaceIdent(levels)),
        Kind::Table => Some(TabularKind::Table),
        Kind::View => Some(TabularKind::View),
        Kind::Function => None,
    };
    let name = levels.pop().unwrap_or_default();
    let ident = TabularIdent { namespace: NamespaceIdent(levels), name };
    match kind {
        Some(kind) => ResourceNames::Tabular(kind, ident),
        None => ResourceNames::Function(ident),
    }
}

impl Access {
    /// Parses the name of a resource, such as `table:prod/sales/orders`. If no resource can have
    /// the name, returns the error for a missing resource to every caller. No policies are
    /// evaluated in this case.
    pub(super) fn resource_named(&self, name: &str) -> Result<Resource> {
        let resource = notation::resource(name);
        let resource = resource?;
        let warehouse = resource.warehouse_name().unwrap_or_default();
        if warehouse.len() > self.environment.settings().name_bytes_max {
            return Err(Error::no_such_warehouse(warehouse));
        }
        match named(&resource) {
            ResourceNames::Catalog | ResourceNames::Warehouse => {}
            ResourceNames::Namespace(ident) => self.environment.check_findable_namespace(&ident)?,
            ResourceNames::Tabular(kind, ident) => {
                self.environment.check_findable(kind, &ident)?;
            }
            ResourceNames::Function(ident) => self.environment.check_findable_function(&ident)?,
        }
        Ok(resource)
    }

    /// Parses the name of a table or view, such as `table:prod/sales/orders`. Returns the
    /// warehouse, the kind, and the name in the warehouse.
    pub(super) fn tabular_named(&self, name: &str) -> Result<(String, TabularKind, TabularIdent)> {
        let resource = notation::resource(name)?;
        match (named(&resource), resource.warehouse_name()) {
            (ResourceNames::Tabular(kind, ident), Some(warehouse)) => {
                Ok((warehouse.to_owned(), kind, ident))
            }
            _ => Err(Error::Invalid(format!(
                "not a table or view: '{}'. Write table:WAREHOUSE/NAMESPACE/NAME, such as \
                 table:default/sales/orders, or view:WAREHOUSE/NAMESPACE/NAME",
                brief(name)
            ))),
        }
    }

    /// Parses the name of a namespace, such as `namespace:prod/sales`. Returns the warehouse, and
    /// the name in the warehouse.
    pub(super) fn namespace_named(&self, name: &str) -> Result<(String, NamespaceIdent)> {
        let resource = notation::resource(name)?;
        match (named(&resource), resource.warehouse_name()) {
            (ResourceNames::Namespace(ident), Some(warehouse)) => Ok((warehouse.to_owned(), ident)),
            _ => Err(Error::Invalid(format!(
                "not a namespace: '{}'. Write namespace:WAREHOUSE/LEVEL..., such as \
                 namespace:default/sales",
                brief(name)
            ))),
        }
    }

    /// Parses the name of a function, such as `function:prod/sales/add_tax`. Returns the warehouse,
    /// and the name in the warehouse.
    pub(super) fn function_named(&self, name: &str) -> Result<(String, TabularIdent)> {
        let resource = notation::resource(name)?;
        match (named(&resource), resource.warehouse_name()) {
            (ResourceNames::Function(ident), Some(warehouse)) => Ok((warehouse.to_owned(), ident)),
            _ => Err(Error::Invalid(format!(
                "not a function: '{}'. Write function:WAREHOUSE/NAMESPACE/NAME, such as \
                 function:default/sales/add_tax",
                brief(name)
            ))),
        }
    }

    /// Returns the error for a warehouse that does not exist or that the caller may not see. `None`
    /// if the caller may see it.
    pub(super) fn hidden_warehouse(&self, operation: &Operation, warehouse: &str) -> Option<Error> {
        let visible = self.may::<ReadConfig>(operation, &Resource::warehouse(warehouse))
            && self.environment.warehouses().by_prefix(Some(warehouse)).is_ok();
        (!visible).then(|| Error::no_such_warehouse(warehouse))
    }

    /// Returns the id of the resource's warehouse and the id of the resource. `None` if the
    /// resource does not exist or is the catalog.
    pub(super) async fn id_of(
        &self,
        store: &impl StoreRead,
        resource: &Resource,
    ) -> Result<Option<(Uuid, Uuid)>> {
        let name = resource.warehouse_name();
        let Ok(warehouse) = self.environment.warehouses().by_prefix(name) else { return Ok(None) };
        let id = match named(resource) {
            ResourceNames::Catalog => None,
            ResourceNames::Warehouse => Some(warehouse.id),
            ResourceNames::Namespace(ident) => {
                lookup::namespace_id(store, warehouse.id, &ident).await?
            }
            ResourceNames::Tabular(kind, ident) => {
                lookup::tabular_id(store, warehouse.id, kind, &ident).await?
            }
            ResourceNames::Function(ident) => {
                lookup::function(store, warehouse.id, &ident).await?.map(|record| record.id)
            }
        };
        Ok(id.map(|id| (warehouse.id, id)))
    }

    /// Looks up a resource. Reads attributes only if policies use them for one of these actions.
    pub(super) async fn described(
        &self,
        resource: Resource,
        actions: &[&str],
    ) -> Result<NamedResource> {
        let Some(name) = resource.warehouse_name() else {
            return Ok(NamedResource { resource, there: true });
        };
        let Ok(warehouse) = self.environment.warehouses().by_prefix(Some(name)) else {
            return Ok(NamedResource { resource, there: false });
        };
        let store = self.environment.store().durable();
        let policies = self.authority.policies();
        let needed = actions.iter().any(|action| policies.asks(action).attributes);
        match named(&resource) {
            ResourceNames::Catalog | ResourceNames::Warehouse => {
                Ok(NamedResource { resource, there: true })
            }
            ResourceNames::Namespace(ident) => {
                let there = lookup::namespace_id(&store, warehouse.id, &ident).await?.is_some();
                let resource = namespace_resource(&store, needed, &warehouse, &ident).await?;
                Ok(NamedResource { resource, there })
            }
            ResourceNames::Tabular(kind, ident) => {
                let id = lookup::tabular_id(&store, warehouse.id, kind, &ident).await?;
                let target = Target { warehouse: &warehouse, kind, ident: &ident };
                let (resource, _) = self.tabular_resource(&store, needed, target).await?;
                Ok(NamedResource { resource, there: id.is_some() })
            }
            ResourceNames::Function(ident) => {
                let found = lookup::function(&store, warehouse.id, &ident).await?;
                let named = (&*warehouse, &ident);
                let resource =
                    self.function_resource(&store, needed, named, found.as_ref()).await?;
                Ok(NamedResource { resource, there: found.is_some() })
            }
        }
    }

    /// Returns the permit to do `A` on a resource. Without it, a resource that the caller may not see
    /// counts as missing.
    pub(super) fn permit_named<A: Action>(
        &self,
        operation: &Operation,
        asking: &PrincipalDecider<'_>,
        described: &NamedResource,
    ) -> Result<Permit<A>> {
        asking.permit(&described.resource).map_err(|denied| {
            let hidden = self.hidden(operation, described);
            self.refuse(operation, &denied, &described.resource, hidden)
        })
    }

    /// Returns the error for a missing resource if the caller may not see the resource or if the
    /// resource does not exist. Otherwise returns `None`.
    pub(super) fn hidden(&self, operation: &Operation, described: &NamedResource) -> Option<Error> {
        let NamedResource { resource, there } = described;
        let warehouse = resource.warehouse_name()?;
        if let Some(hidden) = self.hidden_warehouse(operation, warehouse) {
            return Some(hidden);
        }
        match named(resource) {
            ResourceNames::Catalog | ResourceNames::Warehouse => None,
            ResourceNames::Namespace(ident) => {
                let visible = *there && self.may::<DescribeNamespace>(operation, resource);
                (!visible).then(|| Error::no_such_namespace(&ident))
            }
            ResourceNames::Tabular(kind, ident) => {
                let visible = *there && self.may::<Load>(operation, resource);
                (!visible).then(|| Error::no_such(kind, &ident))
            }
            ResourceNames::Function(ident) => {
                let visible = *there && self.may::<Load>(operation, resource);
                (!visible).then(|| Error::no_such_function(&ident))
            }
        }
    }

    /// Returns the error for a missing resource. Only for callers that may learn whether the
    /// resource exists. `None` if it exists.
    pub(super) fn missing(&self, described: &NamedResource) -> Option<Error> {
        let NamedResource { resource, there } = described;
        let warehouse = resource.warehouse_name().filter(|_| !there)?;
        Some(match named(resource) {
            ResourceNames::Namespace(ident)
                if self.environment.warehouses().by_prefix(Some(warehouse)).is_ok() =>
            {
                Error::no_such_namespace(&ident)
            }
            ResourceNames::Tabular(kind, ident)
                if self.environment.warehouses().by_prefix(Some(warehouse)).is_ok() =>
            {
                Error::no_such(kind, &ident)
            }
            ResourceNames::Function(ident)
                if self.environment.warehouses().by_prefix(Some(warehouse)).is_ok() =>
            {
                Error::no_such_function(&ident)
            }
            _ => Error::no_such_warehouse(warehouse),
        })
    }

    /// Whether the caller may do `A` on `resource`.
    pub(super) fn may<A: Action>(&self, operation: &Operation, resource: &Resource) -> bool {
        let Operation { principal, context, .. } = operation;
        self.authority.authorize::<A>(principal, resource, context).is_ok()
    }
}

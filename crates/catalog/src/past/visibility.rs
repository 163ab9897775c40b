//! Permissions for earlier states.

use super::{PastResource, PastStates};
use crate::attributes::namespace_resource;
use crate::tabular::target::Target;
use crate::{Error, RequestContext, Result, lookup};
use slateberg_authz::action::{Action, DescribeNamespace, List, Load, Undrop};
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Node, Resource};
use slateberg_model::ident::{NamespaceIdent, TabularKind};
use slateberg_store::keys::{NamespaceKey, TabularKey};
use slateberg_store::read::StoreRead;
use slateberg_store::records::ChangedKind;

impl PastStates {
    /// Checks that the caller may list a namespace, or the warehouse if `parent` is empty.
    pub(super) async fn permit_list(
        &self,
        cx: &RequestContext,
        parent: &NamespaceIdent,
    ) -> Result<()> {
        let (access, store) = (&self.core.access, self.core.store().durable());
        if parent.is_root() {
            let name = &cx.warehouse.name;
            let _permit: Permit<List> =
                access.permit_warehouse(&cx.operation, &cx.warehouse, name)?;
            return Ok(());
        }
        if lookup::namespace_id(&store, cx.warehouse.id, parent).await?.is_some() {
            let _permit: Permit<List> = access.permit_namespace(&store, cx, parent).await?;
            return Ok(());
        }
        let resource = Resource::warehouse(&cx.warehouse.name).namespace(parent);
        match self.may_restore(cx, &resource) {
            true => Ok(()),
            false => Err(Error::no_such_namespace(parent)),
        }
    }

    /// Whether the caller may see a past resource.
    pub(super) async fn is_visible(
        &self,
        cx: &RequestContext,
        past: &PastResource,
    ) -> Result<bool> {
        let (access, store) = (&self.core.access, self.core.store().durable());
        let wants = |action| access.authority.policies().asks(action).attributes;
        let namespace = NamespaceIdent(past.namespace.clone());
        let Some(name) = &past.name else {
            if store.get(&NamespaceKey(past.id)).await?.is_none() {
                let resource = Resource::warehouse(&cx.warehouse.name).namespace(&namespace);
                return Ok(self.may_restore(cx, &resource));
            }
            let wanted = wants(DescribeNamespace::NAME);
            let resource = namespace_resource(&store, wanted, &cx.warehouse, &namespace).await?;
            return Ok(access.may::<DescribeNamespace>(&cx.operation, &resource));
        };
        let kind = match past.kind {
            ChangedKind::View => TabularKind::View,
            _ => TabularKind::Table,
        };
        let Some(record) = store.get(&TabularKey(past.id)).await? else {
            let inside = Resource::warehouse(&cx.warehouse.name).namespace(&namespace);
            return Ok(self.may_restore(cx, &inside.tabular(kind, Node::named(name))));
        };
        let ident = lookup::ident_of(&store, &record).await?;
        let target = Target { warehouse: &cx.warehouse, kind, ident: &ident };
        let (resource, _) = access.tabular_resource(&store, wants(Load::NAME), target).await?;
        Ok(access.may::<Load>(&cx.operation, &resource))
    }

    /// Whether the caller may restore a resource that no longer exists. The answer is no if policies
    /// use attributes, because the resource has none any longer.
    fn may_restore(&self, cx: &RequestContext, resource: &Resource) -> bool {
        let access = &self.core.access;
        !access.authority.policies().asks(Undrop::NAME).attributes
            && access.may::<Undrop>(&cx.operation, resource)
    }
}

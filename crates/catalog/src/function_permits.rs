//! Permits for requests on functions.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::attributes::{attributes_of_function, namespace_resource};
use super::{Error, RequestContext, Result};
use crate::access::Access;
use slateberg_authz::action::{Action, Commit, CommitProperties, CommitSchema, Load};
use slateberg_authz::authority::{Decider, PrincipalDecider};
use slateberg_authz::commit_kind::CommitKind;
use slateberg_authz::decide::Denied;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Node, Resource};
use slateberg_model::ident::TabularIdent;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::functions::FunctionRecord;
use slateberg_store::read::StoreRead;

/// The actions that may be necessary to replace a function.
const REPLACE_ACTIONS: [&str; 3] = [CommitSchema::NAME, CommitProperties::NAME, Load::NAME];

impl Access {
    /// Returns a function as a resource. If `wanted`, the resource has the attributes of each level
    /// that exists.
    pub(super) async fn function_resource(
        &self,
        store: &impl StoreRead,
        wanted: bool,
        (warehouse, ident): (&Warehouse, &TabularIdent),
        found: Option<&FunctionRecord>,
    ) -> Result<Resource> {
        let inside = namespace_resource(store, wanted, warehouse, &ident.namespace).await?;
        let resource = inside.function(Node::named(&ident.name));
        if !wanted {
            return Ok(resource);
        }
        let attributes = found.map(attributes_of_function).unwrap_or_default();
        Ok(resource.with(Arc::new(attributes)))
    }

    /// Returns the permit to do `A` on a function.
    pub(super) async fn permit_function<A: Action>(
        &self,
        store: &impl StoreRead,
        cx: &RequestContext,
        ident: &TabularIdent,
        found: Option<&FunctionRecord>,
    ) -> Result<Permit<A>> {
        let asking = match self.ask(&cx.operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        let wanted = asking.wants_attributes(&[A::NAME, Load::NAME]);
        let named = (&*cx.warehouse, ident);
        let resource = self.function_resource(store, wanted, named, found).await?;
        let permit = asking.permit(&resource);
        permit.map_err(|denied| self.deny(cx, &asking, ident, (&resource, found, &denied)))
    }

    /// Returns the permit for changes of these kinds to a function.
    pub(super) async fn permit_replacement(
        &self,
        store: &impl StoreRead,
        cx: &RequestContext,
        ident: &TabularIdent,
        (found, kinds): (Option<&FunctionRecord>, &BTreeSet<CommitKind>),
    ) -> Result<Permit<Commit>> {
        let asking = match self.ask(&cx.operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        let wanted = asking.wants_attributes(&REPLACE_ACTIONS);
        let named = (&*cx.warehouse, ident);
        let resource = self.function_resource(store, wanted, named, found).await?;
        let permit = asking.permit_commit(&resource, kinds);
        permit.map_err(|denied| self.deny(cx, &asking, ident, (&resource, found, &denied)))
    }

    /// Returns the error for a denied action on a function.
    fn deny(
        &self,
        cx: &RequestContext,
        asking: &PrincipalDecider<'_>,
        ident: &TabularIdent,
        (resource, found, denied): (&Resource, Option<&FunctionRecord>, &Denied),
    ) -> Error {
        let visible = asking.may::<Load>(resource) && found.is_some();
        let absent = (!visible).then(|| Error::no_such_function(ident));
        self.refuse(&cx.operation, denied, resource, absent)
    }
}

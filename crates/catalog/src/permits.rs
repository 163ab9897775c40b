//! Checks the permissions of requests, and returns the errors of denied requests. If the caller may
//! not see a resource, the error is exactly the same as for a resource that does not exist. For a
//! denied action on a visible resource, the error is `Forbidden`.
//!
//! Names are validated before policies are evaluated on them, so the number of levels and the
//! length of a name are bounded. This discloses nothing, because no resource can have an invalid
//! name.
//!
//! Policies are evaluated on names alone if no policy uses attributes. Otherwise, the attributes of
//! the resource and of its enclosing namespaces are read first. Changes of tables are checked
//! twice. The first check is before the request enters the commit lane, so that callers without
//! permission do not wait there. The second check is in the lane, because the attributes may have
//! changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::instrument;

use super::attributes::{Enclosing, EvaluatedVersion, attributes_of_levels, namespace_resource};
use super::tabular::target::{Creation, Intent, Target};
use super::{Error, Operation, RequestContext, Result, lookup};
use crate::access::Access;
use slateberg_authz::action::{Action, Commit, Create, DescribeNamespace, Load, ReadConfig};
use slateberg_authz::authority::{Decider, PrincipalDecider};
use slateberg_authz::commit_kind::CommitKind;
use slateberg_authz::decide::Denied;
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Attributes, Node, Resource};
use slateberg_model::ident::NamespaceIdent;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::read::StoreRead;
use slateberg_telemetry::traces::TARGET;

/// A permit to do `A` on a table or view.
pub(super) struct WithPermit<A: Action, T> {
    /// The permit.
    pub(super) permit: Permit<A>,
    /// Result of the additional policy evaluation. `None` on a server without authentication.
    pub(super) besides: Option<T>,
    /// The state that the decision was based on.
    pub(super) basis: EvaluatedVersion,
}

/// The actions that a commit may need.
const COMMIT_ACTIONS: [&str; 6] = {
    use slateberg_authz::action::{
        CommitData, CommitLocation, CommitProperties, CommitRefs, CommitSchema,
    };
    [
        CommitData::NAME,
        CommitSchema::NAME,
        CommitProperties::NAME,
        CommitRefs::NAME,
        CommitLocation::NAME,
        Load::NAME,
    ]
};

impl Access {
    /// Returns the policy decider for the caller of a request. Errors for background tasks, which
    /// create their own permits.
    pub(super) fn ask<'a>(&'a self, operation: &'a Operation) -> Result<Decider<'a>> {
        let Operation { principal, context, .. } = operation;
        let asking = self.authority.ask(principal, context);
        asking.map_err(|denied| self.refuse(operation, &denied, &Resource::catalog(), None))
    }

    /// Returns the permit to do `A` on the catalog.
    pub(super) fn permit_catalog<A: Action>(&self, operation: &Operation) -> Result<Permit<A>> {
        let asking = match self.ask(operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        let resource = Resource::catalog();
        let permitted = asking.permit(&resource);
        permitted.map_err(|denied| self.refuse(operation, &denied, &resource, None))
    }

    /// Returns the permit to do `A` on a warehouse.
    #[instrument(target = TARGET, name = "authorize", level = "debug", skip_all)]
    pub(super) fn permit_warehouse<A: Action>(
        &self,
        operation: &Operation,
        warehouse: &Warehouse,
        requested: &str,
    ) -> Result<Permit<A>> {
        let asking = match self.ask(operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        let resource = Resource::warehouse(&warehouse.name);
        asking.permit(&resource).map_err(|denied| {
            let visible = asking.may::<ReadConfig>(&resource);
            // The error is the same as for a missing warehouse.
            let absent = (!visible).then(|| Error::no_such_warehouse(requested));
            self.refuse(operation, &denied, &resource, absent)
        })
    }

    /// Returns the permit to do `A` on a namespace.
    #[instrument(target = TARGET, name = "authorize", level = "debug", skip_all)]
    pub(super) async fn permit_namespace<A: Action>(
        &self,
        store: &impl StoreRead,
        cx: &RequestContext,
        ident: &NamespaceIdent,
    ) -> Result<Permit<A>> {
        let asking = match self.ask(&cx.operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        let actions = [A::NAME, DescribeNamespace::NAME];
        let needed = asking.wants_attributes(&actions);
        let resource = namespace_resource(store, needed, &cx.warehouse, ident).await?;
        match asking.permit(&resource) {
            Ok(permit) => Ok(permit),
            Err(denied) => {
                let absent =
                    absent_namespace(store, &asking, &cx.warehouse, ident, &resource).await?;
                Err(self.refuse(&cx.operation, &denied, &resource, absent))
            }
        }
    }

    /// Returns the permit for `A`, which creates a namespace, table or view. `new` returns the
    /// future resource. `parent` is its namespace, or `None` for the root of the warehouse.
    #[instrument(target = TARGET, name = "authorize", level = "debug", skip_all)]
    pub(super) async fn permit_new<A: Action>(
        &self,
        store: &impl StoreRead,
        cx: &RequestContext,
        parent: Option<&NamespaceIdent>,
        new: impl FnOnce(Resource) -> Resource + Send,
    ) -> Result<Permit<A>> {
        let asking = match self.ask(&cx.operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        let root = NamespaceIdent::default();
        let actions = [A::NAME, DescribeNamespace::NAME];
        let inside = parent.unwrap_or(&root);
        let needed = asking.wants_attributes(&actions);
        let inside = namespace_resource(store, needed, &cx.warehouse, inside).await?;
        let resource = new(inside.clone());
        let denied = match asking.permit(&resource) {
            Ok(permit) => return Ok(permit),
            Err(denied) => denied,
        };
        let absent = match parent {
            Some(parent) => {
                absent_namespace(store, &asking, &cx.warehouse, parent, &inside).await?
            }
            None => None,
        };
        Err(self.refuse(&cx.operation, &denied, &resource, absent))
    }

    /// Returns the permit for `A`, which creates a table or view. Rejects an invalid name before it
    /// evaluates policies.
    pub(super) async fn permit_creation<A: Action>(
        &self,
        cx: &RequestContext,
        creation: Creation<'_>,
    ) -> Result<Permit<A>> {
        let Creation { kind, ident, properties, location } = creation;
        self.environment.check_name(ident)?;
        let store = self.environment.store().latest();
        let new = |inside: Resource| {
            let attributes = Attributes {
                properties: properties.clone(),
                location: location.cloned(),
                owner: cx.operation.owner(),
            };
            let node = Node::known(&ident.name, Arc::new(attributes));
            inside.tabular(kind, node)
        };
        self.permit_new(&store, cx, Some(&ident.namespace), new).await
    }

    /// Returns the permit to do `A` on a table or view.
    pub(super) async fn permit_tabular<A: Action>(
        &self,
        store: &impl StoreRead,
        operation: &Operation,
        target: Target<'_>,
    ) -> Result<Permit<A>> {
        let nothing = |_: &PrincipalDecider<'_>, _: &Resource, _: &Permit<A>| ();
        Ok(self.permit_tabular_and(store, operation, target, &[], nothing).await?.permit)
    }

    /// Returns the permit to do `A` on a table or view, and the result of the function `and`. This
    /// function evaluates the other `actions` by the same policies.
    #[instrument(target = TARGET, name = "authorize", level = "debug", skip_all)]
    pub(super) async fn permit_tabular_and<A: Action, T>(
        &self,
        store: &impl StoreRead,
        operation: &Operation,
        target: Target<'_>,
        actions: &[&str],
        and: impl FnOnce(&PrincipalDecider<'_>, &Resource, &Permit<A>) -> T,
    ) -> Result<WithPermit<A, T>> {
        let asking = match self.ask(operation)? {
            Decider::Unrestricted(unrestricted) => {
                let permit = unrestricted.permit();
                return Ok(WithPermit { permit, besides: None, basis: EvaluatedVersion::Names });
            }
            Decider::Policies(asking) => asking,
        };
        let needed =
            asking.wants_attributes(&[A::NAME, Load::NAME]) || asking.wants_attributes(actions);
        let (resource, basis) = self.tabular_resource(store, needed, target).await?;
        match asking.permit(&resource) {
            Ok(permit) => {
                let besides = Some(and(&asking, &resource, &permit));
                Ok(WithPermit { permit, besides, basis })
            }
            Err(denied) => Err(self
                .deny_tabular(store, operation, &asking, target, (&resource, &denied))
                .await?),
        }
    }

    /// Returns the error for a denied action on a table or view.
    async fn deny_tabular(
        &self,
        store: &impl StoreRead,
        operation: &Operation,
        asking: &PrincipalDecider<'_>,
        target: Target<'_>,
        (resource, denied): (&Resource, &Denied),
    ) -> Result<Error> {
        let Target { warehouse, kind, ident } = target;
        let visible = asking.may::<Load>(resource)
            && lookup::tabular_id(store, warehouse.id, kind, ident).await?.is_some();
        let absent = (!visible).then(|| Error::no_such(kind, ident));
        Ok(self.refuse(operation, denied, resource, absent))
    }

    /// Returns the permit to commit changes of these kinds to a table or view in its current state.
    #[instrument(target = TARGET, name = "authorize", level = "debug", skip_all)]
    pub(super) async fn permit_commit(
        &self,
        store: &impl StoreRead,
        operation: &Operation,
        target: Target<'_>,
        kinds: &BTreeSet<CommitKind>,
    ) -> Result<Permit<Commit>> {
        let asking = match self.ask(operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        let needed = asking.wants_attributes(&COMMIT_ACTIONS);
        let (resource, _) = self.tabular_resource(store, needed, target).await?;
        match asking.permit_commit(&resource, kinds) {
            Ok(permit) => Ok(permit),
            Err(denied) => Err(self
                .deny_tabular(store, operation, &asking, target, (&resource, &denied))
                .await?),
        }
    }

    /// Returns the attributes of the namespaces that enclose a table or view, if policies on
    /// commits use them.
    pub(super) async fn enclosing_of_commit(
        &self,
        store: &impl StoreRead,
        cx: &RequestContext,
        namespace: &NamespaceIdent,
    ) -> Result<Enclosing> {
        match self.ask(&cx.operation)? {
            Decider::Policies(asking) if asking.wants_attributes(&COMMIT_ACTIONS) => {
                attributes_of_levels(store, &cx.warehouse, namespace).await
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the permit for a commit to an existing table with these attributes. If the commit
    /// requires that the table does not exist, evaluates `Create` instead. Such a commit is
    /// rejected later, because the table exists.
    #[instrument(target = TARGET, name = "authorize", level = "debug", skip_all)]
    pub(super) fn permit_commit_in_lane(
        &self,
        operation: &Operation,
        target: Target<'_>,
        enclosing: &Enclosing,
        attributes: impl FnOnce() -> Attributes,
        intent: Intent,
    ) -> Result<Permit<Commit>> {
        let asking = match self.ask(operation)? {
            Decider::Unrestricted(unrestricted) => return Ok(unrestricted.permit()),
            Decider::Policies(asking) => asking,
        };
        let Target { warehouse, kind, ident } = target;
        let inside = Resource::warehouse(&warehouse.name).namespace(&ident.namespace);
        let leaf = match asking.wants_attributes(&COMMIT_ACTIONS) {
            true => Node::known(&ident.name, Arc::new(attributes())),
            false => Node::named(&ident.name),
        };
        let resource = inside.with_all(enclosing.clone()).tabular(kind, leaf);
        let permit = match intent {
            Intent::Create => asking.permit::<Create>(&resource).map(Permit::from),
            Intent::Change(kinds) => asking.permit_commit(&resource, &kinds),
        };
        permit.map_err(|denied| {
            let visible = asking.may::<Load>(&resource);
            let absent = (!visible).then(|| Error::no_such(kind, ident));
            self.refuse(operation, &denied, &resource, absent)
        })
    }
}

/// Returns the error for a namespace that does not exist or that the caller may not see. `None` if
/// it exists and the caller may see it.
async fn absent_namespace(
    store: &impl StoreRead,
    asking: &PrincipalDecider<'_>,
    warehouse: &Warehouse,
    ident: &NamespaceIdent,
    resource: &Resource,
) -> Result<Option<Error>> {
    let visible = asking.may::<DescribeNamespace>(resource)
        && lookup::namespace_id(store, warehouse.id, ident).await?.is_some();
    Ok((!visible).then(|| Error::no_such_namespace(ident)))
}
